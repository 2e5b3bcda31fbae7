//! Sessions that are not what they seem, a full context, and results that are missing.

use std::time::Instant;

use claude_code_runner::sdk::wire::run::{AgentSession, RunState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{nothing_is_left, turns, world};
use crate::support::wait::eventually;
use crate::support::world::World;

/// The value behind `name` in a turn's arguments.
fn option(argv: &[String], name: &str) -> Option<String> {
    argv.iter().position(|arg| arg == name).and_then(|at| argv.get(at + 1).cloned())
}

/// Gives `thread` a session that the server knows.
fn has_session(world: &World, thread: Uuid, started: bool) -> Uuid {
    let id = Uuid::new_v4();
    let session = AgentSession { external_session_ref: id.to_string(), started, version: 1 };
    world.server.operator().set_session(thread, &session).unwrap();
    id
}

fn session_of(world: &World, thread: Uuid) -> AgentSession {
    world.server.operator().session(thread).unwrap().unwrap()
}

/// The bodies of `reportAgentSession`.
fn reports(world: &World) -> Vec<Value> {
    world.hooks.requests_of("reportAgentSession").iter().filter_map(|request| request.json()).collect()
}

#[test]
fn resume_of_an_unknown_session_fails_open_once() {
    let world = world(&[]);
    let thread = world.thread();
    let lost = has_session(&world, thread, true);
    let run = world.person.says(thread, "one").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let argvs = world.claude.argvs();
    assert_eq!(argvs.len(), 2);
    assert_eq!(option(&argvs[0], "--resume"), Some(lost.to_string()));
    let fresh = option(&argvs[1], "--session-id").unwrap();
    assert_ne!(fresh, lost.to_string());
    let session = session_of(&world, thread);
    assert_eq!((session.external_session_ref.as_str(), session.started), (fresh.as_str(), true));
    assert_eq!(reports(&world)[0]["bind_failed"], true);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    let lines = world.claude.lines();
    assert!(lines.iter().all(|texts| *texts == lines[0]), "the same stored input");

    let next = world.person.says(thread, "two").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(option(&world.claude.argvs()[2], "--resume"), Some(fresh));
}

/// C3-01, C3-11: the second try resumes; create and resume are never both given.
#[test]
fn c3_01_session_id_that_exists_is_resumed() {
    let world = world(&[]);
    let thread = world.thread();
    let known = has_session(&world, thread, false);
    let sessions = world.state().join("claude-config/organization/fake-sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    std::fs::write(sessions.join(format!("{known}.json")), "{}").unwrap();
    let run = world.person.says(thread, "one").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let argvs = world.claude.argvs();
    assert_eq!(option(&argvs[0], "--session-id"), Some(known.to_string()));
    assert_eq!(option(&argvs[1], "--resume"), Some(known.to_string()));
    for argv in &argvs {
        assert!(option(argv, "--resume").is_none() || option(argv, "--session-id").is_none());
    }
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    assert_eq!(session_of(&world, thread).external_session_ref, known.to_string());
}

/// A session that can be neither created nor resumed is tried twice and no more.
#[test]
fn a_session_that_cannot_be_used_is_tried_twice_only() {
    let world = world(&[]);
    let script = "#!/bin/bash\ncase \" $* \" in *' -p '*) echo x >> \"${0%/*}/calls\"; echo 'Error: Session ID x is already in use.' >&2; exit 1;; esac\nexec -a \"$0\" FAKE \"$@\"\n";
    super::replace_program(&world, script);
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    let calls = std::fs::read_to_string(world.claude.program().with_file_name("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2);
    assert_eq!(world.answer_texts(thread).len(), 1, "one sentence");
}

/// C3-03: the session that the CLI names is the one that is kept and resumed.
#[test]
fn c3_03_another_session_at_init_is_kept() {
    let world = world(&[]);
    let other = Uuid::new_v4();
    world.claude.plays(&json!({"other_session": other, "turns": [{"steps": [{"text": "an answer"}]}]}));
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    let session = session_of(&world, thread);
    assert_eq!((session.external_session_ref, session.started), (other.to_string(), true));
    assert_eq!((&reports(&world)[0]["bind_failed"], reports(&world).len()), (&json!(true), 1));
    let next = world.person.says(thread, "two").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(option(&world.claude.argvs()[1], "--resume"), Some(other.to_string()));
}

fn full() -> Value {
    json!([{"error": {"error": "invalid_request", "text": "Prompt is too long", "status": 400, "terminal_reason": "prompt_too_long"}}])
}

/// A thread with an answered run, and its second run, which makes room now and shows it.
fn compacting(world: &World) -> (Uuid, Uuid) {
    let (thread, first) = world.asks("one");
    world.ends_as(first, RunState::Completed, None);
    let run = world.person.says(thread, "two").run_id.unwrap();
    eventually("the status line says so", || {
        (world.person.run(run).document["status_line"] == "compacting").then_some(())
    });
    (thread, run)
}

#[test]
fn a_full_context_is_compacted_once_and_the_lines_go_again() {
    let world = world(&[]);
    world.claude.plays(&json!({"turns": [
        {"when": {"nth": 2, "line": 1}, "steps": full()},
        {"when": {"text": "/compact"}, "steps": [
            {"do": [{"hold": "go"}]}, {"result": {"result": "", "local_command": "compact"}},
        ]},
        {"steps": [{"text": "about {{text}}"}]},
    ]}));
    let (thread, run) = compacting(&world);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    let answers = world.answer_texts(thread);
    assert_eq!(answers.len(), 2);
    assert!(answers[1].contains("two"));
    let lines = world.claude.lines();
    assert_eq!(lines[2], ["/compact"]);
    assert_eq!(lines[1], lines[3], "the same texts again");
}

/// What the status line says holds only while it is so.
#[test]
fn an_end_while_room_is_made_leaves_no_status_line() {
    let world = world(&[]);
    world.claude.plays(&json!({"turns": [
        {"when": {"nth": 2, "line": 1}, "steps": full()},
        {"when": {"text": "/compact"}, "steps": [{"do": [{"hold": "go"}]}, {"exit": 1}]},
        {"steps": [{"text": "about {{text}}"}]},
    ]}));
    let (_, run) = compacting(&world);
    world.claude.release("go");
    let found = world.ends_as(run, RunState::Failed, Some("context_full"));
    assert_eq!(found.document.get("status_line"), None);
}

#[test]
fn a_context_that_stays_full_ends_the_run_and_the_next_one_starts_fresh() {
    let world = world(&[]);
    world.claude.plays(&json!({"turns": [
        {"when": {"nth": 2}, "steps": full()},
        {"steps": [{"text": "an answer"}]},
    ]}));
    let (thread, first) = world.asks("one");
    world.ends_as(first, RunState::Completed, None);
    let run = world.person.says(thread, "two").run_id.unwrap();
    world.ends_as(run, RunState::Failed, Some("context_full"));
    let answers = world.answer_texts(thread);
    assert!(answers.len() == 2 && answers[1].contains("too long"), "{answers:?}");
    let compacts = world.claude.lines().iter().filter(|texts| **texts == ["/compact"]).count();
    assert_eq!(compacts, 1);
    let session = session_of(&world, thread);
    assert!(!session.started);
    let next = world.person.says(thread, "three").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(option(&world.claude.argvs()[2], "--session-id"), Some(session.external_session_ref));
}

#[test]
fn a_first_message_that_is_too_long_is_not_compacted() {
    let world = world(&[]);
    world.claude.steps(full());
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Failed, Some("context_full"));
    assert_eq!(world.claude.lines().len(), 1);
    assert_eq!(world.answer_texts(thread).len(), 1);
}

/// the last text counts only when the process left well and by itself.
#[test]
fn a_turn_without_a_result() {
    let rows = [
        (
            "text and exit 0",
            json!([{"text": "half an answer"}, {"exit": 0}]),
            RunState::Completed,
            None,
            "may be incomplete",
        ),
        (
            "text and exit 3",
            json!([{"text": "half an answer"}, {"exit": 3}]),
            RunState::Failed,
            Some("runtime_error"),
            "without an answer",
        ),
        (
            "nothing and exit 0",
            json!([{"exit": 0}]),
            RunState::Failed,
            Some("runtime_error"),
            "without an answer",
        ),
    ];
    for (name, steps, state, reason, told) in rows {
        let world = world(&[]);
        world.claude.steps(steps);
        let (thread, run) = world.asks("one");
        let found = world.ends_as(run, state, reason);
        let answers = world.answer_texts(thread);
        assert!(answers.len() == 1 && answers[0].contains(told), "{name}: {answers:?}");
        assert_eq!(found.costs, None, "{name}: unknown, not zero");
    }
}

/// a refused key is not retried for minutes.
#[test]
fn a_refused_key_ends_the_turn_at_once() {
    let world = world(&["stop_grace = \"300ms\""]);
    world.claude.steps(json!([
        {"api_retry": {"attempt": 1, "max_retries": 10, "retry_delay_ms": 600, "error_status": 401, "error": "authentication_failed"}},
        {"hang": true},
    ]));
    let begin = Instant::now();
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Failed, Some("runtime_not_authenticated"));
    println!("refused key: ended after {} ms", begin.elapsed().as_millis());
    let answers = world.answer_texts(thread);
    assert!(answers.len() == 1 && answers[0].contains("key was refused"), "{answers:?}");
    nothing_is_left(&world, run);
}

/// R-9, C4-05, C1-11: an error of the service is a state in our own words, never an answer.
#[test]
fn errors_of_the_service_end_the_run_with_one_sentence() {
    let reset = json!({"line": {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_900_000_000}}});
    let error = |error: &str, status: u16| json!({"error": {"error": error, "text": "SECRET TEXT\nATTACH: /etc/passwd", "status": status}});
    let rows = [
        ("credit", json!([error("billing_error", 400)]), "runtime_limit", "credit"),
        (
            "limit with a time",
            json!([reset, error("rate_limit", 429)]),
            "runtime_limit",
            "2030-03-17 17:46 UTC",
        ),
        ("limit without a time", json!([error("rate_limit", 429)]), "runtime_limit", "try again later"),
        ("overload", json!([error("overloaded", 529)]), "runtime_limit", "overloaded"),
        ("model", json!([error("model_not_found", 404)]), "runtime_error", "model"),
        ("service", json!([error("server_error", 500)]), "runtime_error", "service"),
    ];
    for (name, steps, reason, told) in rows {
        let world = world(&[]);
        world.claude.steps(steps);
        let (thread, run) = world.asks("one");
        world.ends_as(run, RunState::Failed, Some(reason));
        let answers = world.answer_texts(thread);
        assert!(
            answers.len() == 1 && answers[0].contains(told) && !answers[0].contains("SECRET"),
            "{name}: {answers:?}"
        );
    }
}

/// C2-13: (a) the exit code after a good result says nothing; (b) a line that the CLI cuts is a failure.
#[test]
fn c2_13_exit_codes_and_cut_lines() {
    let world = world(&[]);
    world.claude.plays(&json!({"exit": 1, "turns": [{"steps": [{"text": "an answer"}]}]}));
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    world.claude.plays(&json!({"max_stdin_line": 143_360, "turns": [{"steps": [{"text": "an answer"}]}]}));
    let (thread, run) = world.asks(&"long ".repeat(60_000));
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    assert_eq!(world.answer_texts(thread).len(), 1);
    assert_eq!(turns(&world), 2);
}
