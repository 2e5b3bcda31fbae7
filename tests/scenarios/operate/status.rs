//! `status`: what it tells of a runner at work, of a dead one and of none.

use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};

use super::{command, said};
use crate::support::service::Service;
use crate::support::wait::eventually;
use crate::support::world::{API_KEY, Setup, World};

fn told(world: &World) -> Value {
    let output = command(world, &["status", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shown(world: &World) -> String {
    let output = command(world, &["status"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    said(&output)
}

fn steps(report: &Value) -> Vec<(&str, &str)> {
    let runs = report["runs"].as_array().unwrap().iter();
    runs.map(|run| (run["run_id"].as_str().unwrap(), run["step"].as_str().unwrap())).collect()
}

/// A world in which one turn holds at `go` while others wait.
fn world() -> World {
    let setup = Setup { runner: vec!["max_parallel_runs = 1".into()], ..Setup::default() };
    let world = World::without_runner(setup);
    let tool = json!({"tool": {"name": "Bash", "input": {}, "do": [{"hold": "go"}]}});
    world.claude.steps(json!([{"text": "I begin."}, tool, {"text": "Done."}]));
    world
}

#[test]
fn status_tells_of_live_runs_queue_and_server_and_of_what_a_dead_runner_left() {
    let world = world();
    let none = told(&world);
    assert_eq!((&none["state"], &none["runner"]), (&json!("not_running"), &Value::Null));
    let mut service = Service::start(&world);
    let (_, first) = world.asks("A canary text of Alex");
    eventually("the first turn lives", || {
        (steps(&told(&world)) == [(first.to_string().as_str(), "turn")]).then_some(())
    });
    let (_, second) = world.asks("Another one");
    let report = eventually("the second run is queued", || {
        let report = told(&world);
        steps(&report).iter().any(|(_, step)| *step == "queued").then_some(report)
    });
    let expected: std::collections::BTreeMap<_, _> =
        [(first.to_string(), "turn"), (second.to_string(), "queued")].into();
    let found = steps(&report).into_iter().map(|(run, step)| (run.to_owned(), step)).collect();
    assert_eq!(expected, found);
    assert_eq!((&report["state"], &report["running"]), (&json!("serving"), &json!(true)));
    assert!(report["last_contact_s"].is_i64() && report["disk"]["used_bytes"].as_u64().unwrap() > 0);
    assert_eq!((&report["waiting"]["open_runs"], &report["runner"]["slots"]), (&json!(2), &json!(1)));
    let turn = report["runs"].as_array().unwrap().iter().find(|run| run["step"] == "turn").unwrap();
    assert!(turn["output_bytes"].as_u64().unwrap() > 0 && turn["age_s"].is_i64());
    shows_no_content(&world, &report);

    service.kill();
    let report = told(&world);
    assert_eq!((&report["state"], &report["running"]), (&json!("not_running"), &json!(false)));
    assert_eq!(steps(&report), [(first.to_string().as_str(), "turn_alone")]);
    assert_eq!(report["waiting"]["open_runs"], json!(2));
    assert!(shown(&world).contains("does not run") && shown(&world).contains("turn without a runner"));

    let _service = Service::start(&world);
    world.claude.release("go");
    world.ends_as(first, RunState::Completed, None);
    world.ends_as(second, RunState::Completed, None);
    eventually("nothing is left", || {
        let report = told(&world);
        (steps(&report).is_empty() && report["waiting"]["open_runs"] == 0).then_some(())
    });
}

fn shows_no_content(world: &World, report: &Value) {
    let people = shown(world);
    assert!(people.contains("serves") && people.contains("queued"), "{people}");
    let place = world.dir.path().display().to_string();
    for text in [&report.to_string(), &people] {
        for secret in ["canary", API_KEY, "website", &place] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn status_names_what_is_degraded_and_a_server_that_is_away() {
    let mut world = World::without_runner(Setup::default());
    world.server.stop();
    world.claude.plays(&json!({"version": "2.1.999", "turns": []}));
    let _service = Service::start(&world);
    let report = eventually("the runner shows itself", || {
        Some(told(&world)).filter(|report| report["state"] == "connecting")
    });
    assert_eq!(report["last_contact_s"], Value::Null);
    assert!(shown(&world).contains("looks for the server"));
    world.restart_server();
    let report = eventually("the runner serves", || {
        let report = told(&world);
        let reasons = report["runner"]["degraded_reasons"].as_array().cloned().unwrap_or_default();
        (!reasons.is_empty() && report["state"] == "serving").then_some(report)
    });
    assert_eq!(report["runner"]["degraded_reasons"], json!(["runtime_version_untested"]));
    assert!(shown(&world).contains("degraded runtime_version_untested"));
}

/// A script reads one object whatever happened, with the code of what is wrong.
#[test]
fn a_fault_is_an_object_for_a_script_too() {
    let world = World::without_runner(Setup::default());
    let config = world.dir.join("runner.toml");
    let mut status = command(&world, &["status", "--json"]);
    std::fs::write(&config, "[runner]\nflag = 1\n").unwrap();
    let output = status.output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!(found["fault"], json!("missing_key"));
    assert!(found["sentence"].as_str().unwrap().contains("runner.flag"), "{found}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("runner.flag"), "people read it too");
}
