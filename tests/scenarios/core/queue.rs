//! Waiting: for the thread, for a slot, and how that shows.

use claude_code_runner::sdk::wire::run::RunState;
use claude_code_runner::sys::process::{Signal, signal_group};
use serde_json::json;

use super::*;
use crate::support::logs;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// A turn that waits for `go` after it said that it is up.
fn held(world: &World) {
    world.claude.steps(json!([
        {"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up-{{uuid}}"}, {"hold": "go"}]}},
        {"text": "done"},
    ]));
}

/// Waits until so many turns work.
#[track_caller]
fn working(world: &World, count: usize) {
    eventually("turns work", || (world.claude.captured("stdin").len() >= count).then_some(()));
}

#[test]
fn session_lock_and_parallel_runs() {
    two_runs_of_one_thread();
    a_wait_that_is_too_long();
    never_more_than_two_processes();
}

/// Two runs of one thread that the runner gets at once, which a server avoids.
fn thread_with_two_runs(world: &World) -> [uuid::Uuid; 2] {
    let thread = world.thread();
    let runs = ["one", "two"].map(|text| world.person.says(thread, text).run_id.unwrap());
    world.server.operator().redeliver(runs[1]).unwrap();
    runs
}

fn two_runs_of_one_thread() {
    let mut world = World::without_runner(Setup::default());
    held(&world);
    let runs = thread_with_two_runs(&world);
    world.start_runner();
    working(&world, 1);
    eventually("the other one waits", || (world.hooks.count("startRun") == 1).then_some(()));
    assert_eq!(pids(&world).len(), 1);
    world.claude.release("go");
    for run in runs {
        world.ends_as(run, RunState::Completed, None);
    }
    let kinds: Vec<_> = world.claude.captures().iter().map(|call| call["kind"].clone()).collect();
    let lives: Vec<_> =
        kinds.iter().filter(|kind| ["turn", "end"].contains(&kind.as_str().unwrap())).collect();
    assert_eq!(lives, ["turn", "end", "turn", "end"]);
}

fn a_wait_that_is_too_long() {
    let mut world = World::without_runner(runner_lines(&[r#"session_lock_wait = "200ms""#]));
    held(&world);
    let runs = thread_with_two_runs(&world);
    world.start_runner();
    working(&world, 1);
    let busy = eventually("one gives up", || {
        runs.iter().find(|run| world.person.run(**run).state == RunState::Failed)
    });
    world.ends_as(*busy, RunState::Failed, Some("adapter_error"));
    assert!(logs::has_code(*busy, "session_busy"));
    world.claude.release("go");
    let other = runs.iter().find(|run| *run != busy).unwrap();
    world.ends_as(*other, RunState::Completed, None);
    assert_eq!(pids(&world).len(), 1);
}

fn never_more_than_two_processes() {
    let world = World::with(runner_lines(&["max_parallel_runs = 2"]));
    held(&world);
    let runs: Vec<_> = (0..3).map(|_| world.asks("Hello").1).collect();
    working(&world, 2);
    let waits = |run: &uuid::Uuid| {
        let found = world.person.run(*run);
        (found.state == RunState::Queued && found.document["status_line"].as_str()?.starts_with("queued"))
            .then_some(())
    };
    eventually("the third one waits", || runs.iter().find_map(&waits));
    assert_eq!(pids(&world).len(), 2);
    world.claude.release("go");
    for run in runs {
        world.ends_as(run, RunState::Completed, None);
    }
    let mut alive = 0;
    for call in world.claude.captures() {
        alive += match call["kind"].as_str() {
            Some("turn") => 1,
            Some("end") => -1,
            _ => 0,
        };
        assert!(alive <= 2);
    }
}

/// R-24: a waiting run shows how many are ahead of it, a stop ends it at once, and the others move up.
#[test]
fn r_24_a_queue_shows_itself_and_can_be_left() {
    let world = World::with(runner_lines(&["max_parallel_runs = 1"]));
    held(&world);
    let runs: Vec<_> = (0..4)
        .map(|number| {
            let run = world.asks("Hello").1;
            if number == 0 {
                working(&world, 1);
            }
            run
        })
        .collect();
    let shows = |run: uuid::Uuid, line: &str| {
        eventually(line, || (world.person.run(run).document["status_line"] == line).then_some(()));
    };
    for (place, run) in runs.iter().enumerate().skip(1) {
        shows(*run, &format!("queued ({place} ahead)"));
    }
    world.person.stops(runs[1]);
    world.ends_as(runs[1], RunState::Cancelled, Some("user_stop"));
    assert_eq!((pids(&world).len(), world.hooks.count("startRun")), (1, 1), "ended without a start");
    shows(runs[2], "queued (1 ahead)");
    shows(runs[3], "queued (2 ahead)");
    world.claude.release("go");
    for run in [runs[0], runs[2], runs[3]] {
        let found = world.ends_as(run, RunState::Completed, None);
        assert!(found.document.get("status_line").is_none());
    }
}

/// A stop ends the wait for a lock at once.
#[test]
fn a_stop_ends_the_wait_for_a_lock() {
    let mut world = World::without_runner(Setup::default());
    held(&world);
    let runs = thread_with_two_runs(&world);
    world.start_runner();
    working(&world, 1);
    let started = |run: &&uuid::Uuid| world.person.run(**run).state == RunState::Running;
    let first = eventually("one runs", || runs.iter().find(started));
    let waiting = runs.iter().find(|run| *run != first).unwrap();
    world.server.operator().cancel(*waiting, "owner_stop").unwrap();
    world.ends_as(*waiting, RunState::Cancelled, Some("owner_stop"));
    world.claude.release("go");
    world.ends_as(*first, RunState::Completed, None);
}

/// A process of a turn that left its group and its environment outlives the turn (README, "Not protected"); the locks
/// that it inherited do not.
#[test]
fn a_process_that_outlives_its_turn_holds_no_lock() {
    let world = World::new();
    let stray = world.project().join("stray");
    let shell = "/usr/bin/env -i /usr/bin/setsid /bin/sh -c 'echo $$ > stray; exec /bin/sleep 600' < /dev/null > /dev/null 2>&1 & \
        until test -s stray; do sleep 0.01; done";
    let first = json!([{"tool": {"name": "Bash", "input": {}, "do": [{"shell": shell}]}}, {"text": "one"}]);
    world.claude.steps(first);
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    let pid: i32 = std::fs::read_to_string(stray).unwrap().trim().parse().unwrap();
    assert!(process::group_alive(pid), "the test needs a process that lives on");
    world.claude.answers("two");
    let run = world.person.says(thread, "two").run_id.unwrap();
    let found = eventually_or_kill(pid, || world.ends(run).state);
    assert_eq!(
        (found, world.answer_texts(thread)),
        (RunState::Completed, vec!["one".to_owned(), "two".to_owned()])
    );
}

/// What `check` gives; the process `pid` is ended whatever it does.
fn eventually_or_kill<T>(pid: i32, check: impl FnOnce() -> T) -> T {
    struct End(i32);
    impl Drop for End {
        fn drop(&mut self) {
            let _ = signal_group(self.0, Signal::SIGKILL);
        }
    }
    let _end = End(pid);
    check()
}
