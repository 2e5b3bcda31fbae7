//! One thread, one session: made, resumed, lost, and what each run of it costs.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::message::Origin;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::{AgentSession, RunState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// The session flag and its value.
fn session_of(argv: &[String]) -> (String, String) {
    let flags = ["--session-id", "--resume"];
    let found: Vec<&String> = argv.iter().filter(|arg| flags.contains(&arg.as_str())).collect();
    assert_eq!(found.len(), 1, "exactly one session flag");
    (found[0].clone(), values_of(argv, found[0]).remove(0))
}

fn usage(input: u64, cost: f64) -> Value {
    json!({"inputTokens": input, "outputTokens": 10, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "costUSD": cost})
}

#[test]
fn session_new_then_resume_and_cost_difference() {
    for per_process in [false, true] {
        let world = World::new();
        world.claude.plays(&json!({"usage_per_process": per_process, "turns": [
            {"when": {"nth": 1}, "title": "First", "usage": usage(100, 0.4), "steps": [{"text": "one"}]},
            {"when": {"nth": 2}, "title": "Second", "usage": usage(30, 0.1), "steps": [{"text": "two"}]},
        ]}));
        let thread = world.thread();
        let sam = world.server.operator().add_person("Sam", false).unwrap();
        world.server.operator().add_message(thread, sam, Origin::Chat, "canary of the first run").unwrap();
        world.hooks.next("finishRun", Fault::DoneThenRefuse(Problem::new(502, "bad_gateway")));
        let first = world.person.says(thread, "Hello").run_id.unwrap();
        let found = world.ends_as(first, RunState::Completed, None);
        assert_eq!(found.costs.unwrap()[0].amount_micros, 400_000);
        answered(&world, "finishRun", 2);
        let finishes = bodies(&world, "finishRun", first);
        assert_eq!(finishes[0], finishes[1], "the retry sends the same reports");

        world.server.operator().add_message(thread, sam, Origin::Chat, "canary of the second run").unwrap();
        let second = world.person.says(thread, "Go on").run_id.unwrap();
        let found = world.ends_as(second, RunState::Completed, None);
        let cost = &found.costs.unwrap()[0];
        assert_eq!((cost.amount_micros, cost.tokens_in), (100_000, 30), "only what this run used");
        let argvs = world.claude.argvs();
        let (new, id) = session_of(&argvs[0]);
        assert_eq!(
            (new.as_str(), session_of(&argvs[1])),
            ("--session-id", ("--resume".to_owned(), id.clone()))
        );
        assert!(Uuid::parse_str(&id).is_ok());
        assert_eq!(world.hooks.count("reportAgentSession"), 1, "no report of a known session");
        assert_eq!(world.hooks.count("setThreadTitle"), 1, "no title of a known session");
        let lines = world.claude.lines();
        assert!(
            lines[0][0].contains("canary of the first run")
                && !lines[1].concat().contains("canary of the first run")
        );
        assert!(lines[1][0].contains("canary of the second run"));
        assert_eq!(world.answer_texts(thread), ["one", "two"]);
    }
}

/// A session that exists already, although the server says it was not started: a first turn that died.
fn left_session(world: &World, thread: Uuid) -> Uuid {
    let id = Uuid::new_v4();
    let session = AgentSession { external_session_ref: id.to_string(), started: false, version: 1 };
    world.server.operator().set_session(thread, &session).unwrap();
    let sessions = world.state().join("claude-config/organization/fake-sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    std::fs::write(sessions.join(format!("{id}.json")), r#"{"usage": {}, "taken": []}"#).unwrap();
    id
}

/// C3-01: create of a session that exists becomes resume, once.
#[test]
fn c3_01_an_existing_session_is_resumed() {
    let world = World::new();
    let thread = world.thread();
    let id = left_session(&world, thread);
    let run = world.person.says(thread, "Hello").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let flags: Vec<_> = world.claude.argvs().iter().map(|argv| session_of(argv)).collect();
    let id = id.to_string();
    assert_eq!(flags, [("--session-id".to_owned(), id.clone()), ("--resume".to_owned(), id)]);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    assert_eq!(world.hooks.count("startRun"), 1);
}

/// R-11: resume of a session the CLI does not know starts a new one, once, and the server is told.
#[test]
fn r_11_a_lost_session_fails_open_once() {
    let world = World::new();
    let thread = world.thread();
    let lost = Uuid::new_v4();
    let session = AgentSession { external_session_ref: lost.to_string(), started: true, version: 3 };
    world.server.operator().set_session(thread, &session).unwrap();
    let run = world.person.says(thread, "Hello").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let flags: Vec<_> = world.claude.argvs().iter().map(|argv| session_of(argv)).collect();
    assert_eq!(flags[0], ("--resume".to_owned(), lost.to_string()));
    assert_eq!((flags.len(), flags[1].0.as_str()), (2, "--session-id"));
    assert_ne!(flags[1].1, lost.to_string());
    let report = &bodies(&world, "reportAgentSession", run)[0];
    assert_eq!(
        (report["external_session_ref"].as_str(), &report["bind_failed"]),
        (Some(flags[1].1.as_str()), &json!(true))
    );
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    // The same stored input, under a fresh uuid.
    let lines = world.claude.lines();
    assert_eq!(lines.last().unwrap()[1], "Hello");
}

/// C3-03: the session that the CLI reports is the one that counts, at once and in the next run.
#[test]
fn c3_03_another_reported_session_is_kept() {
    let world = World::new();
    let other = Uuid::new_v4();
    world.claude.plays(&scenario(json!({"other_session": other}), json!([{"text": "an answer"}])));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let report = &bodies(&world, "reportAgentSession", run)[0];
    assert_eq!(
        (&report["external_session_ref"], &report["bind_failed"], &report["started"]),
        (&json!(other), &json!(true), &json!(true))
    );
    world.claude.answers("again");
    let run = world.person.says(thread, "Go on").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(session_of(&world.claude.argvs()[1]), ("--resume".to_owned(), other.to_string()));
    assert_eq!(world.answer_texts(thread), ["an answer", "again"]);
}

/// C3-05: a session that the service refuses for its history (status 400 at once) is given up: the next run of the
/// thread starts a fresh one with the conversation as context.
#[test]
fn c3_05_a_broken_history_does_not_fail_for_ever() {
    let world = World::new();
    world.claude.plays(&json!({"turns": [
        {"when": {"session": "resume"}, "steps": [{"error": {"error": "invalid_request", "text": "API Error: 400 tool_use ids were found without tool_result", "status": 400}}]},
        {"steps": [{"text": "an answer"}]},
    ]}));
    let (thread, run) = world.asks("canary of the first message");
    world.ends_as(run, RunState::Completed, None);
    let run = world.person.says(thread, "Go on").run_id.unwrap();
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 2 && !texts[1].contains("tool_use"), "one sentence of our own: {texts:?}");
    let run = world.person.says(thread, "Once more").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let flags: Vec<_> = world.claude.argvs().iter().map(|argv| session_of(argv)).collect();
    assert_eq!(flags[2].0, "--session-id");
    assert_ne!(flags[2].1, flags[0].1);
    assert!(
        world.claude.lines()[2][0].contains("canary of the first message"),
        "the history is handed over again"
    );
}

/// C3-09: never two processes of one session; order kept; no message lost.
#[test]
fn c3_09_messages_during_a_run() {
    let world = World::new();
    world.claude.steps(json!([{"text": "you wrote {{text}}"}]));
    let thread = world.thread();
    let mut runs = Vec::new();
    let mut followups = Vec::new();
    for text in ["one", "two"] {
        let posted = world.person.says(thread, text);
        runs.extend(posted.run_id);
        followups.extend(posted.followup_id);
    }
    eventually("an answer", || (!world.answers(thread).is_empty()).then_some(()));
    let posted = world.person.says(thread, "three");
    runs.extend(posted.run_id);
    followups.extend(posted.followup_id);
    let said = |word: &str| world.answer_texts(thread).iter().any(|text| text.contains(word));
    eventually("every message has an answer", || {
        ["one", "two", "three"].iter().all(|word| said(word)).then_some(())
    });
    assert_eq!(runs.len() + followups.len(), 3);
    let at = |word: &str| world.answer_texts(thread).iter().position(|text| text.contains(word)).unwrap();
    assert!(at("one") <= at("two") && at("two") <= at("three"));
    let all = world.server.operator().runs(thread).unwrap();
    all.iter().for_each(|run| drop(world.ends(run.run_id)));
    let mut alive = 0;
    for call in world.claude.captures() {
        alive += match call["kind"].as_str() {
            Some("turn") => 1,
            Some("end") => -1,
            _ => 0,
        };
        assert!(alive <= 1, "two processes of one session");
    }
}

/// C3-11: create and resume never stand together, also when a run that died before its process is prepared again.
#[test]
fn c3_11_create_and_resume_never_stand_together() {
    let mut world = World::new();
    let gate = world.hooks.hold_next("startRun");
    let (thread, run) = world.asks("Hello");
    assert!(gate.reached(DEADLINE));
    world.stop_runner().unwrap();
    world.hooks.clear();
    world.start_runner();
    world.ends(run);
    let next = world.person.says(thread, "Go on").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    for argv in world.claude.argvs() {
        session_of(&argv);
    }
}

/// A reference that is no UUID is never handed to the CLI, which would take it for a title.
#[test]
fn a_session_reference_is_a_uuid_or_refused() {
    let world = World::with(Setup::default());
    let thread = world.thread();
    let session = AgentSession { external_session_ref: "my session".into(), started: true, version: 1 };
    world.server.operator().set_session(thread, &session).unwrap();
    let run = world.person.says(thread, "Hello").run_id.unwrap();
    refused_before_start(&world, run, "adapter_error", "no UUID");
    assert!(crate::support::logs::has_code(run, "session_ref_not_uuid"));
}

/// R-12: a full context is compacted once in a session that had turns; then the thread's next run starts fresh.
#[test]
fn r_12_a_full_context_does_not_fail_for_ever() {
    let world = World::new();
    let full = json!({"error": {"error": "invalid_request", "text": "Prompt is too long", "terminal_reason": "prompt_too_long"}});
    world.claude.plays(&json!({"turns": [
        {"when": {"text": "/compact"}, "steps": [{"do": [{"hold": "room"}]}]},
        {"when": {"session": "resume"}, "steps": [full]},
        {"steps": [{"text": "an answer"}]},
    ]}));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let run = world.person.says(thread, "Go on").run_id.unwrap();
    eventually("it shows", || (world.person.run(run).document["status_line"] == "compacting").then_some(()));
    world.claude.release("room");
    world.ends_as(run, RunState::Failed, Some("context_full"));
    let lines = world.claude.lines();
    assert_eq!(lines[2], ["/compact"], "one request to make room, its only text");
    assert_eq!(lines[3][1], "Go on", "the failed line again");
    assert_eq!(lines.iter().filter(|line| *line == &["/compact"]).count(), 1);
    let report = bodies(&world, "reportAgentSession", run).pop().unwrap();
    assert_eq!((&report["started"], &report["bind_failed"]), (&json!(false), &json!(true)));
    assert_eq!(world.answer_texts(thread).len(), 2, "an answer and one sentence");
    world.claude.answers("fresh");
    let run = world.person.says(thread, "Once more").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let (flag, id) = session_of(world.claude.argvs().last().unwrap());
    assert_eq!((flag.as_str(), Some(id.as_str())), ("--session-id", report["external_session_ref"].as_str()));
}
