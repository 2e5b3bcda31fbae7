//! How runs end: stopped, refused, without a result, with an error of the service.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::RunState;
use claude_code_runner::sys::lock::FileLock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::support::logs;
use crate::support::wait::eventually;
use crate::support::world::World;

#[test]
fn cancelled_execute_terminates_group() {
    for ignores in [false, true] {
        // Short where it has to run out; where the turn ends by itself, longer than any busy machine needs.
        let grace = if ignores { r#"stop_grace = "200ms""# } else { r#"stop_grace = "30s""# };
        let world = World::with(runner_lines(&[grace, r#"kill_grace = "200ms""#]));
        let members = json!({"ignore_sigint": ignores, "ignore_sigterm": ignores});
        world.claude.plays(&scenario(
            members,
            json!([
                {"tool": {"name": "Bash", "input": {}, "do": [{"shell": "echo > up; exec sleep 1000"}]}},
                {"text": "late"},
            ]),
        ));
        let (thread, run) = world.asks("Hello");
        // Said by the tool itself: before it has a session of its own, a signal at the group would end it.
        eventually("the tool works", || world.project().join("up").exists().then_some(()));
        world.person.stops(run);
        world.ends_as(run, RunState::Cancelled, Some("user_stop"));
        no_group_left(&world);
        locks_are_free(&world);
        assert!(world.answers(thread).is_empty() && logs::has_code(run, "cancelled"));
        assert_eq!(world.claude.captured("end").is_empty(), ignores, "the escalation ended it");
    }
}

/// Nobody holds a lock of a thread or session.
#[track_caller]
fn locks_are_free(world: &World) {
    eventually("the locks are free", || {
        let locks = std::fs::read_dir(world.state().join("locks")).unwrap();
        let mut free = locks.map(|lock| FileLock::try_acquire(&lock.unwrap().path()).unwrap().is_some());
        free.all(|free| free).then_some(())
    });
}

#[test]
fn ag_19_title_manual_keeps_run_completed() {
    for problem in [
        Problem::new(409, "title_manual"),
        Problem::new(412, "version_conflict"),
        Problem::new(400, "validation_failed"),
    ] {
        let world = World::new();
        world.claude.plays(&json!({"turns": [{"title": "Ours", "steps": [{"text": "Hello."}]}]}));
        world.hooks.always("setThreadTitle", Fault::Refuse(problem.clone(), None));
        let (thread, run) = world.asks("Hello");
        world.ends_as(run, RunState::Completed, None);
        assert_eq!(world.hooks.count("setThreadTitle"), 1, "{}: never again", problem.code);
        assert_eq!(world.answer_texts(thread), ["Hello."]);
        assert!(logs::has_code(run, "title_not_set"));
    }
}

/// The only step of kind `status`.
fn status_step(world: &World, run: Uuid) -> Value {
    let found = world.person.run(run);
    let all: Vec<Value> = steps(&found).into_iter().filter(|step| step["kind"] == "status").collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

#[test]
fn error_result_and_exit_without_result() {
    let rows = [
        (
            "error result",
            json!([{"text": "canary of the text"}, {"result": {"is_error": true, "subtype": "error_during_execution", "result": "canary of the text"}}]),
            "1",
        ),
        ("exit without result", json!([{"exit": 3}]), "3"),
        ("text and exit 2", json!([{"text": "canary of the text"}, {"exit": 2}]), "2"),
        ("exit 0 without text", json!([{"exit": 0}]), "0"),
        ("killed", json!([{"do": [{"shell": "kill -KILL $PPID"}]}, {"hang": true}]), "SIGKILL"),
        ("complaint", json!([{"stderr": "canary of the text\n"}, {"exit": 1}]), "1"),
    ];
    for (name, steps, exit) in rows {
        let world = World::new();
        world.claude.steps(steps);
        let (thread, run) = world.asks("Hello");
        world.ends_as(run, RunState::Failed, Some("runtime_error"));
        let step = status_step(&world, run);
        let expected = [
            ("name", json!("runtime_error")),
            ("title", json!("")),
            ("status", json!("failed")),
            ("detail", json!({"exit": exit})),
        ];
        for (member, value) in expected {
            assert_eq!(step[member], value, "{name}: {member}");
        }
        assert!(step["finished_at"].is_string(), "{name}");
        let code = if name == "error result" { "runtime_error" } else { "no_result" };
        assert!(logs::has_code(run, code), "{name}");
        // R-25: none of the CLI's own text, one sentence of ours.
        let texts = world.answer_texts(thread);
        assert!(texts.len() == 1 && !texts[0].contains("canary"), "{name}: {texts:?}");
        assert_eq!(world.hooks.count("setThreadTitle"), 0, "{name}");
        assert!(!logs::of(run).concat().contains("canary"), "{name}");
        let finish = &bodies(&world, "finishRun", run)[0];
        assert_eq!(finish.get("costs").is_some(), name == "error result", "{name}: no result, no cost (R-7)");
    }
}

/// R-14: no result, but exit 0, text and no signal: the text is the answer, and says that it may be incomplete.
#[test]
fn r_14_a_text_without_a_result_is_an_answer() {
    let world = World::new();
    world.claude.steps(json!([{"text": "All three files are done."}, {"exit": 0}]));
    let (thread, run) = world.asks("Hello");
    let found = world.ends_as(run, RunState::Completed, None);
    let texts = world.answer_texts(thread);
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].starts_with("All three files are done.") && texts[0].contains("may be incomplete"),
        "{texts:?}"
    );
    assert!(found.costs.is_none(), "unknown, not zero");
}

/// R-3, R-8, R-9, R-25: what the service refuses is told once, in our own words, with the right reason.
#[test]
fn r_25_errors_of_the_service() {
    let error = |class: &str, status: u16| json!([{"error": {"error": class, "text": "canary of the service", "status": status}}]);
    let terminal = |reason: &str| json!([{"text": "x"}, {"result": {"is_error": true, "terminal_reason": reason, "result": "canary of the service"}}]);
    let rows = [
        (
            "refused key",
            error("authentication_failed", 401),
            "runtime_not_authenticated",
            "login or key was refused",
        ),
        ("credit", error("billing_error", 400), "runtime_limit", "credit"),
        ("rate limit", error("rate_limit", 429), "runtime_limit", "usage limit"),
        ("overloaded", error("overloaded", 529), "runtime_limit", "overloaded"),
        ("model", error("model_not_found", 404), "runtime_error", "model"),
        ("budget", terminal("budget_exhausted"), "runtime_limit", "budget"),
        ("server error", error("server_error", 500), "runtime_error", "service"),
    ];
    for (name, steps, reason, words) in rows {
        let world = World::new();
        world.claude.steps(steps);
        let (thread, run) = world.asks("Hello");
        world.ends_as(run, RunState::Failed, Some(reason));
        let texts = world.answer_texts(thread);
        assert!(texts.len() == 1 && texts[0].contains(words), "{name}: {texts:?}");
        assert!(!texts[0].contains("canary"), "{name}");
        assert_eq!(status_step(&world, run)["name"], reason, "{name}");
        let order: Vec<String> = world
            .hooks
            .requests()
            .into_iter()
            .map(|request| request.operation)
            .filter(|operation| ["createMessage", "finishRun"].contains(&operation.as_str()))
            .collect();
        assert_eq!(order, ["createMessage", "finishRun"], "{name}: the sentence first");
    }
}

/// C4-05: a limit is one notice that says when it ends.
#[test]
fn c4_05_a_limit_says_when_it_ends() {
    let world = World::new();
    world.claude.steps(json!([
        {"line": {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour"}, "session_id": "{{session}}", "uuid": "00000000-0000-4000-8000-000000000001"}},
        {"error": {"error": "rate_limit", "text": "limit reached, resets 5pm (UTC)", "status": 429}},
    ]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_limit"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("2030-03-17 17:46 UTC"), "{texts:?}");
    assert_eq!(world.claude.captured("turn").len(), 1, "no retry of its own");
}

/// R-8: a refused key ends the turn at the CLI's first retry, not after its three minutes.
#[test]
fn r_8_a_refused_key_ends_the_turn_at_once() {
    let world = World::new();
    world.claude.steps(json!([
        {"api_retry": {"attempt": 1, "max_retries": 10, "retry_delay_ms": 500, "error": "authentication_failed", "error_status": 401}},
        {"hang": true},
    ]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_not_authenticated"));
    assert_eq!(world.answer_texts(thread).len(), 1);
    no_group_left(&world);
}

/// R-28: a final refusal of the answer ends the run; the sentence that says so is tried once, and nothing twice.
#[test]
fn a_refused_answer_ends_the_run() {
    let world = World::new();
    world.hooks.always("createMessage", Fault::Refuse(Problem::new(400, "validation_failed"), None));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("adapter_error"));
    assert!(world.answers(thread).is_empty() && logs::has_code(run, "answer_refused"));
    let sent = world.hooks.requests_of("createMessage");
    let keys: Vec<Value> =
        sent.iter().map(|request| request.json().unwrap()["client_msg_id"].clone()).collect();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}

/// R-25: an answer that is too long for the server is not lost in silence, and the session still has it.
#[test]
fn an_answer_that_is_too_long_says_so() {
    let world = World::new();
    let too_long = "long ".repeat(200 * 1024);
    world.claude.plays(&json!({"turns": [
        {"when": {"nth": 1}, "steps": [{"text": too_long}]},
        {"when": {"nth": 2, "session": "resume"}, "steps": [{"text": "Short."}]},
    ]}));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("adapter_error"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("ask for a shorter answer"), "{texts:?}");
    let next = world.person.says(thread, "Shorter").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread).last().map(String::as_str), Some("Short."));
}

/// An empty answer sends nothing and the run completes (M2-34 note 14).
#[test]
fn an_empty_answer_sends_nothing() {
    let world = World::new();
    world.claude.steps(json!([{"text": "x"}, {"result": {"result": " \n"}}]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert!(world.answers(thread).is_empty() && logs::has_code(run, "answer_empty"));
}

/// A run that the server has ended already is not ended again (409 `invalid_state_transition`).
#[test]
fn a_run_that_the_server_ended_is_left_alone() {
    let world = World::new();
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up"}, {"hold": "go"}]}}, {"text": "late"}]));
    let (thread, run) = world.asks("Hello");
    reached(&world, "up");
    world.server.operator().end_run(run, RunState::Failed, Some("runtime_error")).unwrap();
    world.claude.release("go");
    eventually("the runner lets go", || logs::has_code(run, "server_ended").then_some(()));
    no_group_left(&world);
    assert!(world.answers(thread).is_empty());
    assert_eq!(world.hooks.count("finishRun"), 0);
}
