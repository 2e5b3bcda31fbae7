//! What the runner says of itself, and when.

use claude_code_runner::claude::version::PINNED_CLAUDE_CODE_VERSION;
use claude_code_runner::local::Behavior;
use claude_code_runner::sdk::wire::run::{BillingMode, RunState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::support::logs;
use crate::support::wait::eventually;
use crate::support::world::{API_KEY, Setup, World};

/// The newest heartbeat that satisfies `check`.
#[track_caller]
fn heartbeat(world: &World, what: &str, check: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let all = world.hooks.requests_of("sendHeartbeat");
        all.iter().rev().filter_map(Captured::json).find(|body| check(body))
    })
}

fn is_ready(body: &Value, channel: Uuid) -> Option<bool> {
    let all = body["project_readiness"].as_array()?;
    all.iter().find(|project| project["channel_id"] == json!(channel))?["ready"].as_bool()
}

fn probed(body: &Value) -> bool {
    body["runtime_version"].is_string()
}

#[test]
fn project_readiness_in_heartbeat() {
    let setup = Setup {
        projects: vec!["docs".into()],
        adapter: vec![r#"heartbeat_interval = "1h""#.into()],
        ..Setup::default()
    };
    let mut world = World::without_runner(setup);
    let docs = world.dir.join("projects/docs");
    std::fs::remove_dir(&docs).unwrap();
    let (a, b) = (world.channel(), world.server.channel_of("docs").unwrap());
    world.start_runner();
    let body = heartbeat(&world, "the first heartbeat", probed);
    assert_eq!((is_ready(&body, a), is_ready(&body, b)), (Some(true), Some(false)));
    assert!(
        logs::all().iter().any(|line| line.contains("workspace_missing") && line.contains(&b.to_string()))
    );
    checks_body(&world, &body);

    std::fs::create_dir_all(docs.join(".git")).unwrap();
    world.server.operator().set_behavior(b, Behavior::default()).unwrap();
    // The interval of the server is 30 s and the runner's 1 h: it is sent at once, or this does not end in time.
    let before = std::time::Instant::now();
    let body = heartbeat(&world, "Projekt-B is ready", |body| is_ready(body, b) == Some(true));
    assert!(before.elapsed() < Duration::from_secs(20), "sent at once");
    assert_eq!(is_ready(&body, a), Some(true));
}

/// The body of M2-34 note 15.
fn checks_body(world: &World, body: &Value) {
    let mut rest = body.clone();
    rest.as_object_mut().unwrap().remove("project_readiness");
    let expected = json!({
        "state": "online", "runtime_version": PINNED_CLAUDE_CODE_VERSION,
        "billing_modes_supported": ["organization"], "reported_tool_class": "scoped",
        "details": {
            "capabilities": {"title": true, "components": false, "voice_input": false, "files_out": true, "followups": true},
            "active_runs": 0, "degraded_reasons": [],
            "adapter": {"name": "claude-code-runner", "version": env!("CARGO_PKG_VERSION")},
            "runtime": {"name": "claude-code"}, "protocol_version": "1",
        },
    });
    assert_eq!(rest, expected, "no reported_billing_mode, no billing_evidence");
    let text = body.to_string();
    assert!(!text.contains(API_KEY) && !text.contains(&world.dir.path().display().to_string()));
}

#[test]
fn billing_modes_follow_the_configuration() {
    let rows = [
        ("both", &["allow_personal = true"][..], Some(json!(["organization", "personal"]))),
        ("personal", &["allow_personal = true", r#"anthropic_api_key_ref = """#], Some(json!(["personal"]))),
        ("none", &[r#"anthropic_api_key_ref = """#], None),
    ];
    for (name, lines, expected) in rows {
        let world = World::with(Setup { billing: BillingMode::Personal, ..runner_lines(lines) });
        let body = heartbeat(&world, name, |_| true);
        assert_eq!(body.get("billing_modes_supported"), expected.as_ref(), "{name}");
    }
}

#[test]
fn degraded_runtimes_are_told_and_start_nothing() {
    let rows = [
        ("older than the minimum", json!({"version": "2.1.258"}), "runtime_version_unsupported", false),
        (
            "unreadable",
            json!({"version_output": {"stdout": "hello\n"}}),
            "runtime_version_unsupported",
            false,
        ),
        ("failing", json!({"version_output": {"stdout": "", "exit": 1}}), "runtime_unreachable", false),
        ("hanging", json!({"version_output": {"hang": true}}), "runtime_unreachable", false),
        ("not the pinned one", json!({"version": "2.1.999"}), "runtime_version_untested", true),
    ];
    for (name, members, reason, starts) in rows {
        let mut world = World::without_runner(runner_lines(&[r#"cli_probe_timeout = "1s""#]));
        world.claude.plays(&scenario(members, json!([{"text": "an answer"}])));
        world.start_runner();
        let body = heartbeat(&world, name, |body| body["details"]["degraded_reasons"] == json!([reason]));
        assert_eq!(body["state"], "degraded", "{name}");
        let (_, run) = world.asks("Hello");
        if starts {
            world.ends_as(run, RunState::Completed, None);
        } else {
            refused_before_start(&world, run, "runtime_error", name);
            assert!(world.claude.captured("auth").is_empty(), "{name}: no call besides the probe");
        }
    }
}

/// R-26: the version is asked for at start and when the program's file differs, not for each heartbeat.
#[test]
fn r_26_the_version_is_probed_when_the_program_changes() {
    let world =
        World::with(Setup { adapter: vec![r#"heartbeat_interval = "1s""#.into()], ..Setup::default() });
    heartbeat(&world, "the first probe", probed);
    for _ in 0..3 {
        let (_, run) = world.asks("Hello");
        world.ends_as(run, RunState::Completed, None);
    }
    assert_eq!(world.claude.captured("version").len(), 1);
    // The operator replaces the program.
    world.claude.plays(&scenario(json!({"version": "2.1.999"}), json!([{"text": "an answer"}])));
    world.claude.replace();
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.claude.captured("version").len(), 2);
    world.server.operator().set_behavior(world.channel(), Behavior::default()).unwrap();
    let body = heartbeat(&world, "the new version", |body| body["runtime_version"] == "2.1.999");
    assert_eq!(body["details"]["degraded_reasons"], json!(["runtime_version_untested"]));
}

/// A live turn is counted; a stopping runner says so.
#[test]
fn active_runs_and_the_stop_are_told() {
    let mut world = World::new();
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up"}, {"hold": "go"}]}}, {"text": "done"}]));
    let (_, run) = world.asks("Hello");
    reached(&world, "up");
    world.server.operator().set_behavior(world.channel(), Behavior::default()).unwrap();
    heartbeat(&world, "one run is active", |body| body["details"]["active_runs"] == 1);
    world.stop_runner().unwrap();
    let said: Vec<Value> =
        world.hooks.requests_of("sendHeartbeat").iter().filter_map(Captured::json).collect();
    assert_eq!(said.last().unwrap()["state"], "stopping", "also with another one on its way");
    world.start_runner();
    heartbeat(&world, "the turn was taken over", |body| {
        body["state"] == "online" && body["details"]["active_runs"] == 1
    });
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
}
