//! Whole turns played inside the test process.

use super::*;
use crate::fake_claude::scenario;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// A directory with everything a player needs.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let path = std::env::temp_dir().join(format!("play-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(path.join("tmp")).unwrap();
        Place(path)
    }

    fn stage(&self) -> Stage {
        Stage {
            here: self.0.clone(),
            cwd: self.0.clone(),
            config_dir: self.0.join("config"),
            key_source: "none".into(),
            nth: 1,
            ..Stage::default()
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Played {
    code: u8,
    text: String,
    records: Vec<Value>,
}

impl Played {
    /// Types with subtype or state, as one word each.
    fn kinds(&self) -> Vec<String> {
        self.records.iter().map(kind).collect()
    }

    fn results(&self) -> Vec<&Value> {
        self.records.iter().filter(|record| record["type"] == "result").collect()
    }
}

fn kind(record: &Value) -> String {
    let detail = match record["type"].as_str().unwrap_or_default() {
        "user" if record["isReplay"] == true => "replay",
        "assistant" => record["message"]["content"][0]["type"].as_str().unwrap_or_default(),
        _ => record["subtype"].as_str().or(record["state"].as_str()).unwrap_or_default(),
    };
    format!("{}/{detail}", record["type"].as_str().unwrap_or_default())
}

fn line(uuid: &str, items: &[&str]) -> Event {
    let content: Vec<Value> = items.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let record = json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}});
    Event::Line(record.to_string().into_bytes())
}

fn call(resume: bool) -> TurnCall {
    TurnCall {
        session: SESSION.into(),
        resume,
        model: "m".into(),
        permission_mode: "dontAsk".into(),
        ..TurnCall::default()
    }
}

fn play_as(place: &Place, call: &TurnCall, stage: Stage, text: &str, happenings: Vec<Event>) -> Played {
    let capture = Capture::beside(Path::new("/nowhere"), false);
    let channel = crossbeam_channel::unbounded();
    happenings.into_iter().for_each(|event| channel.0.send(event).unwrap());
    let scenario =
        if text.is_empty() { crate::fake_claude::demo::scenario() } else { scenario::parse(text).unwrap() };
    let mut player = Player::new(Vec::new(), call, stage, scenario, &capture, channel);
    player.values.set("tmpdir", place.0.join("tmp").to_string_lossy());
    let code = player.refused_session().unwrap_or_else(|| player.play());
    let text = String::from_utf8(player.out).unwrap();
    let records = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Played { code, text, records }
}

fn play(place: &Place, resume: bool, text: &str, happenings: Vec<Event>) -> Played {
    play_as(place, &call(resume), place.stage(), text, happenings)
}

fn one_turn(steps: &str) -> String {
    format!("{{\"turns\": [{{\"steps\": [{steps}]}}]}}")
}

const PLAIN: &[&str] = &[
    "command_lifecycle/queued",
    "command_lifecycle/started",
    "system/init",
    "user/replay",
    "assistant/text",
    "result/success",
    "command_lifecycle/completed",
];

#[test]
fn plain_turn_has_the_recorded_order() {
    let place = Place::new();
    let played = play(
        &place,
        false,
        &one_turn(r#"{"text": "You said {{text}} to {{model}}"}"#),
        vec![line("u1", &["context", "hello", "closing"]), Event::Eof],
    );
    assert_eq!((played.code, played.kinds()), (0, PLAIN.iter().map(|kind| (*kind).to_owned()).collect()));
    let result = played.results()[0];
    assert_eq!(result["result"], "You said hello to m");
    assert_eq!(result["user_message_uuids"], json!(["u1"]));
    assert_eq!(result["modelUsage"]["m"]["inputTokens"], 1200);
    assert_eq!(played.records[2]["session_id"], SESSION);
    assert_eq!(played.records[2]["apiKeySource"], "none");
}

#[test]
fn usage_is_cumulative_over_resume_with_a_difference() {
    let place = Place::new();
    let text = one_turn(r#"{"text": "a"}"#);
    play(&place, false, &text, vec![line("u1", &["x"]), Event::Eof]);
    let second = play(&place, true, &text, vec![line("u2", &["x"]), line("u3", &["x"]), Event::Eof]);
    let results = second.results();
    assert_eq!(results[0]["modelUsage"]["m"]["outputTokens"], 84);
    assert_eq!(results[1]["modelUsage"]["m"]["outputTokens"], 126);
    assert_eq!(results[1]["model_usage_since_last_result"]["m"]["outputTokens"], 42);
    assert_eq!(results[1]["result_index"], 1);
    let per_process = r#"{"usage_per_process": true, "turns": []}"#;
    let third = play(&place, true, per_process, vec![line("u4", &["x"]), Event::Eof]);
    assert_eq!(third.results()[0]["modelUsage"]["m"]["outputTokens"], 42);
    assert!(third.results()[0].get("model_usage_since_last_result").is_none());
}

#[test]
fn sessions_that_do_not_fit_end_before_stdin() {
    let place = Place::new();
    let unknown = play(&place, true, "", vec![Event::Eof]);
    assert_eq!((unknown.code, unknown.kinds()), (1, vec!["result/error_during_execution".to_owned()]));
    assert!(unknown.results()[0]["errors"][0].as_str().unwrap().contains(SESSION));
    assert!(unknown.results()[0].get("terminal_reason").is_none());
    play(&place, false, "", vec![line("u1", &["x"]), Event::Eof]);
    let taken = play(&place, false, "", vec![Event::Eof]);
    assert_eq!((taken.code, taken.text.as_str()), (1, ""));
}

#[test]
fn a_known_line_is_echoed_and_never_played_again() {
    let place = Place::new();
    let same = play(&place, false, "", vec![line("u1", &["x"]), line("u1", &["x"]), Event::Eof]);
    assert_eq!(same.results().len(), 1);
    let resumed = play(&place, true, "", vec![line("u1", &["x"]), Event::Eof]);
    assert_eq!(resumed.kinds(), ["user/replay", "command_lifecycle/completed"]);
}

#[test]
fn a_line_without_an_answer_is_played_again_after_a_crash() {
    let place = Place::new();
    let crashed = play(&place, false, &one_turn(r#"{"exit": 9}"#), vec![line("u1", &["x"])]);
    assert_eq!(crashed.code, 9);
    let resumed = play(&place, true, "", vec![line("u1", &["x"]), Event::Eof]);
    assert_eq!(resumed.results().len(), 1);
}

#[test]
fn a_line_during_a_tool_joins_the_turn() {
    let place = Place::new();
    let text = one_turn(r#"{"tool": {"name": "Bash", "do": [{"hold": "go"}]}}, {"text": "both"}"#);
    let capture = Capture::beside(Path::new("/nowhere"), false);
    let channel = crossbeam_channel::unbounded();
    for event in [line("u1", &["x"]), line("u2", &["y"]), Event::Eof] {
        channel.0.send(event).unwrap();
    }
    // The second line is taken while the tool holds, because the marker's event is sent behind it.
    std::fs::write(place.0.join("go"), "").unwrap();
    let turn_call = call(false);
    let mut player = Player::new(
        Vec::new(),
        &turn_call,
        place.stage(),
        scenario::parse(&text).unwrap(),
        &capture,
        channel,
    );
    assert_eq!(player.play(), 0);
    let out = String::from_utf8(player.out).unwrap();
    let records: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<&Value> = records.iter().filter(|record| record["type"] == "result").collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["user_message_uuids"], json!(["u1", "u2"]));
    let second: Vec<&str> = records
        .iter()
        .filter(|record| record["command_uuid"] == "u2")
        .filter_map(|record| record["state"].as_str())
        .collect();
    assert_eq!(second, ["queued", "started", "completed"]);
}

#[test]
fn signals_end_a_turn_as_measured() {
    let hang = one_turn(r#"{"hang": true}"#);
    let tool = one_turn(r#"{"tool": {"name": "Bash", "do": [{"hold": "never"}]}}"#);
    let deaf = r#"{"ignore_sigint": true, "ignore_sigterm": true, "turns": [{"steps": [{"tool": {"name": "Bash", "do": [{"hold": "go"}]}}]}]}"#;
    let rows = [
        ("interrupt, service hangs", hang.as_str(), vec![Event::Interrupt], 0, Some("aborted_streaming")),
        ("interrupt, tool", &tool, vec![Event::Interrupt], 0, Some("aborted_tools")),
        ("terminate, tool", &tool, vec![Event::Terminate], 143, None),
        ("terminate, service hangs", &hang, vec![Event::Terminate], 143, None),
        ("both ignored", deaf, vec![Event::Interrupt, Event::Terminate, Event::Eof], 0, Some("completed")),
    ];
    for (name, text, signals, code, reason) in rows {
        let place = Place::new();
        std::fs::write(place.0.join("go"), "").unwrap();
        let played = play(&place, false, text, std::iter::once(line("u1", &["x"])).chain(signals).collect());
        let found =
            played.results().first().and_then(|result| result["terminal_reason"].as_str().map(str::to_owned));
        assert_eq!((played.code, found.as_deref()), (code, reason), "{name}");
    }
    let place = Place::new();
    let idle = play(&place, false, "", vec![line("u1", &["x"]), Event::Interrupt]);
    assert_eq!((idle.code, idle.results().len()), (0, 1));
}

#[test]
fn interrupt_request_keeps_the_process() {
    let place = Place::new();
    let text = r#"{"turns": [{"when": {"line": 1}, "steps": [{"hang": true}]}]}"#;
    let request = json!({"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}});
    let played = play(
        &place,
        false,
        text,
        vec![
            line("u1", &["x"]),
            Event::Line(request.to_string().into_bytes()),
            line("u2", &["y"]),
            Event::Eof,
        ],
    );
    assert_eq!((played.code, played.results().len()), (0, 2));
    assert!(played.kinds().contains(&"control_response/".to_owned()));
}

#[test]
fn errors_of_the_service_have_the_measured_shape() {
    let place = Place::new();
    let steps = r#"{"api_retry": {"attempt": 1, "max_retries": 2, "error_status": 401, "error": "authentication_failed"}},
        {"error": {"error": "authentication_failed", "text": "Invalid API key", "status": 401}}"#;
    let played = play(&place, false, &one_turn(steps), vec![line("u1", &["x"]), Event::Eof]);
    let result = played.results()[0];
    assert_eq!((played.code, &result["subtype"], &result["is_error"]), (1, &json!("success"), &json!(true)));
    assert_eq!((&result["terminal_reason"], &result["api_error_status"]), (&json!("api_error"), &json!(401)));
    assert_eq!(played.kinds().last().unwrap(), "command_lifecycle/cancelled");
}

#[test]
fn background_work_starts_a_turn_of_its_own() {
    let place = Place::new();
    let steps = r#"{"background": {"task_id": "t1", "description": "job", "answer": "job done"}}, {"text": "main done"}"#;
    let played = play(&place, false, &one_turn(steps), vec![line("u1", &["x"]), Event::Eof]);
    let results = played.results();
    assert_eq!((results.len(), &results[1]["result"]), (2, &json!("job done")));
    assert_eq!(results[1]["origin"]["kind"], "task-notification");
    assert!(results[1].get("user_message_uuid").is_none());
    let lists: Vec<usize> = played
        .records
        .iter()
        .filter(|record| record["subtype"] == "background_tasks_changed")
        .map(|record| record["tasks"].as_array().unwrap().len())
        .collect();
    assert_eq!(lists, [1, 0]);
}

#[test]
fn compact_command_is_no_model_call() {
    let place = Place::new();
    let played = play(&place, false, "", vec![line("u1", &["x"]), line("u2", &["/compact"]), Event::Eof]);
    let results = played.results();
    assert_eq!(
        (&results[1]["result"], &results[1]["local_command"], &results[1]["num_turns"]),
        (&json!(""), &json!("compact"), &json!(0))
    );
}

#[test]
fn odd_ends_are_played_literally() {
    let rows = [
        ("no result", one_turn(r#"{"text": "a"}, {"no_result": true}"#), 0, 0),
        ("exit code", one_turn(r#"{"text": "a"}, {"exit": 7}"#), 7, 0),
        ("members", one_turn(r#"{"result": {"subtype": "error_max_turns", "is_error": true}}"#), 1, 1),
        (
            "raw",
            one_turn(
                r#"{"raw": "noise\n\n{\"type\":\n"}, {"line": {"type": "unknown", "of": "{{session}}"}}"#,
            ),
            0,
            1,
        ),
    ];
    for (name, text, code, results) in rows {
        let place = Place::new();
        let played = play(&place, false, &text, vec![line("u1", &["x"]), Event::Eof]);
        assert_eq!((played.code, played.results().len()), (code, results), "{name}");
    }
    let place = Place::new();
    let broken = play(&place, false, "", vec![Event::Line(b"{\"type\":".to_vec())]);
    assert_eq!((broken.code, broken.text.as_str()), (1, ""));
}

#[test]
fn exit_code_and_session_can_differ() {
    let place = Place::new();
    let text = r#"{"exit": 1, "other_session": "33333333-3333-4333-8333-333333333333"}"#;
    let played = play(&place, false, text, vec![line("u1", &["x"]), Event::Eof]);
    assert_eq!((played.code, &played.results()[0]["is_error"]), (1, &json!(false)));
    assert!(!played.text.contains(SESSION));
    let other = TurnCall { session: "33333333-3333-4333-8333-333333333333".into(), ..call(true) };
    let resumed = play_as(&place, &other, place.stage(), "", vec![line("u2", &["x"]), Event::Eof]);
    assert_eq!(resumed.code, 0);
}

#[test]
fn turns_are_chosen_by_their_conditions() {
    let text = r#"{"turns": [
        {"when": {"nth": 2}, "steps": [{"text": "second call"}]},
        {"when": {"session": "resume"}, "steps": [{"text": "resumed"}]},
        {"when": {"text": "sum"}, "steps": [{"text": "a sum"}]},
        {"when": {"line": 2}, "steps": [{"text": "second line"}]},
        {"steps": [{"text": "else"}]}]}"#;
    let place = Place::new();
    let first = play(
        &place,
        false,
        text,
        vec![line("u1", &["the sum", "closing"]), line("u2", &["x"]), line("u3", &["x"]), Event::Eof],
    );
    let answers: Vec<&str> = first.results().iter().filter_map(|result| result["result"].as_str()).collect();
    assert_eq!(answers, ["a sum", "second line", "else"]);
    let resumed = play(&place, true, text, vec![line("u4", &["x"]), Event::Eof]);
    assert_eq!(resumed.results()[0]["result"], "resumed");
    let second = play_as(
        &place,
        &call(true),
        Stage { nth: 2, ..place.stage() },
        text,
        vec![line("u5", &["x"]), Event::Eof],
    );
    assert_eq!(second.results()[0]["result"], "second call");
}

#[test]
fn shell_runs_in_the_working_directory() {
    let place = Place::new();
    let steps = r#"{"tool": {"name": "Bash", "input": {"command": "x"}, "do": [{"shell": "echo made > made.txt; cat made.txt"}]}}, {"text": "{{out.shell}}"}"#;
    let played = play(&place, false, &one_turn(steps), vec![line("u1", &["x"]), Event::Eof]);
    assert_eq!(played.results()[0]["result"], "made");
    assert_eq!(std::fs::read_to_string(place.0.join("made.txt")).unwrap(), "made\n");
}

#[test]
fn recording_gets_the_ids_of_the_lines_at_hand() {
    let place = Place::new();
    let records = [
        json!({"type": "fixture_meta", "origin": "recorded"}),
        json!({"type": "command_lifecycle", "command_uuid": "old1", "state": "queued", "session_id": "olds"}),
        json!({"type": "command_lifecycle", "command_uuid": "old1", "state": "started", "session_id": "olds"}),
        json!({"type": "result", "result": "one", "user_message_uuid": "old1", "session_id": "olds"}),
        json!({"type": "command_lifecycle", "command_uuid": "old2", "state": "queued", "session_id": "olds"}),
        json!({"type": "result", "result": "two", "user_message_uuid": "old2", "session_id": "olds", "is_error": true}),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(place.0.join("rec.jsonl"), text).unwrap();
    let played = play(
        &place,
        false,
        &one_turn(r#"{"play_recording": "rec.jsonl"}"#),
        vec![line("new1", &["x"]), line("new2", &["y"]), Event::Eof],
    );
    let results = played.results();
    assert_eq!(
        (&results[0]["user_message_uuid"], &results[1]["user_message_uuid"]),
        (&json!("new1"), &json!("new2"))
    );
    assert!(!played.text.contains("old") && played.text.contains(SESSION));
    assert_eq!(played.code, 1);
}

#[test]
fn demo_works_on_real_bytes() {
    let place = Place::new();
    let inbox = place.0.join("inbox");
    let csv = place.0.join("orders.csv");
    std::fs::write(&csv, "item,quantity,total\npen,2,10\nbook,4,38.5\nlamp,1,11.5\n").unwrap();
    crate::fake_claude::steps::zip(&inbox.join("file-id/orders.zip"), &[csv]).unwrap();
    let original = std::fs::read(inbox.join("file-id/orders.zip")).unwrap();
    for (mode, kept) in [("dontAsk", false), ("bypassPermissions", true)] {
        let turn_call = TurnCall {
            add_dir: Some(inbox.to_string_lossy().into_owned()),
            permission_mode: mode.into(),
            session: uuid::Uuid::new_v4().to_string(),
            ..call(false)
        };
        let stage = Stage { title_wanted: true, ..place.stage() };
        let played = play_as(
            &place,
            &turn_call,
            stage,
            "",
            vec![line("u1", &["local file: orders.zip", "add it up", "end"]), Event::Eof],
        );
        let answer = played.results()[0]["result"].as_str().unwrap().to_owned();
        assert!(
            answer.starts_with(
                "TITLE: Summary of the orders\n\nThe archive holds 3 orders: 7 pieces for 60 in all."
            ),
            "{answer}"
        );
        assert_eq!(answer.lines().filter(|line| line.starts_with("ATTACH: /")).count(), 3);
        assert_eq!(
            std::fs::read_to_string(place.0.join("tmp/summary.csv")).unwrap(),
            "rows,quantity,total\n3,7,60\n"
        );
        assert!(place.0.join("tmp/report.txt").is_file() && place.0.join("tmp/result.zip").is_file());
        assert_eq!(place.0.join("result.zip").is_file(), kept, "{mode}");
    }
    assert_eq!(std::fs::read(inbox.join("file-id/orders.zip")).unwrap(), original);
}
