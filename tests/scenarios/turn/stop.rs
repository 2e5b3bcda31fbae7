//! Stop, at every place of a run (turn-paths "Stop"): the signal follows the event at once, nothing of the turn
//! is left, no answer comes, and the run ends `cancelled` with the reason of the request.

use std::time::{Duration, Instant};

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::run::{FollowupState, RunState};
use claude_code_runner::sys::lock::FileLock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{followup_is, followup_states, nothing_is_left, reached, setup, turns, waiting_tool, world};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::World;

/// Far above what is measured here: a run thread that only looked every so often would be seen.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Graces of the ladder and a poll interval that hides no missing wake-up.
const LINES: &[&str] = &["poll_interval = \"2s\"", "stop_grace = \"300ms\"", "kill_grace = \"300ms\""];

/// Presses Stop, waits for the first SIGINT in the capture, and prints and checks how long that took.
fn stops_and_signals(world: &World, run: Uuid, place: &str) {
    let begin = Instant::now();
    world.person.stops(run);
    eventually("SIGINT", || {
        world.claude.captured("signal").iter().any(|it| it["name"] == "SIGINT").then_some(())
    });
    let took = begin.elapsed();
    println!("stop {place}: SIGINT after {} ms", took.as_millis());
    assert!(took < POLL_INTERVAL, "{place}: {took:?}");
}

/// Checks everything that holds after a stop.
fn is_stopped(world: &World, thread: Uuid, run: Uuid) {
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
    nothing_is_left(world, run);
}

/// The same for a place where no process may come to be.
fn is_stopped_before_its_start(world: &World, thread: Uuid, run: Uuid, place: &str) {
    let begin = Instant::now();
    world.person.stops(run);
    is_stopped(world, thread, run);
    let took = begin.elapsed();
    println!("stop {place}: cancelled after {} ms", took.as_millis());
    assert!(took < POLL_INTERVAL, "{place}: {took:?}");
    assert_eq!(turns(world), 0, "{place}");
}

#[test]
fn stop_before_the_runner_has_seen_the_run() {
    let mut world = World::without_runner(setup(LINES));
    let (thread, run) = world.asks("one");
    world.person.stops(run);
    world.start_runner();
    is_stopped(&world, thread, run);
    assert_eq!((turns(&world), world.hooks.count("startRun")), (0, 0));
}

#[test]
fn stop_in_the_wait_for_a_lock() {
    let world = world(LINES);
    let thread = world.thread();
    let locks = world.state().join("locks");
    eventually("the state directory", || locks.exists().then_some(()));
    let _held = FileLock::try_acquire(&locks.join(format!("thread-{thread}.lock"))).unwrap().unwrap();
    let run = world.person.says(thread, "one").run_id.unwrap();
    eventually("the run is accepted", || (world.hooks.count("ackEvents") > 0).then_some(()));
    is_stopped_before_its_start(&world, thread, run, "in the lock wait");
    assert_eq!(world.hooks.count("startRun"), 0);
}

#[test]
fn stop_in_the_wait_for_a_slot() {
    let mut lines = LINES.to_vec();
    lines.push("max_parallel_runs = 1");
    let world = world(&lines);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (busy_thread, busy) = world.asks("one");
    reached(&world, "reached");
    let (thread, run) = world.asks("two");
    eventually("the place in the queue", || {
        world.person.run(run).document["status_line"].is_string().then_some(())
    });
    let begin = Instant::now();
    world.person.stops(run);
    is_stopped(&world, thread, run);
    println!("stop in the slot wait: cancelled after {} ms", begin.elapsed().as_millis());
    assert!(begin.elapsed() < POLL_INTERVAL);
    assert_eq!((turns(&world), world.person.run(busy).state), (1, RunState::Running));
    world.claude.release("go");
    world.ends_as(busy, RunState::Completed, None);
    assert_eq!(world.answer_texts(busy_thread), ["done"]);
}

#[test]
fn stop_in_a_request_before_the_start() {
    for operation in ["getRunContext", "startRun"] {
        let world = world(LINES);
        let gate = world.hooks.hold_next(operation);
        let (thread, run) = world.asks("one");
        assert!(gate.reached(DEADLINE), "{operation}");
        is_stopped_before_its_start(&world, thread, run, operation);
        world.hooks.clear();
    }
}

/// The server has started the run and its answer is still on the way.
#[test]
fn stop_in_the_answer_to_the_start() {
    let world = world(LINES);
    let gate = claude_code_runner::local::hooks::Gate::new();
    world.hooks.next("startRun", Fault::DoneThenHold(gate.clone()));
    let (thread, run) = world.asks("one");
    assert!(gate.reached(DEADLINE));
    is_stopped_before_its_start(&world, thread, run, "in the answer to startRun");
    world.hooks.clear();
}

#[test]
fn stop_in_the_check_of_who_pays() {
    let world = world(LINES);
    world.claude.plays(&json!({"auth": {"hang": true}, "turns": []}));
    let (thread, run) = world.asks("one");
    eventually("auth status", || (!world.claude.captured("auth").is_empty()).then_some(()));
    is_stopped_before_its_start(&world, thread, run, "in auth status");
}

/// A CLI that says nothing at all, not even that it has the line.
#[test]
fn stop_before_the_first_line() {
    let world = world(LINES);
    let script = "#!/bin/bash\ncase \" $* \" in *' -p '*) trap 'echo \"{\\\"kind\\\":\\\"signal\\\",\\\"name\\\":\\\"SIGINT\\\"}\" \
        >> \"$0.capture.jsonl\"; exit 0' INT; sleep 600 & echo > \"${0%/*}/reached\"; wait;; esac\nexec -a \"$0\" FAKE \"$@\"\n";
    super::replace_program(&world, script);
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    stops_and_signals(&world, run, "before the first line");
    is_stopped(&world, thread, run);
}

#[test]
fn stop_during_a_tool_call_and_during_a_hanging_request() {
    for (place, step) in [("during a tool", waiting_tool()), ("during an API call", json!({"hang": true}))] {
        let world = world(LINES);
        world.claude.steps(json!([{"do": [{"mark": "begun"}]}, step, {"text": "never"}]));
        let (thread, run) = world.asks("one");
        reached(&world, "begun");
        eventually("the start is reported", || (world.hooks.count("reportAgentSession") > 0).then_some(()));
        stops_and_signals(&world, run, place);
        is_stopped(&world, thread, run);
        assert!(world.person.run(run).costs.is_some(), "{place}");
    }
}

/// C2-03: a process in a session of its own that ignores every polite signal is found by its environment.
#[test]
fn c2_03_stop_of_a_turn_that_ignores_signals_and_left_a_helper() {
    for (place, ignores) in [("with a helper", false), ("with a child that ignores signals", true)] {
        let world = world(LINES);
        world.claude.plays(&json!({"ignore_sigint": ignores, "ignore_sigterm": ignores, "turns": [{"steps": [
            {"tool": {"name": "Bash", "input": {}, "do": [{"helper": "heartbeat"}, {"mark": "reached"}, {"hold": "never"}]}},
        ]}]}));
        let (thread, run) = world.asks("one");
        reached(&world, "reached");
        reached(&world, "heartbeat");
        stops_and_signals(&world, run, place);
        is_stopped(&world, thread, run);
        let names: Vec<Value> = world.claude.captured("signal").iter().map(|it| it["name"].clone()).collect();
        let expected: &[&str] = if ignores { &["SIGINT", "SIGTERM"] } else { &["SIGINT"] };
        assert_eq!(names, expected, "{place}");
    }
}

#[test]
fn stop_between_the_result_and_the_answer() {
    let world = world(LINES);
    let gate = world.hooks.hold_next("createMessage");
    let (thread, run) = world.asks("one");
    assert!(gate.reached(DEADLINE));
    let begin = Instant::now();
    world.person.stops(run);
    is_stopped(&world, thread, run);
    println!("stop before the answer: cancelled after {} ms", begin.elapsed().as_millis());
    assert!(begin.elapsed() < POLL_INTERVAL);
    gate.open();
    assert_eq!(world.hooks.count("createMessage"), 1);
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
}

/// The process has ended and the server cannot take the answer: the stop still wins.
#[test]
fn stop_while_an_answer_waits_for_the_server() {
    let world = world(LINES);
    world.hooks.always("createMessage", Fault::Refuse(problem(503), Some("0".into())));
    let (thread, run) = world.asks("one");
    eventually("the process has ended", || (!world.claude.captured("end").is_empty()).then_some(()));
    eventually("the answer waits", || (world.hooks.count("createMessage") > 5).then_some(()));
    world.person.stops(run);
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    world.hooks.clear();
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
}

fn problem(status: u16) -> claude_code_runner::sdk::wire::problem::Problem {
    claude_code_runner::sdk::wire::problem::Problem::new(status, "unavailable")
}

#[test]
fn stop_during_an_upload() {
    let world = world(LINES);
    world.claude.steps(json!([
        {"do": [{"write": {"path": "{{tmpdir}}/report.txt", "content": "numbers"}}]},
        {"text": "Here.\nATTACH: {{tmpdir}}/report.txt"},
    ]));
    let gate = world.hooks.hold_next("uploadPart");
    let (thread, run) = world.asks("one");
    assert!(gate.reached(DEADLINE));
    let begin = Instant::now();
    world.person.stops(run);
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    println!("stop during an upload: cancelled after {} ms", begin.elapsed().as_millis());
    assert!(begin.elapsed() < POLL_INTERVAL);
    gate.open();
    is_stopped(&world, thread, run);
    eventually("the upload is aborted", || {
        let uploads = world.server.operator().uploads().unwrap();
        uploads.iter().all(|(_, _, phase)| phase == "aborted").then_some(())
    });
}

/// A stop must not start the agent again: what the stopped turn had read, or not, is absorbed.
#[test]
fn stop_absorbs_follow_ups() {
    let world = world(LINES);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.person.says(thread, "two");
    followup_is(&world, run, FollowupState::Delivered);
    stops_and_signals(&world, run, "with a follow-up");
    is_stopped(&world, thread, run);
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Absorbed)]);
    assert_eq!(world.server.operator().runs(thread).unwrap().len(), 1);
}

/// The server ended the run: the turn is stopped, and nobody is told anything.
#[test]
fn a_run_that_the_server_ended_is_stopped_without_an_answer() {
    let world = world(&["stop_grace = \"300ms\""]);
    world.claude.steps(json!([
        waiting_tool(), {"tool": {"name": "Read", "input": {}, "do": [{"mark": "second"}, {"hold": "never"}]}}, {"text": "never"},
    ]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.server.operator().end_run(run, RunState::Interrupted, Some("runner_restarted")).unwrap();
    world.claude.release("go");
    eventually("the turn is gone", || (!world.claude.captured("end").is_empty()).then_some(()));
    eventually("nothing is left", || super::processes_of(&world.state(), run).is_empty().then_some(()));
    eventually("the record is gone", || {
        (!world.state().join("turns").join(format!("{run}.json")).exists()).then_some(())
    });
    assert_eq!(world.hooks.count("finishRun"), 0);
    assert_eq!(world.answer_texts(thread), Vec::<String>::new());
}

/// The runner's own stop while a request of a run hangs: within the grace, and the turn lives on.
#[test]
fn stop_of_the_runner_while_a_request_hangs() {
    let mut world = world(&["stop_grace = \"5s\""]);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let gate = world.hooks.hold_next("reportAgentSession");
    let (thread, run) = world.asks("one");
    assert!(gate.reached(DEADLINE));
    reached(&world, "reached");
    let begin = Instant::now();
    world.stop_runner().unwrap();
    println!("stop of the runner: {} ms", begin.elapsed().as_millis());
    assert!(begin.elapsed() < Duration::from_secs(5));
    let beats = world.hooks.requests_of("sendHeartbeat");
    assert_eq!(beats.last().and_then(|beat| beat.json()).unwrap()["state"], "stopping");
    world.hooks.clear();
    assert_eq!(super::processes_of(&world.state(), run).len(), 1);
    world.claude.release("go");
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}
