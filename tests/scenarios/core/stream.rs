//! Reading the stream: rows of public reports, played through the whole program.

use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};

use super::*;
use crate::support::logs;
use crate::support::wait::eventually;
use crate::support::world::World;

/// Plays `steps` once and gives the answers of the run's thread.
fn answers_of(world: &World, steps: Value) -> Vec<String> {
    world.claude.steps(steps);
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    world.answer_texts(thread)
}

/// C1-01: a line of 3 MiB in small pieces; what came before it shows while it grows.
#[test]
fn c1_01_a_long_line_is_read_whole() {
    let world = World::new();
    let begin = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":""#;
    let end = "\"}]},\"session_id\":\"{{session}}\",\"uuid\":\"00000000-0000-4000-8000-000000000001\"}\n";
    let mut steps = vec![json!({"text": "I look at the picture."}), json!({"raw": begin})];
    let pieces = 3 * 1024 * 1024 / 4096;
    for piece in 0..pieces {
        steps.push(json!({"raw": "QUJD".repeat(1024)}));
        if piece == pieces / 2 {
            steps.push(json!({"do": [{"mark": "half"}, {"hold": "go"}]}));
        }
    }
    steps.extend([json!({"raw": end}), json!({"text": "It is a cat."})]);
    world.claude.steps(json!(steps));
    let (thread, run) = world.asks("Hello");
    reached(&world, "half");
    eventually("the status moves", || {
        (world.person.run(run).document["last_text_excerpt"] == "I look at the picture.").then_some(())
    });
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["It is a cat."]);
}

/// C1-03: only a line feed ends a record or a line of the answer.
#[test]
fn c1_03_other_line_ends_are_text() {
    let world = World::new();
    let text = "first\u{2028}second\u{2029}third\u{85}fourth\u{b}fifth";
    assert_eq!(answers_of(&world, json!([{"text": text}])), [text]);
    let attach = format!("{text}\nATTACH: ROOT/out/a.txt\u{2028}ATTACH: ROOT/out/b.txt");
    let answers = answers_of(&world, json!([{"text": attach}]));
    assert!(
        answers[0].starts_with(text) && answers[0].len() > text.len(),
        "one path, one reason: {answers:?}"
    );
    assert_eq!(world.hooks.count("createUpload"), 0);
}

/// C1-05: what a later version prints is skipped, and a number that is a text ends nothing.
#[test]
fn c1_05_unknown_things_are_skipped() {
    let world = World::new();
    let line = |value: Value| json!({"line": value});
    let assistant = json!({"type": "assistant", "session_id": "{{session}}", "uuid": "00000000-0000-4000-8000-000000000002", "message": {
        "id": "m1", "role": "assistant", "content": [{"type": "hologram", "data": "zz"}, {"type": "text", "text": "Still here."}],
        "usage": {"input_tokens": "3", "output_tokens": null}}});
    let answers = answers_of(
        &world,
        json!([
            line(json!({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1_900_000_000}, "session_id": "{{session}}"})),
            line(json!({"type": "system", "subtype": "weather_notice", "x": 1, "session_id": "{{session}}"})),
            line(json!({"type": "future_thing", "payload": {"a": [1, {"b": null}]}})),
            line(assistant),
            {"raw": "not JSON at all\n[1,2]\n\n"},
            {"text": "Still here."},
            {"result": {"extra": {"k": "v"}, "num_turns": "one", "modelUsage": {"alpha": {"inputTokens": "3", "costUSD": 0.01}}}},
        ]),
    );
    assert_eq!(answers, ["Still here."]);
}

/// A result line in the recorded shape that names the line it answers.
fn result(text: &str) -> Value {
    json!({"line": {
        "type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": "{{session}}",
        "uuid": "00000000-0000-4000-8000-000000000003", "terminal_reason": "completed", "total_cost_usd": 0.01,
        "user_message_uuids": ["{{uuid}}"],
        "modelUsage": {"alpha": {"inputTokens": 3, "outputTokens": 5, "costUSD": 0.01}},
    }})
}

fn completed() -> Value {
    json!({"line": {"type": "command_lifecycle", "command_uuid": "{{uuid}}", "state": "completed", "session_id": "{{session}}", "uuid": "00000000-0000-4000-8000-000000000004"}})
}

/// C1-07: a process that stays after its result is ended, the answer is posted at once, the run counts as success.
#[test]
fn c1_07_a_process_that_stays_is_ended() {
    let world = World::with(runner_lines(&[r#"stop_grace = "300ms""#, r#"kill_grace = "200ms""#]));
    let members = json!({"ignore_sigint": true, "ignore_sigterm": true});
    world
        .claude
        .plays(&scenario(members, json!([{"text": "x"}, result("done"), completed(), {"hang": true}])));
    let (thread, run) = world.asks("Hello");
    eventually("the answer", || (world.answer_texts(thread) == ["done"]).then_some(()));
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(found.costs.unwrap()[0].amount_micros, 10_000);
    assert!(logs::has_code(run, "turn_overstayed"));
    let signals = world.claude.captured("signal");
    let names: Vec<_> = signals.iter().map(|signal| signal["name"].clone()).collect();
    assert_eq!(names, ["SIGINT", "SIGTERM"]);
    no_group_left(&world);
    world.claude.answers("free again");
    let run = world.person.says(thread, "Go on").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
}

/// C1-09: the turn that a background task starts is a note of its own, never the answer to the next message.
#[test]
fn c1_09_a_background_turn_is_a_note_of_its_own() {
    let world = World::new();
    world.claude.plays(&json!({"turns": [
        {"when": {"line": 1}, "steps": [
            {"background": {"task_id": "b1", "description": "build", "until": "built", "answer": "Build finished, 2 errors"}},
            {"text": "A"},
        ]},
        {"when": {"line": 2}, "steps": [{"text": "C"}]},
    ]}));
    let (thread, run) = world.asks("Start the build");
    eventually("the first answer", || (world.answer_texts(thread) == ["A"]).then_some(()));
    let posted = world.person.says(thread, "And the tests?");
    assert!(posted.followup_id.is_some());
    eventually("the second answer", || world.answer_texts(thread).contains(&"C".to_owned()).then_some(()));
    world.claude.release("built");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["A", "C", "Build finished, 2 errors"]);
    assert_eq!(found.costs.unwrap()[0].amount_micros, 3 * 6855, "A, B and C are counted once each");
    assert_eq!(json!(found.followups[0].state), "answered");
}

/// C1-11: neither success nor failure comes from the subtype, and an error's text is never an answer.
#[test]
fn c1_11_success_does_not_come_from_the_subtype() {
    let world = World::new();
    let honest = json!([{"text": "an honest answer"}, {"result": {"subtype": "success_with_notes"}}]);
    assert_eq!(answers_of(&world, honest), ["an honest answer"]);
    world.claude.steps(json!([{"error": {"error": "rate_limit", "text": "You've hit your limit\nATTACH: ROOT/out/a.txt", "status": 429}}]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_limit"));
    let texts = world.answer_texts(thread);
    assert!(
        texts.len() == 1 && !texts[0].contains("hit your limit") && !texts[0].contains("ATTACH"),
        "{texts:?}"
    );
    assert_eq!(world.hooks.count("createUpload"), 0);
}

/// C1-13: one message printed three times is one text and one step, counted once.
#[test]
fn c1_13_a_repeated_message_counts_once() {
    let world = World::new();
    let repeated = |uuid: u8| {
        json!({"line": {"type": "assistant", "session_id": "{{session}}", "uuid": format!("00000000-0000-4000-8000-0000000000{uuid:02}"), "message": {
            "id": "msg_1", "role": "assistant", "model": "{{model}}",
            "content": [{"type": "text", "text": "One text."}, {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.txt"}}],
            "usage": {"input_tokens": 7, "output_tokens": 5}}}})
    };
    world.claude.steps(json!([repeated(1), repeated(2), repeated(3), {"text": "One text."}]));
    let (thread, run) = world.asks("Hello");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["One text."]);
    assert_eq!(steps(&found).len(), 1);
    assert_eq!(found.document["metrics"]["tokens_in"], 1200, "what the result says, once");
}

/// C1-15, R-15: a question to the host is refused within a poll interval, and the turn goes on.
#[test]
fn c1_15_a_question_is_refused() {
    let world = World::new();
    world.claude.steps(json!([
        {"line": {"type": "assistant", "session_id": "{{session}}", "uuid": "00000000-0000-4000-8000-000000000005", "message": {"id": "m1", "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "AskUserQuestion", "input": {"questions": [{"question": "Which branch?"}]}}]}}},
        {"line": {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {}}}},
        {"do": [{"hold": "asked"}]},
        {"text": "I could not ask."},
    ]));
    let (thread, run) = world.asks("Hello");
    let refusal = eventually("an answer to the question", || {
        let lines = world.claude.captured("stdin");
        let parsed =
            lines.iter().filter_map(|line| serde_json::from_str::<Value>(line["line"].as_str()?).ok());
        parsed.into_iter().find(|line| line["type"] == "control_response")
    });
    assert_eq!(
        (&refusal["response"]["subtype"], &refusal["response"]["request_id"]),
        (&json!("error"), &json!("r1"))
    );
    world.claude.release("asked");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["I could not ask."]);
}

/// R-4: a result that names no line of the runner and no task is dropped.
#[test]
fn r_4_a_foreign_result_is_dropped() {
    let world = World::new();
    let mut foreign = result("from somebody else");
    foreign["line"]["user_message_uuids"] = json!(["00000000-0000-4000-8000-0000000000ff"]);
    world.claude.steps(json!([foreign, {"text": "ours"}]));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["ours"]);
    assert!(logs::has_code(run, "foreign_result_dropped"));
}

/// R-4: a line is printed once; one result that comes twice is one answer, and its costs count once.
#[test]
fn r_4_a_result_printed_twice_is_one_answer() {
    let world = World::new();
    let mut once = result("Once.");
    once["line"]["uuid"] = json!("00000000-0000-4000-8000-000000000008");
    once["line"]["model_usage_since_last_result"] = once["line"]["modelUsage"].clone();
    world.claude.steps(json!([once.clone(), once, completed(), {"exit": 0}]));
    let (thread, run) = world.asks("Hello");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["Once."]);
    assert_eq!(found.costs.unwrap()[0].amount_micros, 10_000);
    assert!(logs::has_code(run, "repeated_result_dropped"));
}

/// R-4: a line whose lifecycle ended without a result is not waited for, also when its turn had begun.
#[test]
fn r_4_a_turn_that_was_completed_without_a_result_is_not_waited_for() {
    let world = World::new();
    let answers = answers_of(&world, json!([{"text": "A word."}, completed(), {"no_result": true}]));
    assert!(answers.len() == 1 && answers[0].starts_with("A word."), "{answers:?}");
}

/// R-13: a lone surrogate and a byte that is no UTF-8 become one replacement character each.
#[test]
fn r_13_broken_characters_lose_no_line() {
    let world = World::new();
    let raw = r#"{"type":"assistant","session_id":"{{session}}","uuid":"00000000-0000-4000-8000-000000000006","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"a\ud83dz"}]}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"a\ud83dz","user_message_uuids":["{{uuid}}"],"session_id":"{{session}}","uuid":"00000000-0000-4000-8000-000000000007"}"#;
    let answers =
        answers_of(&world, json!([{"raw": format!("{raw}\n{result}\n")}, completed(), {"exit": 0}]));
    assert_eq!(answers, ["a\u{fffd}z"]);
}

/// R-6: background work that outlives `runner.background_wait` is cut, and the person reads one sentence.
#[test]
fn r_6_background_work_is_bounded() {
    let lines = [r#"background_wait = "300ms""#, r#"stop_grace = "200ms""#, r#"kill_grace = "200ms""#];
    let world = World::with(runner_lines(&lines));
    world.claude.steps(
        json!([{"background": {"task_id": "b1", "description": "build", "until": "never"}}, {"text": "A"}]),
    );
    let (thread, run) = world.asks("Hello");
    let found = world.ends_as(run, RunState::Completed, None);
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 2 && texts[0] == "A" && texts[1].contains("background"), "{texts:?}");
    assert!(steps(&found).iter().all(|step| step["status"] == "cancelled"), "{:?}", steps(&found));
    no_group_left(&world);
}

/// M2-34 note 12: what a run used shows while it works, and from the second one on how full the context is.
#[test]
fn tokens_and_context_share_show_while_a_tool_works() {
    let world = World::new();
    let (thread, first) = world.asks("Hello");
    world.ends_as(first, RunState::Completed, None);
    world.claude.steps(json!([
        {"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "go"}]}},
        {"text": "Done."}]));
    let second = world.person.says(thread, "And now?").run_id.unwrap();
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    let metrics = eventually("the numbers are there", || {
        let metrics = world.person.run(second).document["metrics"].clone();
        metrics["context_pct"].is_number().then_some(metrics)
    });
    assert_eq!(
        (metrics["tokens_in"].as_u64(), metrics["tokens_cache_read"].as_u64()),
        (Some(1200), Some(5000))
    );
    assert_eq!(metrics["tokens_out"], json!(null), "not known before the result: {metrics}");
    world.claude.release("go");
    let found = world.ends_as(second, RunState::Completed, None);
    assert!(found.document["metrics"]["tokens_out"].as_u64() > Some(0));
}
