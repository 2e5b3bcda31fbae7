//! Turns that outlive their runner: taken over, answered once, never mistaken for a stranger.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use claude_code_runner::sdk::store::Store;
use claude_code_runner::sdk::wire::run::{FollowupState, RunState};
use claude_code_runner::sys::lock::FileLock;
use serde_json::json;
use uuid::Uuid;

use super::{
    followup_is, followup_states, nothing_is_left, processes_of, reached, reported_states, setup, turns,
    waiting_tool, world,
};
use crate::support::runner_process::RunnerProcess;
use crate::support::wait::eventually;
use crate::support::world::World;

/// A world with one live turn whose runner has stopped.
fn left_alone(lines: &[&str]) -> (World, Uuid, Uuid) {
    let mut world = world(lines);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    session_is_reported(&world, 1);
    world.stop_runner().unwrap();
    (world, thread, run)
}

fn session_is_reported(world: &World, count: usize) {
    let reported = || world.hooks.wait_for("reportAgentSession", count, Duration::from_secs(60));
    assert!(reported());
}

fn pid_file(world: &World, run: Uuid) -> PathBuf {
    world.state().join("turns").join(format!("{run}.pid"))
}

fn record(world: &World, run: Uuid) -> PathBuf {
    world.state().join("turns").join(format!("{run}.json"))
}

/// Ends the turn as a crash of the host would, and waits until nothing of it is left.
fn kill_turn(world: &World, run: Uuid) {
    for pid in processes_of(&world.state(), run) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    eventually("the turn is gone", || processes_of(&world.state(), run).is_empty().then_some(()));
}

fn turns_dir_is_empty(world: &World) {
    eventually("nothing is kept of ended turns", || {
        let names: Vec<_> = std::fs::read_dir(world.state().join("turns")).unwrap().flatten().collect();
        names.iter().all(|name| name.path().extension().is_some_and(|it| it == "damaged")).then_some(())
    });
}

/// Three runs that were asked for by one, two and three end with one answer, costs and one turn each.
#[track_caller]
fn each_is_answered_once(world: &World, asked: Vec<(Uuid, Uuid)>) {
    for ((thread, run), word) in asked.into_iter().zip(["one", "two", "three"]) {
        let found = world.ends_as(run, RunState::Completed, None);
        let answers = world.answer_texts(thread);
        assert!(answers.len() == 1 && answers[0].contains(word), "{answers:?}");
        assert!(found.costs.is_some());
        nothing_is_left(world, run);
    }
    assert_eq!(turns(world), 3);
    turns_dir_is_empty(world);
}

#[test]
fn three_live_turns_are_taken_over_and_answered_once_each() {
    let mut world = world(&["max_parallel_runs = 3"]);
    world.claude.steps(json!([waiting_tool(), {"text": "about {{text}}"}]));
    let asked: Vec<_> = ["one", "two", "three"].iter().map(|text| world.asks(text)).collect();
    eventually("three turns", || (turns(&world) == 3).then_some(()));
    session_is_reported(&world, 3);
    world.stop_runner().unwrap();
    world.start_runner();
    eventually("the heartbeat counts them", || {
        let beats = world.hooks.requests_of("sendHeartbeat");
        beats.iter().filter_map(|beat| beat.json()).find(|beat| beat["details"]["active_runs"] == 3)
    });
    world.claude.release("go");
    each_is_answered_once(&world, asked);
}

/// The same with a runner that is killed, and with one that a signal stops; both are processes of their own.
#[test]
fn three_live_turns_outlive_a_runner_that_is_killed_or_terminated() {
    for killed in [true, false] {
        let world = World::without_runner(setup(&["max_parallel_runs = 3"]));
        world.claude.steps(json!([waiting_tool(), {"text": "about {{text}}"}]));
        let mut runner = RunnerProcess::start(&world, None, None);
        let asked: Vec<_> = ["one", "two", "three"].iter().map(|text| world.asks(text)).collect();
        eventually("three turns", || (turns(&world) == 3).then_some(()));
        session_is_reported(&world, 3);
        if killed {
            runner.kill();
        } else {
            assert!(runner.stop().success());
        }
        let runner = RunnerProcess::start(&world, None, None);
        world.claude.release("go");
        each_is_answered_once(&world, asked);
        assert!(runner.stop().success());
    }
}

/// Nothing of a run is sent before the first poll, without a position, was answered with nothing.
#[test]
fn nothing_is_sent_before_the_server_had_nothing_more_to_say() {
    let (mut world, thread, run) = left_alone(&["stop_grace = \"300ms\""]);
    world.claude.release("go");
    eventually("the turn has ended", || (!world.claude.captured("end").is_empty()).then_some(()));
    world.person.stops(run);
    let before = world.hooks.requests().len();
    world.start_runner();
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
    let requests = world.hooks.requests().split_off(before);
    let at = |operation: &str| requests.iter().position(|request| request.operation == operation);
    let polls: Vec<_> = requests.iter().filter(|request| request.operation == "pollEvents").collect();
    assert!(!polls[0].query.contains("after=") && polls[0].query.contains("wait_ms=0"), "{}", polls[0].query);
    assert!(polls[1].query.contains("wait_ms=0"), "{}", polls[1].query);
    let second_poll =
        requests.iter().enumerate().filter(|(_, it)| it.operation == "pollEvents").nth(1).unwrap().0;
    assert!(at("finishRun").unwrap() > second_poll);
}

#[test]
fn a_turn_that_ended_while_nobody_watched_is_answered() {
    let (mut world, thread, run) = left_alone(&[]);
    world.claude.release("go");
    eventually("the turn has ended", || (!world.claude.captured("end").is_empty()).then_some(()));
    world.start_runner();
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
    assert!(found.costs.is_some());
    turns_dir_is_empty(&world);
}

/// What an ended turn left in a session of its own is ended too, though its process is gone.
#[test]
fn leftovers_of_a_turn_that_ended_while_nobody_watched_are_ended() {
    let mut world = world(&[]);
    world.claude.steps(json!([
        {"tool": {"name": "Bash", "input": {}, "do": [{"helper": "heartbeat"}, {"mark": "reached"}, {"hold": "go"}]}}, {"text": "done"},
    ]));
    let (_, run) = world.asks("one");
    reached(&world, "reached");
    reached(&world, "heartbeat");
    world.stop_runner().unwrap();
    world.claude.release("go");
    eventually("the turn has ended", || (!world.claude.captured("end").is_empty()).then_some(()));
    assert!(!processes_of(&world.state(), run).is_empty());
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    nothing_is_left(&world, run);
}

/// A world whose turn works and has a second message of its thread already.
fn with_followup() -> (World, Uuid, Uuid) {
    let world = world(&[]);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.person.says(thread, "two");
    followup_is(&world, run, FollowupState::Delivered);
    (world, thread, run)
}

#[test]
fn a_follow_up_survives_the_change_of_runners_with_one_final_state() {
    let (mut world, thread, run) = with_followup();
    world.stop_runner().unwrap();
    world.start_runner();
    world.person.says(thread, "three");
    eventually("the later message is refused", || {
        (followup_states(&world, run).get(1) == Some(&Some(FollowupState::Refused))).then_some(())
    });
    assert_eq!(world.person.run(run).state, RunState::Running);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Absorbed), Some(FollowupState::Refused)]);
    // A report whose answer the stop cut off is made again, which changes nothing.
    let mut reported = reported_states(&world);
    reported.dedup();
    assert_eq!(reported, ["delivered", "refused", "absorbed"]);
    let next = world.server.operator().runs(thread).unwrap()[0].run_id;
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done", "done"]);
}

/// A message that the process has already is not refused when its event comes once more: the server would
/// open a run for it too.
#[test]
fn a_follow_up_whose_event_comes_again_is_not_refused() {
    let (mut world, thread, run) = with_followup();
    let store = Store::connect(&world.state().join("inbox.sqlite3")).unwrap();
    let stored = store.open_followups(run).unwrap().remove(0).followup;
    drop(store);
    world.stop_runner().unwrap();
    let polls = world.hooks.count("pollEvents");
    world.start_runner();
    eventually("the runner serves", || (world.hooks.count("pollEvents") > polls + 1).then_some(()));
    let operator = world.server.operator();
    let seq = operator.publish("agent.followup", &json!(stored)).unwrap();
    eventually("the repeat is acknowledged", || {
        let waiting = operator.unacknowledged("default").unwrap();
        waiting.iter().all(|event| event["seq"] != json!(seq)).then_some(())
    });
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Absorbed)]);
    assert_eq!(world.server.operator().runs(thread).unwrap().len(), 1);
}

/// A message that came while no runner ran is stored and refused by the next one.
#[test]
fn a_follow_up_that_comes_while_nobody_watches_is_refused() {
    let (mut world, thread, run) = left_alone(&[]);
    world.person.says(thread, "two");
    world.start_runner();
    followup_is(&world, run, FollowupState::Refused);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    let next = world.server.operator().runs(thread).unwrap()[0].run_id;
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread).len(), 2);
}

struct Stranger(Child);

impl Stranger {
    fn new() -> Stranger {
        Stranger(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// C2-05: a recorded pid that is another process now, of this user or another, is not the turn.
#[test]
fn c2_05_a_stranger_with_the_recorded_pid_is_never_signalled() {
    for (name, stops) in [("ended", false), ("with a stop", true)] {
        let (mut world, thread, run) = left_alone(&["stop_grace = \"200ms\""]);
        kill_turn(&world, run);
        let mut stranger = Stranger::new();
        std::fs::write(pid_file(&world, run), format!("{} 1\n", stranger.0.id())).unwrap();
        if stops {
            world.person.stops(run);
        }
        world.start_runner();
        let (state, reason) =
            if stops { (RunState::Cancelled, "user_stop") } else { (RunState::Failed, "runtime_error") };
        world.ends_as(run, state, Some(reason));
        assert!(stranger.lives(), "{name}");
        assert_eq!(world.answer_texts(thread).len(), usize::from(!stops), "{name}");
        turns_dir_is_empty(&world);
    }
    let (mut world, _, run) = left_alone(&[]);
    kill_turn(&world, run);
    // Process 1 belongs to another user for everybody but root.
    std::fs::write(pid_file(&world, run), "1 1\n").unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
}

/// A pid of another boot is nobody, whatever lives under it now.
#[test]
fn a_turn_of_another_boot_is_not_adopted() {
    let (mut world, _, run) = left_alone(&[]);
    kill_turn(&world, run);
    let mut stranger = Stranger::new();
    let pid = stranger.0.id();
    let start = claude_code_runner::sys::process::start_time(i32::try_from(pid).unwrap()).unwrap();
    std::fs::write(pid_file(&world, run), format!("{pid} {start}\n")).unwrap();
    let mut kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record(&world, run)).unwrap()).unwrap();
    kept["boot_id"] = json!("another-boot");
    std::fs::write(record(&world, run), kept.to_string()).unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    assert!(stranger.lives());
}

#[test]
fn an_empty_pid_file_means_that_the_process_never_came_to_be() {
    let (mut world, _, run) = left_alone(&[]);
    kill_turn(&world, run);
    std::fs::write(pid_file(&world, run), "").unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
    turns_dir_is_empty(&world);
}

/// Also after the host has started anew: what never came to be has no result to miss.
#[test]
fn an_empty_pid_file_of_another_boot_means_the_same() {
    let (mut world, thread, run) = left_alone(&[]);
    kill_turn(&world, run);
    std::fs::write(pid_file(&world, run), "").unwrap();
    let mut kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record(&world, run)).unwrap()).unwrap();
    kept["boot_id"] = json!("another-boot");
    std::fs::write(record(&world, run), kept.to_string()).unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
    turns_dir_is_empty(&world);
}

/// Unless somebody holds the thread's lock: then the file is about to be written, and is read again.
#[test]
fn an_empty_pid_file_of_a_process_that_begins_is_read_again() {
    let (mut world, thread, run) = left_alone(&[]);
    let line = std::fs::read_to_string(pid_file(&world, run)).unwrap();
    std::fs::write(pid_file(&world, run), "").unwrap();
    let path = world.state().join("locks").join(format!("thread-{thread}.lock"));
    assert!(FileLock::try_acquire(&path).unwrap().is_none(), "the turn holds its lock");
    world.start_runner();
    let polls = world.hooks.count("pollEvents");
    eventually("the runner serves", || (world.hooks.count("pollEvents") > polls + 1).then_some(()));
    std::fs::write(pid_file(&world, run), line).unwrap();
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}

#[test]
fn a_started_run_without_a_record_is_interrupted() {
    let (mut world, thread, run) = left_alone(&[]);
    kill_turn(&world, run);
    std::fs::remove_file(record(&world, run)).unwrap();
    std::fs::remove_file(pid_file(&world, run)).unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
    assert_eq!((world.answer_texts(thread).len(), turns(&world)), (0, 1));
}

/// C8-01: a state file of zeros, of nothing, of half of itself, with a BOM.
fn damages(whole: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let with_mark = [b"\xef\xbb\xbf".as_slice(), whole].concat();
    [
        ("zeros", vec![0; 1466]),
        ("nothing", Vec::new()),
        ("half", whole[..whole.len() / 2].to_vec()),
        ("mark", with_mark),
    ]
}

#[test]
fn c8_01_a_damaged_record_is_set_aside_and_its_turn_is_ended() {
    for nth in 0..4 {
        let (mut world, thread, run) = left_alone(&[]);
        let path = record(&world, run);
        let (name, bytes) = damages(&std::fs::read(&path).unwrap())[nth].clone();
        std::fs::write(&path, bytes).unwrap();
        world.start_runner();
        world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
        nothing_is_left(&world, run);
        assert!(path.with_extension("json.damaged").exists(), "{name}");
        goes_on(&mut world, thread);
    }
}

#[test]
fn c8_01_a_damaged_inbox_is_set_aside_and_its_turns_are_ended() {
    for nth in 0..3 {
        let (mut world, thread, run) = left_alone(&[]);
        let path = world.state().join("inbox.sqlite3");
        let (name, bytes) = damages(&std::fs::read(&path).unwrap())[nth].clone();
        for beside in ["inbox.sqlite3-wal", "inbox.sqlite3-shm"] {
            let _ = std::fs::remove_file(world.state().join(beside));
        }
        std::fs::write(&path, bytes).unwrap();
        world.start_runner();
        println!("inbox of {name}");
        world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
        nothing_is_left(&world, run);
        goes_on(&mut world, thread);
    }
}

/// The runner serves the next message, also after another start.
fn goes_on(world: &mut World, thread: Uuid) {
    world.claude.answers("an answer");
    for _ in 0..2 {
        let next = world.person.says(thread, "again").run_id.unwrap();
        world.ends_as(next, RunState::Completed, None);
        world.stop_runner().unwrap();
        world.start_runner();
    }
}

/// What a write that was cut off left is removed at the next start.
#[test]
fn a_half_written_record_is_removed() {
    let (mut world, _, run) = left_alone(&[]);
    let partial = world.state().join("turns").join(format!(".{run}.json.0.tmp"));
    std::fs::write(&partial, "{").unwrap();
    world.start_runner();
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert!(!partial.exists());
}

/// C2-11: the turn has its own stdio and the two locks, nothing of the runner.
#[test]
fn c2_11_a_turn_inherits_its_stdio_and_its_locks_only() {
    let (mut world, _, run) = left_alone(&[]);
    let pid = processes_of(&world.state(), run)[0];
    let open = Path::new("/proc").join(pid.to_string()).join("fd");
    let targets: Vec<String> = std::fs::read_dir(open)
        .unwrap()
        .flatten()
        .filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.display().to_string()))
        .filter(|target| target.starts_with('/'))
        .collect();
    let inside: Vec<_> = targets.iter().filter(|target| target.contains("/s/")).collect();
    assert_eq!(inside.iter().filter(|target| target.ends_with(".lock")).count(), 2, "{inside:?}");
    assert!(
        inside.iter().all(|target| !target.contains("runner.lock") && !target.contains("sqlite")),
        "{inside:?}"
    );
    assert!(!targets.iter().any(|target| target.contains("socket")), "{targets:?}");
    world.start_runner();
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
}

/// C7-01: many restarts repeat nothing.
#[test]
fn c7_01_restarts_repeat_nothing() {
    let mut world = World::without_runner(setup(&[]));
    let (thread, run) = world.asks("one");
    for _ in 0..10 {
        world.start_runner();
        world.stop_runner().unwrap();
    }
    world.start_runner();
    world.ends(run);
    let found = world.person.run(run);
    assert!(matches!(found.state, RunState::Completed | RunState::Interrupted), "{:?}", found.state);
    let expected = usize::from(found.state == RunState::Completed);
    assert_eq!(world.answer_texts(thread).len(), expected);
    for _ in 0..2 {
        world.stop_runner().unwrap();
        world.start_runner();
    }
    assert_eq!(world.answer_texts(thread).len(), expected);
}
