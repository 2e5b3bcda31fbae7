//! What the host gives and takes: pipes, HOME, disks, masks, temporary directories (rows of public reports).

use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use claude_code_runner::claude::environment::passwd_home;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::*;
use crate::support::logs;
use crate::support::runner_process::RunnerProcess;

/// Age of what cleaners of temporary directories delete, and a day more.
const OLD: Duration = Duration::from_secs(11 * 24 * 60 * 60);

/// A turn that never says a word ends with that reason after `runner.turn_silence_limit`.
#[test]
fn c2_01_a_turn_without_an_init_event_ends_with_that_reason() {
    let mut world = World::without_runner(Setup::default());
    let silent = world.dir.join("bin/silent");
    let script = "#!/bin/sh\nfor word in \"$@\"; do [ \"$word\" = -p ] && exec sleep 1000; done\nexec \"${0%/*}/claude\" \"$@\"\n";
    fs::write(&silent, script).unwrap();
    fs::set_permissions(&silent, Permissions::from_mode(0o755)).unwrap();
    world.change_setup(|setup| {
        setup.runner = vec![
            format!("claude_bin = \"{}\"", silent.display()),
            "turn_silence_limit = \"300ms\"".to_owned(),
            "stop_grace = \"300ms\"".to_owned(),
        ];
    });
    world.start_runner();
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    assert!(logs::has_code(run, "turn_silence_limit"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("no sign of life"), "{texts:?}");
}

/// The stand-in reads a whole line before it prints anything, and leaves only at the end of its stdin.
#[test]
fn c2_01_stdin_is_written_with_its_newline_and_closed_after_the_result() {
    let world = World::new();
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.claude.captured("stdin").len(), 1, "the first message, and nothing after it");
    assert_eq!(world.claude.captured("end").len(), 1, "it left by itself");
    assert!(world.claude.captured("signal").is_empty());
}

/// HOME that is missing or names nothing: the account's own one, and no relative directory of state.
#[test]
fn c2_09_home_comes_from_the_account_when_the_service_has_none() {
    // Of an account without a home nothing starts at all.
    let Some(own) = passwd_home().filter(|own| own.is_dir()) else { return };
    for home in [None, Some("/nonexistent")] {
        let world = World::without_runner(Setup::default());
        let here = world.dir.join("here");
        fs::create_dir(&here).unwrap();
        let runner = RunnerProcess::start_with(&world, &[], |command| {
            command.current_dir(&here).env_remove("HOME").envs(home.map(|home| ("HOME", home)));
        });
        let (_, run) = world.asks("Hello");
        world.ends_as(run, RunState::Completed, None);
        assert_eq!(PathBuf::from(&world.claude.environment(0)["HOME"]), own, "{home:?}");
        assert_eq!(fs::read_dir(&here).unwrap().count(), 0, "{home:?}");
        assert!(runner.stop().success());
    }
}

/// An event whose commit fails is not acknowledged, and comes again.
#[test]
fn c8_03_an_event_that_could_not_be_stored_is_not_acknowledged() {
    let world = World::new();
    let (_, first) = world.asks("Hello");
    world.ends_as(first, RunState::Completed, None);
    let inbox = rusqlite::Connection::open(world.state().join("inbox.sqlite3")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON jtis BEGIN SELECT RAISE(ABORT, 'no'); END";
    inbox.execute_batch(refuse).unwrap();
    let is_open = || world.server.operator().unacknowledged("default").unwrap().len();
    eventually("what came before is acknowledged", || (is_open() == 0).then_some(()));
    let polls = world.hooks.count("pollEvents");
    let (thread, run) = world.asks("Once more");
    // The poll that brings the event, and the one after that fault that looks for it again.
    eventually("the event came twice", || {
        let all = world.hooks.requests_of("pollEvents");
        let again = all.iter().skip(polls as usize).filter(|poll| !poll.query.contains("after="));
        (again.filter(|poll| poll.status.is_some()).count() > 0).then_some(())
    });
    assert_eq!(is_open(), 1);
    assert!(world.answers(thread).is_empty());
    inbox.execute_batch("DROP TRIGGER refuse").unwrap();
    world.ends_as(run, RunState::Completed, None);
    eventually("it is acknowledged", || (is_open() == 0).then_some(()));
}

/// Nothing that is needed lies in the shared temporary directory, and a cleaner that judges by age finds nothing of a
/// run that waits there.
#[test]
fn c8_07_nothing_that_is_needed_lies_in_the_shared_temporary_directory() {
    let world = World::without_runner(Setup::default());
    let shared = world.dir.join("shared-tmp");
    fs::create_dir(&shared).unwrap();
    world.claude.steps(json!([{"do": [{"mark": "up"}, {"hold": "go"}]}, {"text": "done"}]));
    let runner = RunnerProcess::start_with(&world, &[], |command| {
        command.env("TMPDIR", &shared);
    });
    let (thread, run) = world.asks("Hello");
    reached(&world, "up");
    assert_eq!(everything(&shared), Vec::<PathBuf>::new());
    let turn = PathBuf::from(&world.claude.environment(0)["TMPDIR"]);
    assert!(turn.starts_with(world.state()), "{turn:?}");
    for path in everything(&world.state()) {
        let old =
            FileTimes::new().set_modified(SystemTime::now() - OLD).set_accessed(SystemTime::now() - OLD);
        fs::File::open(&path).unwrap().set_times(old).unwrap();
    }
    fs::remove_dir(&shared).unwrap();
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
    assert!(runner.stop().success());
}

/// Everything that the runner makes is its user's alone, whatever mask it was started with, and what was wide before
/// is narrowed.
#[test]
fn c8_09_a_runner_without_a_mask_makes_private_files() {
    let world = World::without_runner(Setup::default());
    fs::write(world.project().join("a.txt"), "text").unwrap();
    world.claude.answers("Here.\nATTACH: a.txt");
    let first = RunnerProcess::start_without_mask(&world);
    answered(&world, "sendHeartbeat", 1);
    assert!(first.stop().success());
    fs::set_permissions(world.state().join("inbox.sqlite3"), Permissions::from_mode(0o644)).unwrap();
    let runner = RunnerProcess::start_without_mask(&world);
    let file = world.person.uploads(world.channel(), "in.txt", b"from a person");
    let gate = world.hooks.hold_next("completeUpload");
    let thread = world.thread();
    let run = world.person.says_with(thread, "Hello", &[file]).run_id.unwrap();
    assert!(gate.reached(DEADLINE));
    let made = everything(&world.state());
    for wanted in
        ["inbox.sqlite3", "inbox.sqlite3-wal", "stream", "in.txt", "outgoing", ".attach-1.json", "locks"]
    {
        assert!(made.iter().any(|path| path.to_string_lossy().contains(wanted)), "{wanted}: {made:?}");
    }
    for path in made.iter().filter(|path| !is_of_the_turn(&world, path)) {
        let found = path.metadata().unwrap();
        let private = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.mode() & 0o7777, private, "{}", path.display());
    }
    gate.open();
    world.ends_as(run, RunState::Completed, None);
    assert!(runner.stop().success());
}

/// Whether the CLI or a tool made it, below a directory of the runner that is private itself.
fn is_of_the_turn(world: &World, path: &Path) -> bool {
    let below = |name: &str| {
        let rest = path.strip_prefix(world.state().join(name)).ok();
        rest.is_some_and(|rest| rest.components().count() > 1)
    };
    below("tmp") || below("claude-config")
}

/// Every file and directory below `top`.
fn everything(top: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(everything(&entry.path()));
        }
        all.push(entry.path());
    }
    all
}
