//! Every way a run can end has a code in one table, and each of them is reached by a scenario.

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::run::end::ROWS;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::support::logs;
use crate::support::source::{self, rust_files};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World, private_file};

/// Ends that cannot be asked for: a fault of the program itself.
const UNREACHABLE: [&str; 1] = ["panicked"];

#[test]
fn every_end_is_reached_by_a_scenario() {
    let sources: String = rust_files(&["tests"]).iter().map(|file| source::read(file)).collect();
    for row in ROWS.iter().filter(|row| !UNREACHABLE.contains(&row.code)) {
        assert!(sources.contains(&format!("\"{}\"", row.code)), "no scenario names {}", row.code);
    }
}

#[track_caller]
fn fails(world: &World, run: Uuid, reason: &str, code: &str) {
    world.ends_as(run, RunState::Failed, Some(reason));
    eventually(code, || logs::has_code(run, code).then_some(()));
}

/// Reason, code and what makes it so.
type Row = (&'static str, &'static str, fn(&World));

#[test]
fn ends_before_the_start() {
    let rows: [Row; 6] = [
        ("adapter_error", "outside_root", |world| {
            let outside = world.dir.join("outside");
            std::fs::create_dir_all(&outside).unwrap();
            std::fs::remove_dir_all(world.project()).unwrap();
            std::os::unix::fs::symlink(&outside, world.project()).unwrap();
        }),
        ("adapter_error", "workspace_missing", |world| std::fs::remove_dir_all(world.project()).unwrap()),
        ("adapter_error", "context_unavailable", |world| {
            world.hooks.always("getRunContext", Fault::Refuse(Problem::new(400, "validation_failed"), None));
        }),
        ("adapter_error", "start_refused", |world| {
            world.hooks.always("startRun", Fault::Refuse(Problem::new(400, "validation_failed"), None));
        }),
        ("billing_mode_mismatch", "start_billing_mismatch", |world| {
            world.hooks.always("startRun", Fault::Refuse(Problem::new(409, "billing_mode_mismatch"), None));
        }),
        ("tool_class_mismatch", "start_class_mismatch", |world| {
            world.hooks.always("startRun", Fault::Refuse(Problem::new(409, "tool_class_mismatch"), None));
        }),
    ];
    for (reason, code, prepare) in rows {
        let world = World::new();
        prepare(&world);
        let (_, run) = world.asks("Hello");
        fails(&world, run, reason, code);
        assert!(world.claude.captured("turn").is_empty(), "{code}");
    }
}

#[test]
fn ends_of_the_proof() {
    for (stdout, reason, code) in [
        (r#"{"authMethod": "none"}"#, "runtime_not_authenticated", "not_logged_in"),
        (r#"{"authMethod": "third_party"}"#, "billing_mode_mismatch", "precheck_mismatch"),
    ] {
        let world = World::new();
        world.claude.plays(&scenario(json!({"auth": {"stdout": stdout}}), json!([])));
        let (_, run) = world.asks("Hello");
        fails(&world, run, reason, code);
    }
    let mut world = World::without_runner(Setup::default());
    let secret = world.dir.join("extra");
    private_file(&secret, "canary-of-turn-env-0003");
    let line = format!("turn_env = {{ EXAMPLE_TOKEN = {{ secret = \"file:{}\" }} }}", secret.display());
    world.change_setup(|setup| setup.runner.push(line));
    world.start_runner();
    std::fs::remove_file(secret).unwrap();
    let (_, run) = world.asks("Hello");
    fails(&world, run, "adapter_error", "environment_fault");
}

/// An invocation that does not fit the contract ends its run and blocks nobody.
#[test]
fn a_malformed_invocation_ends_its_run() {
    let mut world = World::without_runner(Setup::default());
    let (_, run) = world.asks("Hello");
    let operator = world.server.operator();
    operator.lose_events().unwrap();
    let token = operator.mint_token(run).unwrap();
    operator.redeliver_with(run, token, |payload| payload["thread_id"] = "no id".into()).unwrap();
    operator.publish("agent.invocation", &json!({"nothing": "of it"})).unwrap();
    world.start_runner();
    refused_before_start(&world, run, "adapter_error", "malformed");
    assert!(logs::has_code(run, "event_malformed"));
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert!(logs::has_code(run, "completed"));
}

/// The program may vanish between the proof and the start.
#[test]
fn a_program_that_cannot_be_started_ends_the_run() {
    let world = World::new();
    let gate = Gate::new();
    world.hooks.next("startRun", Fault::DoneThenHold(gate.clone()));
    let (thread, run) = world.asks("Hello");
    assert!(gate.reached(DEADLINE));
    std::fs::remove_file(world.claude.program()).unwrap();
    gate.open();
    fails(&world, run, "runtime_error", "spawn_failed");
    assert_eq!(world.hooks.count("createMessage"), world.answers(thread).len() as u64);
}

/// A state directory that cannot be written ends the run, and the server is told all the same.
#[test]
fn a_broken_state_directory_ends_the_run() {
    let world = World::new();
    let gate = world.hooks.hold_next("getRunContext");
    let (_, run) = world.asks("Hello");
    assert!(gate.reached(DEADLINE));
    let place = world.state().join("tmp");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, "no directory").unwrap();
    gate.open();
    fails(&world, run, "adapter_error", "state_fault");
    assert!(world.claude.captured("turn").is_empty());
}

/// What was promised to the server in another life of the runner is kept or the run ends, never changed.
#[test]
fn a_start_under_another_configuration_is_not_repeated() {
    let mut world = World::new();
    let gate = world.hooks.hold_next("startRun");
    let (_, run) = world.asks("Hello");
    assert!(gate.reached(DEADLINE));
    world.stop_runner().unwrap();
    assert!(logs::has_code(run, "detached"));
    world.hooks.clear();
    world.change_setup(|setup| setup.runner.push(r#"default_model = "claude-opus-4""#.into()));
    world.start_runner();
    world.ends_as(run, RunState::Interrupted, Some("runner_restarted"));
    assert!(world.claude.captured("turn").is_empty());
}

/// The invocation names the version of the settings it was made under: older ones are loaded anew first.
#[test]
fn a_newer_settings_version_is_loaded_before_the_run() {
    let world = World::new();
    answered(&world, "listServedChannels", 1);
    // The notice of the change does not get through.
    world.hooks.next("getServedChannelConfig", Fault::Refuse(Problem::new(403, "forbidden"), None));
    let behavior =
        claude_code_runner::local::Behavior { model: Some("claude-opus-4".into()), ..Default::default() };
    world.server.operator().set_behavior(world.channel(), behavior).unwrap();
    answered(&world, "getServedChannelConfig", 1);
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(start_body(&world, run)["model"], "claude-opus-4");
    assert_eq!(world.hooks.count("getServedChannelConfig"), 2);
}

/// R-12: a first turn that does not fit has nothing to make room with.
#[test]
fn r_12_a_first_turn_that_is_too_long_is_not_compacted() {
    let world = World::new();
    world.claude.steps(json!([{"error": {"error": "invalid_request", "text": "Prompt is too long", "terminal_reason": "prompt_too_long"}}]));
    let (_, run) = world.asks("Hello");
    fails(&world, run, "context_full", "context_full");
    assert_eq!(world.claude.lines().len(), 1);
}
