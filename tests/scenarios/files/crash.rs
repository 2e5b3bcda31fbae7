//! Stops, ends on the server, and crashes while files are sent.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::problem::{Problem, code};
use claude_code_runner::sdk::wire::run::RunState;
use uuid::Uuid;

use super::world::{
    REPORT_BYTES, answer, answers, bytes, completes, every_file, limit, messages, names, nothing_leaked,
    nothing_left, of_agent, put, uploads, world,
};
use crate::support::logs;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// An answer with three files, the second of three parts.
pub fn three(world: &World) {
    for (at, name) in NAMES.iter().enumerate() {
        put(world, name, bytes(at as u8, if at == 1 { REPORT_BYTES } else { 10 + at }));
    }
    answers(world, "Three.\nATTACH: c.txt\nATTACH: a.txt\nATTACH: b.txt");
}

/// The files of [`three`] in their order.
pub const NAMES: [&str; 3] = ["c.txt", "a.txt", "b.txt"];

#[test]
fn stop_during_upload_sends_nothing() {
    let world = world();
    three(&world);
    let gate = Gate::new();
    world.hooks.nth("uploadPart", 2, Fault::HoldBefore(gate.clone()));
    let (thread, run) = world.asks("Send them");
    assert!(gate.reached(DEADLINE));
    world.person.stops(run);
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    let made: Vec<String> = uploads(&world).into_iter().map(|(operation, _)| operation).collect();
    let expected =
        ["createUpload", "uploadPart", "completeUpload", "createUpload", "uploadPart", "abortUpload"];
    assert_eq!(made, expected);
    assert!(world.answers(thread).is_empty() && messages(&world).is_empty());
    let phases: Vec<String> =
        world.server.operator().uploads().unwrap().into_iter().map(|(_, _, phase)| phase).collect();
    assert_eq!(phases, ["completed", "aborted"]);
    gate.open();
    nothing_leaked(&world, true);
}

/// The stop wins also between the last upload and the message.
#[test]
fn stop_after_the_last_upload_sends_no_message() {
    for operation in ["completeUpload", "createMessage"] {
        let world = world();
        put(&world, "a.txt", bytes(1, 10));
        answers(&world, "One.\nATTACH: a.txt");
        let gate = Gate::new();
        let hold = match operation {
            "completeUpload" => Fault::DoneThenHold(gate.clone()),
            _ => Fault::HoldBefore(gate.clone()),
        };
        world.hooks.next(operation, hold);
        let (thread, run) = world.asks("Send it");
        assert!(gate.reached(DEADLINE));
        world.person.stops(run);
        world.ends_as(run, RunState::Cancelled, Some("user_stop"));
        gate.open();
        assert!(world.answers(thread).is_empty(), "{operation}");
        assert!(of_agent(&world, "createMessage").iter().all(|seen| seen.status != Some(201)));
        nothing_left(&world);
    }
}

#[test]
fn run_ended_on_server_during_upload() {
    let world = world();
    three(&world);
    let gate = Gate::new();
    world.hooks.nth("uploadPart", 2, Fault::HoldBefore(gate.clone()));
    let (thread, run) = world.asks("Send them");
    assert!(gate.reached(DEADLINE));
    world.server.operator().end_run(run, RunState::Cancelled, Some("owner_stop")).unwrap();
    gate.open();
    eventually("the turn is forgotten", || every_file(&world.state().join("turns")).is_empty().then_some(()));
    eventually("the process has ended", || (world.claude.captured("end").len() == 1).then_some(()));
    assert!(logs::has_code(run, "server_ended"), "{:?}", logs::of(run));
    assert_eq!(world.hooks.count("finishRun"), 0);
    assert!(world.answers(thread).is_empty() && messages(&world).is_empty());
    nothing_leaked(&world, true);
}

/// The runner as a process of its own, which can be killed.
struct Killable(Child);

impl Killable {
    fn start(world: &World) -> Killable {
        let file = world.dir.join("runner.toml");
        std::fs::write(&file, world.config_text()).unwrap();
        let log = std::fs::File::create(world.dir.join("runner.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_claude-code-runner"))
            .args(["run", "--config"])
            .arg(file)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", world.dir.join("home"))
            .env("USER", "runner")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Killable(child)
    }

    fn kill(&mut self) {
        // One that is gone already is what is wanted.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Exactly one session per file, one message, the files in their order, one turn of the CLI.
#[track_caller]
fn came_once(world: &World, thread: Uuid, sessions: usize, turns: usize) {
    let answer = answer(world, thread);
    assert_eq!((answer.content_md.as_str(), names(&answer)), ("Three.", NAMES.to_vec()));
    for (at, file) in answer.attachments.iter().enumerate() {
        assert_eq!(
            world.person.downloads(file.file_id),
            std::fs::read(world.project().join(NAMES[at])).unwrap()
        );
    }
    let known = world.server.operator().uploads().unwrap();
    assert_eq!(known.len(), sessions, "{known:?}");
    assert_eq!(world.claude.captured("turn").len(), turns);
    nothing_left(world);
}

#[test]
fn crash_during_upload_resumes_once() {
    let mut world = World::without_runner(Setup::default());
    logs::install();
    limit(&world);
    three(&world);
    let gate = Gate::new();
    // One part of the second file is confirmed by then.
    world.hooks.nth("uploadPart", 3, Fault::HoldBefore(gate.clone()));
    let mut first = Killable::start(&world);
    let (thread, run) = world.asks("Send them");
    assert!(gate.reached(DEADLINE));
    first.kill();
    let part = world.hooks.requests_of("uploadPart")[1].clone();
    gate.open();
    world.start_runner();
    completes(&world, run);
    came_once(&world, thread, 3, 1);
    assert_eq!(world.hooks.count("createUpload"), 3);
    assert_eq!(world.hooks.count("getUpload"), 1);
    let again = world.hooks.requests_of("uploadPart");
    assert_eq!(
        again.iter().filter(|seen| seen.path == part.path).count(),
        1,
        "a confirmed part is not sent again"
    );
}

/// The answer to `createUpload` is lost with the runner: the stored key brings the same session.
#[test]
fn crash_before_the_session_is_known_repeats_its_key() {
    let mut world = World::without_runner(Setup::default());
    limit(&world);
    three(&world);
    let gate = Gate::new();
    world.hooks.nth("createUpload", 1, Fault::DoneThenHold(gate.clone()));
    let mut first = Killable::start(&world);
    let (thread, run) = world.asks("Send them");
    assert!(gate.reached(DEADLINE));
    first.kill();
    gate.open();
    world.start_runner();
    completes(&world, run);
    came_once(&world, thread, 3, 1);
    let creates = world.hooks.requests_of("createUpload");
    assert_eq!(creates.len(), 4);
    assert_eq!(creates[0].header("Idempotency-Key"), creates[1].header("Idempotency-Key"));
}

/// The record of the set is lost with the runner that stored the message: refused, it goes again without its files,
/// and every one of them is named (D-M3-12-7).
#[test]
fn a_refused_message_whose_record_is_lost_still_names_its_files() {
    let losses: [(&str, fn(&Path)); 2] = [
        ("removed", |record| std::fs::remove_file(record).unwrap()),
        ("spoilt", |record| std::fs::write(record, [0; 300]).unwrap()),
    ];
    for (what, lose) in losses {
        let mut world = World::without_runner(Setup::default());
        limit(&world);
        three(&world);
        let gate = world.hooks.hold_next("createMessage");
        let mut first = Killable::start(&world);
        let (thread, run) = world.asks("Send them");
        assert!(gate.reached(DEADLINE));
        first.kill();
        lose(&record(&world));
        world.hooks.next("createMessage", Fault::Refuse(Problem::new(403, code::FEATURE_DISABLED), None));
        world.start_runner();
        completes(&world, run);
        let lines: String =
            NAMES.map(|name| format!("\n- `{name}`: not_attached (feature_disabled)")).concat();
        let told = answer(&world, thread);
        assert_eq!(told.content_md, format!("Three.\n\nAttachments not sent:{lines}"), "{what}");
        assert!(told.attachments.is_empty(), "{what}");
        nothing_left(&world);
    }
}

/// The record of the only answer that is being sent.
fn record(world: &World) -> PathBuf {
    let found = every_file(&world.state().join("sessions"));
    found.into_iter().find(|path| path.to_string_lossy().contains(".attach-")).unwrap()
}

/// C6-11: killed before and after every request of an answer, the next runner makes the missing steps only.
#[test]
fn a_runner_killed_at_any_request_of_an_answer_is_continued() {
    let world = World::without_runner(Setup::default());
    limit(&world);
    three(&world);
    let requests = [
        ("getInstance", 1),
        ("createUpload", 3),
        ("uploadPart", 5),
        ("completeUpload", 3),
        ("createMessage", 1),
    ];
    let mut runner = Killable::start(&world);
    let mut turns = 0;
    for (operation, count) in requests {
        for nth in 1..=count {
            for after in [false, true] {
                let gate = Gate::new();
                let fault = match after {
                    false => Fault::HoldBefore(gate.clone()),
                    true => Fault::DoneThenHold(gate.clone()),
                };
                world.hooks.nth(operation, world.hooks.count(operation) + nth, fault);
                let (thread, run) = world.asks("Send them");
                assert!(gate.reached(DEADLINE), "{operation} {nth} {after}");
                runner.kill();
                gate.open();
                runner = Killable::start(&world);
                let end = world.ends(run);
                assert_eq!(end.state, RunState::Completed, "{operation} {nth} {after}");
                turns += 1;
                came_once(&world, thread, 3 * turns, turns);
            }
        }
    }
}
