//! R-23: nothing runs for ever, nothing hangs for ever.

use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::*;
use crate::support::logs;
use crate::support::world::World;

const GRACES: [&str; 2] = [r#"stop_grace = "200ms""#, r#"kill_grace = "200ms""#];

#[test]
fn r_23_a_long_turn_is_stopped() {
    let world = World::with(runner_lines(&[GRACES[0], GRACES[1], r#"turn_time_limit = "500ms""#]));
    world.claude.steps(
        json!([{"text": "so far"}, {"tool": {"name": "Bash", "input": {}, "do": [{"hold": "never"}]}}]),
    );
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("longer than is allowed"), "{texts:?}");
    assert!(logs::has_code(run, "turn_time_limit"));
    no_group_left(&world);
}

#[test]
fn r_23_a_silent_turn_is_stopped_and_a_working_tool_is_not_silent() {
    let world = World::with(runner_lines(&[GRACES[0], GRACES[1], r#"turn_silence_limit = "400ms""#]));
    world.claude.steps(json!([{"hang": true}]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("no sign of life"), "{texts:?}");
    assert!(logs::has_code(run, "turn_silence_limit"));
    no_group_left(&world);

    world.claude.steps(json!([
        {"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up"}, {"shell": "sleep 1"}]}},
        {"text": "done"},
    ]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}

#[test]
fn r_23_a_budget_is_passed_on() {
    let world = World::with(runner_lines(&[r#"max_budget_usd = "2.50""#]));
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(values_of(&world.claude.argvs()[0], "--max-budget-usd"), ["2.50"]);
}

/// R-13: a line beyond the limit ends the turn with a reason.
#[test]
fn r_13_an_endless_line_is_stopped() {
    let world = World::with(runner_lines(&[GRACES[0], GRACES[1], r#"stream_line_limit = "64KiB""#]));
    let pieces = (0..64).map(|_| json!({"raw": "x".repeat(4096)}));
    let steps: Vec<_> = pieces.chain([json!({"hang": true})]).collect();
    world.claude.steps(json!(steps));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    assert!(world.answer_texts(thread)[0].contains("more at once"));
    assert!(logs::has_code(run, "stream_line_limit"));
}
