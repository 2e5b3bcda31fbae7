//! Messages that come while a run works, and one answer per result.

use claude_code_runner::sdk::wire::run::{FollowupState, RunState, StepStatus};
use serde_json::json;
use uuid::Uuid;

use super::{
    followup_is, followup_states, nothing_is_left, reached, reported_states, turns, waiting_tool, world,
};
use crate::support::wait::eventually;
use crate::support::world::World;

fn shows(world: &World, thread: Uuid, answers: &[&str]) {
    eventually("the answers", || (world.answer_texts(thread) == answers).then_some(()));
}

#[test]
fn a_message_after_the_result_is_answered_in_the_same_run() {
    let world = world(&["followup_grace = \"2s\""]);
    world.claude.steps(json!([{"text": "about {{text}}"}]));
    let (thread, run) = world.asks("one");
    shows(&world, thread, &["about one"]);
    let posted = world.person.says(thread, "two");
    assert_eq!(posted.run_id, None);
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread).len(), 2);
    assert!(world.answer_texts(thread)[1].contains("two"));
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Answered)]);
    assert_eq!(reported_states(&world), ["delivered", "answered"]);
    assert_eq!(turns(&world), 1);
}

#[test]
fn a_message_during_a_tool_call_is_absorbed() {
    let world = world(&[]);
    world.claude.steps(json!([waiting_tool(), {"text": "after the tool"}]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.person.says(thread, "two");
    followup_is(&world, run, FollowupState::Delivered);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["after the tool"]);
    assert_eq!(reported_states(&world), ["delivered", "absorbed"]);
}

#[test]
fn a_message_while_the_model_thinks_gets_a_result_of_its_own() {
    let world = world(&[]);
    world.claude.plays(&json!({"turns": [
        {"when": {"line": 1}, "steps": [{"do": [{"mark": "reached"}, {"hold": "go"}]}, {"text": "first"}]},
        {"steps": [{"text": "second"}]},
    ]}));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.person.says(thread, "two");
    followup_is(&world, run, FollowupState::Delivered);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["first", "second"]);
    assert_eq!(reported_states(&world), ["delivered", "answered"]);
}

/// C3-09: two messages at once and a third at the moment of the result; never two processes of one session.
#[test]
fn c3_09_messages_close_together_are_all_answered_in_order() {
    let world = world(&["followup_grace = \"1s\""]);
    world.claude.steps(json!([{"text": "about {{text}}"}]));
    let (thread, run) = world.asks("one");
    let second = world.person.says(thread, "two");
    shows_at_least(&world, thread, 1);
    let third = world.person.says(thread, "three");
    world.ends(run);
    eventually("three answers", || (world.answer_texts(thread).len() == 3).then_some(()));
    let answers = world.answer_texts(thread);
    for (answer, word) in answers.iter().zip(["one", "two", "three"]) {
        assert!(answer.contains(word), "{answers:?}");
    }
    for later in [second.run_id, third.run_id].into_iter().flatten() {
        world.ends_as(later, RunState::Completed, None);
    }
    let pids: std::collections::BTreeSet<_> =
        world.claude.captured("end").iter().map(|end| end["pid"].to_string()).collect();
    assert_eq!(pids.len(), turns(&world));
}

fn shows_at_least(world: &World, thread: Uuid, count: usize) {
    eventually("answers", || (world.answer_texts(thread).len() >= count).then_some(()));
}

/// The refused message opens a run of its own, which waits for the thread's lock.
#[test]
fn a_message_to_a_turn_that_is_closing_is_refused() {
    let world = world(&["stop_grace = \"2s\"", "kill_grace = \"200ms\""]);
    world.claude.plays(&json!({"turns": [
        {"when": {"text": "one"}, "steps": [
            {"text": "first"},
            {"line": result("first")},
            {"line": lifecycle("completed")},
            {"do": [{"mark": "reached"}, {"hold": "never"}]},
        ]},
        {"steps": [{"text": "second"}]},
    ]}));
    let (thread, run) = world.asks("one");
    shows(&world, thread, &["first"]);
    eventually("stdin is closed", || {
        world.person.run(run).state.is_final().then_some(()).or_else(|| {
            std::thread::park_timeout(std::time::Duration::from_millis(200));
            Some(())
        })
    });
    world.person.says(thread, "two");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Refused)]);
    shows(&world, thread, &["first", "second"]);
    nothing_is_left(&world, run);
}

/// A result and a lifecycle as the CLI prints them, by hand, so that the process can stay after them.
fn result(text: &str) -> serde_json::Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": "{{session}}",
        "terminal_reason": "completed", "num_turns": 1, "user_message_uuids": ["{{uuid}}"], "result_index": 0,
        "modelUsage": {"alpha": {"inputTokens": 3, "outputTokens": 5, "costUSD": 0.01}},
        "model_usage_since_last_result": {"alpha": {"inputTokens": 3, "outputTokens": 5, "costUSD": 0.01}}})
}

fn lifecycle(state: &str) -> serde_json::Value {
    json!({"type": "command_lifecycle", "command_uuid": "{{uuid}}", "state": state, "session_id": "{{session}}"})
}

/// C1-07: the answer is delivered at once, the process is made to leave, the run counts as a success.
#[test]
fn c1_07_a_process_that_stays_after_its_result_is_made_to_leave() {
    for (name, ignores) in
        [("leaves on SIGINT", [false, false]), ("ignores it", [true, false]), ("all", [true, true])]
    {
        let world = world(&["stop_grace = \"200ms\"", "kill_grace = \"200ms\""]);
        world.claude.plays(&json!({"ignore_sigint": ignores[0], "ignore_sigterm": ignores[1], "turns": [{"steps": [
            {"text": "Done."}, {"line": result("Done.")}, {"line": lifecycle("completed")}, {"do": [{"hold": "never"}]},
        ]}]}));
        let (thread, run) = world.asks("one");
        shows(&world, thread, &["Done."]);
        let found = world.ends_as(run, RunState::Completed, None);
        assert_eq!(world.answer_texts(thread), ["Done."], "{name}");
        assert_eq!(found.costs.unwrap().len(), 1, "{name}");
        nothing_is_left(&world, run);
    }
}

/// C1-09: a result of the background is a message of its own, never the answer to the next message; every
/// cost counts once.
#[test]
fn c1_09_a_background_result_is_not_the_answer_to_the_next_message() {
    let world = world(&["followup_grace = \"2s\""]);
    let background = json!({"type": "result", "subtype": "success", "is_error": false, "result": "Build finished, 2 errors",
        "session_id": "{{session}}", "terminal_reason": "completed", "origin": {"kind": "task-notification"},
        "model_usage_since_last_result": {"alpha": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.5}}});
    world.claude.plays(&json!({"turns": [
        {"when": {"text": "one"}, "usage": {"costUSD": 0.25, "inputTokens": 1, "outputTokens": 1}, "steps": [{"text": "A"}]},
        {"usage": {"costUSD": 0.125, "inputTokens": 1, "outputTokens": 1}, "steps": [{"line": background}, {"text": "C"}]},
    ]}));
    let (thread, run) = world.asks("one");
    shows(&world, thread, &["A"]);
    world.person.says(thread, "two");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["A", "Build finished, 2 errors", "C"]);
    assert_eq!(followup_states(&world, run), [Some(FollowupState::Answered)]);
    let micros: i64 = found.costs.unwrap().iter().map(|cost| cost.amount_micros).sum();
    assert_eq!(micros, 875_000);
}

#[test]
fn background_work_is_waited_for_and_its_answer_is_a_message_of_its_own() {
    let world = world(&[]);
    world.claude.steps(json!([
        {"background": {"task_id": "b1", "description": "build", "until": "go", "answer": "The build is done."}},
        {"text": "It runs."},
    ]));
    let (thread, run) = world.asks("one");
    shows(&world, thread, &["It runs."]);
    assert_eq!(world.person.run(run).state, RunState::Running);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["It runs.", "The build is done."]);
}

#[test]
fn background_work_that_takes_too_long_is_ended_with_one_sentence() {
    let world = world(&["background_wait = \"300ms\"", "stop_grace = \"300ms\""]);
    world.claude.steps(json!([
        {"background": {"task_id": "b1", "description": "build", "until": "never"}},
        {"text": "It runs."},
    ]));
    let (thread, run) = world.asks("one");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(
        world.answer_texts(thread),
        ["It runs.", "Work that was still going on in the background was ended."]
    );
    let steps = found.document["steps"].as_object().unwrap();
    let cancelled = json!(StepStatus::Cancelled);
    assert!(
        steps.values().any(|step| step["kind"] == "background_job" && step["status"] == cancelled),
        "{steps:?}"
    );
    let finish = world.hooks.requests_of("finishRun")[0].json().unwrap();
    assert_eq!(finish["metrics"]["background_jobs"], 1, "M2-34 note 14");
    nothing_is_left(&world, run);
}

/// R-15, C1-15: the question is answered with an error and the turn goes on.
#[test]
fn c1_15_a_question_of_the_cli_is_refused() {
    let world = world(&[]);
    world.claude.steps(json!([
        {"line": {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {}}}},
        {"do": [{"hold": "go"}]},
        {"text": "I decided myself."},
    ]));
    let (thread, run) = world.asks("one");
    let response = eventually("the response", || {
        let lines = world.claude.captured("stdin");
        lines.iter().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line["line"].as_str()?).ok()?;
            (line["type"] == "control_response").then_some(line)
        })
    });
    assert_eq!(
        (&response["response"]["subtype"], &response["response"]["request_id"]),
        (&json!("error"), &json!("r1"))
    );
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["I decided myself."]);
}

/// A run that is not started has no stdin: whatever comes for it is refused.
#[test]
fn a_message_to_a_queued_run_is_refused() {
    let world = world(&["max_parallel_runs = 1"]);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (_, busy) = world.asks("one");
    reached(&world, "reached");
    let (thread, queued) = world.asks("two");
    eventually("the place in the queue", || {
        let line = world.person.run(queued).document["status_line"].clone();
        line.as_str().is_some_and(|line| line.starts_with("queued")).then_some(())
    });
    let message = json!({"message_id": Uuid::now_v7(), "seq": 9, "author": {"principal_id": Uuid::now_v7(), "display_name": "Sam"},
        "role": "person", "trust": "trigger", "origin": "chat", "kind": "text", "created_at": "2026-01-02T03:04:05.000Z",
        "content_md": "three", "already_delivered": false, "truncated": false, "attachments": []});
    let payload =
        json!({"run_id": queued, "followup_id": Uuid::now_v7(), "thread_id": thread, "message": message});
    world.server.operator().publish("agent.followup", &payload).unwrap();
    eventually("the event is acknowledged", || {
        world.server.operator().unacknowledged("default").unwrap().is_empty().then_some(())
    });
    world.claude.release("go");
    world.ends_as(busy, RunState::Completed, None);
    world.ends_as(queued, RunState::Completed, None);
    assert_eq!(reported_states(&world), ["refused"]);
    assert!(world.claude.lines().iter().flatten().all(|text| !text.contains("three")));
}
