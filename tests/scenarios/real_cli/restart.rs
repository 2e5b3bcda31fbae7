//! Turns of the real CLI that live through the end of their runner.

use std::path::PathBuf;

use claude_code_runner::sdk::wire::run::RunState;

use super::service::What;
use super::{waits, with_shell, world_without_runner};
use crate::support::runner_process::RunnerProcess;
use crate::support::wait::eventually;

/// Two live turns, an end of the runner, and what the next one makes of them: each is answered once.
fn two_turns_outlive(end: impl FnOnce(RunnerProcess)) {
    let Some((world, service)) = world_without_runner(with_shell) else { return };
    world.person.lets_write(world.channel());
    let go = world.project().join("go");
    let ready = ["alpha", "bravo"].map(|word| world.project().join(format!("ready-{word}")));
    service.reply("work on alpha", 1, What::Tool("Bash", waits(&ready[0], &go)));
    service.reply("work on bravo", 1, What::Tool("Bash", waits(&ready[1], &go)));
    service.reply("tool_result", 2, What::Text("still here".into()));
    let runner = RunnerProcess::start(&world, None, None);
    let asked = ["work on alpha", "work on bravo"].map(|text| world.asks(text));
    let both = |paths: &[PathBuf]| paths.iter().all(|path| path.exists());
    eventually("both tools run", || both(&ready).then_some(()));
    end(runner);
    let runner = RunnerProcess::start(&world, None, None);
    std::fs::write(&go, "").unwrap();
    for (thread, run) in asked {
        let found = world.ends_as(run, RunState::Completed, None);
        assert_eq!(world.answer_texts(thread), ["still here"]);
        assert_eq!(found.costs.unwrap().len(), 1);
    }
    let asked: Vec<_> = service.requests().iter().map(|request| request["messages"].to_string()).collect();
    for word in ["alpha", "bravo"] {
        let of_turn = asked.iter().filter(|text| text.contains(&format!("work on {word}")));
        assert_eq!(of_turn.count(), 2, "{word}: one request for the tool and one for the answer");
    }
    assert!(runner.stop().success());
}

#[test]
fn two_live_turns_outlive_a_restart_of_the_service() {
    two_turns_outlive(|runner| assert!(runner.stop().success()));
}

#[test]
fn two_live_turns_outlive_a_killed_runner() {
    two_turns_outlive(|mut runner| runner.kill());
}
