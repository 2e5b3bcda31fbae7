use super::*;
use crate::claude::stream::Record;

fn read(line: &str) -> Option<Message> {
    parse(Record { json: line.as_bytes(), text: None, offset: 0 })
}

fn assistant(line: &str) -> Assistant {
    match read(line) {
        Some(Message::Assistant(assistant)) => assistant,
        other => panic!("{other:?}"),
    }
}

fn result(line: &str) -> TurnResult {
    match read(line) {
        Some(Message::Result(result)) => *result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn noise_and_lines_without_use() {
    let noise = ["", "not json", "[1]", "12", "\"x\"", "{\"type\":\"result\"", "{\"a\":1}}", "null"];
    for line in noise {
        assert_eq!(read(line), None, "{line}");
    }
    let ignored = [
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"future_thing","payload":{"a":[1,{"b":null}]}}"#,
        r#"{"x":1,"type":"future_thing"}"#,
        r#"{"type":"system","subtype":"weather_notice","x":1}"#,
        r#"{"subtype":"weather_notice","type":"system"}"#,
        r#"{"type":"system"}"#,
        r#"{"type":"command_lifecycle","command_uuid":"u","state":"postponed"}"#,
        r#"{"type":"command_lifecycle","state":"queued"}"#,
        r#"{"type":"control_request","request":{}}"#,
        r#"{"type":"user","message":{"content":"summary"}}"#,
        r#"{"type":"system","subtype":"task_started","task_id":5}"#,
    ];
    for line in ignored {
        assert_eq!(read(line), Some(Message::Ignored), "{line}");
    }
}

#[test]
fn a_field_of_another_kind_never_loses_the_message() {
    let values =
        ["null", "true", "-1", "1.5", "1e400", "\"s\"", "[]", "[{\"a\":[1]}]", "{}", "{\"b\":{\"c\":2}}"];
    let whole = [
        r#"{"type":"assistant","message":@,"parent_tool_use_id":@,"error":@,"api_error_params":@,"timestamp":@}"#,
        r#"{"type":"assistant","message":{"id":@,"model":@,"content":@,"usage":@}}"#,
        r#"{"type":"assistant","message":{"content":[@,{"type":@},{"type":"text","text":@},{"type":"tool_use","id":@,"name":@,"input":@}],"usage":{"input_tokens":@}}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":@,"is_error":@}]},"isReplay":@}"#,
        r#"{"type":"system","subtype":"init","session_id":@,"model":@,"apiKeySource":@}"#,
        r#"{"type":"system","subtype":"task_started","task_id":"t","description":@,"is_backgrounded":@,"ambient":@}"#,
        r#"{"type":"system","subtype":"task_updated","task_id":"t","patch":@}"#,
        r#"{"type":"system","subtype":"background_tasks_changed","tasks":@}"#,
        r#"{"type":"system","subtype":"api_retry","attempt":@,"error":@,"error_status":@}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":@}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":{"resetsAt":@}}"#,
        r#"{"type":"result","is_error":@,"result":@,"errors":@,"user_message_uuids":@,"origin":@,"modelUsage":@}"#,
        r#"{"type":"result","api_error_status":@,"modelUsage":{"m":@},"model_usage_since_last_result":{"m":{"costUSD":@,"inputTokens":@}}}"#,
    ];
    for line in whole {
        for value in values.iter().filter(|value| **value != "1e400") {
            let line = line.replace('@', value);
            assert!(
                read(&line).is_some_and(|message| message != Message::Ignored || line.contains("\"user\"")),
                "{line}"
            );
        }
    }
}

#[test]
fn a_member_that_stands_twice_does_not_lose_the_line() {
    let got = result(
        r#"{"type":"result","result":"a","result":"b","is_error":false,"modelUsage":{"m":{"costUSD":0.25}}}"#,
    );
    assert_eq!(got.text.as_deref(), Some("b"));
    assert_eq!(got.model_usage.unwrap()[0].1.cost_usd.as_deref(), Some("0.25"));
}

#[test]
fn broken_characters_become_one_replacement_each() {
    let line = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"lone:\ud83d end \ud83d\ude00"}]}}"#;
    assert_eq!(assistant(line).text, "lone:\u{fffd} end \u{1f600}");
    let mut bytes = br#"{"type":"result","is_error":false,"result":"a"#.to_vec();
    bytes.extend_from_slice(b"\xff\"}");
    let Some(Message::Result(got)) = parse(Record { json: &bytes, text: None, offset: 0 }) else { panic!() };
    assert_eq!(got.text.as_deref(), Some("a\u{fffd}"));
}

#[test]
fn c1_03_only_lf_ends_a_record_and_the_answer_keeps_its_characters() {
    let line = "{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": false, \"result\": \"first\u{2028}second\u{2029}third\u{85}fourth\\u000bfifth\\nATTACH: ROOT/out/a.txt\u{2028}ATTACH: ROOT/out/b.txt\", \"num_turns\": 1}";
    let text = result(line).text.unwrap();
    assert_eq!(
        text,
        "first\u{2028}second\u{2029}third\u{85}fourth\u{b}fifth\nATTACH: ROOT/out/a.txt\u{2028}ATTACH: ROOT/out/b.txt"
    );
}

#[test]
fn c1_05_unknown_things_are_skipped() {
    let line = r#"{"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [{"type": "hologram", "data": "zz"}, {"type": "text", "text": "Still here."}], "usage": {"input_tokens": "3", "output_tokens": null}}}"#;
    let got = assistant(line);
    assert_eq!(got.text, "Still here.");
    assert_eq!(got.usage, Some(Tokens::default()));
    let line =
        r#"{"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1900000000}}"#;
    assert_eq!(read(line), Some(Message::RateLimit { resets_at: Some(1_900_000_000) }));
}

#[test]
fn c1_15_a_control_request_is_seen() {
    let line = r#"{"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool"}}"#;
    assert_eq!(read(line), Some(Message::ControlRequest { request_id: "r1".into() }));
}

#[test]
fn the_subject_of_a_tool_call() {
    let rows = [
        (r#"{"description":"d","command":"echo a\nb"}"#, "echo a\nb"),
        (r#"{"prompt":"p","description":"d"}"#, "d"),
        (r#"{"n":1,"zeta":"z","alpha":"a"}"#, "z"),
        (r#"{"command":5,"x":"y"}"#, "y"),
        (r#"{"questions":[{"question":"Which?"}]}"#, ""),
        (r#"{}"#, ""),
        (r#""text""#, ""),
    ];
    for (input, subject) in rows {
        let line = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t","name":"N","input":{input}}}]}}}}"#
        );
        assert_eq!(assistant(&line).tool_uses[0].subject, subject, "{input}");
    }
}

#[test]
fn success_is_is_error_false() {
    let rows = [
        (r#""subtype":"success","is_error":false"#, true),
        (r#""subtype":"odd","is_error":false"#, true),
        (r#""subtype":"success","is_error":true"#, false),
        (r#""subtype":"success","is_error":"no""#, true),
        (r#""subtype":"success","api_error_status":429"#, false),
        (r#""subtype":"success","terminal_reason":"api_error""#, false),
        (r#""subtype":"error_during_execution""#, false),
    ];
    for (members, expected) in rows {
        assert_eq!(result(&format!(r#"{{{members},"type":"result"}}"#)).is_success(), expected, "{members}");
    }
}

#[test]
fn a_reset_in_milliseconds_counts_as_one() {
    let rows = [
        ("1900000000", Some(1_900_000_000)),
        ("1900000000000", Some(1_900_000_000)),
        ("0", None),
        ("-5", None),
    ];
    for (number, expected) in rows {
        let line = format!(r#"{{"type":"rate_limit_event","rate_limit_info":{{"resetsAt":{number}}}}}"#);
        assert_eq!(read(&line), Some(Message::RateLimit { resets_at: expected }), "{number}");
    }
}

fn piece(id: &str, text: &str) -> Assistant {
    Assistant { id: Some(id.into()), text: text.into(), ..Assistant::default() }
}

fn tool(id: &str) -> Assistant {
    let tool_uses = vec![ToolUse { id: "t".into(), ..ToolUse::default() }];
    Assistant { id: Some(id.into()), tool_uses, ..Assistant::default() }
}

#[test]
fn c1_13_lines_with_one_id_are_one_message() {
    let rows: [(&str, Vec<Assistant>, &str); 6] = [
        (
            "identical",
            vec![piece("m", "Hi there."), piece("m", "Hi there."), piece("m", "Hi there.")],
            "Hi there.",
        ),
        ("pieces", vec![piece("m", "Hi "), piece("m", "there.")], "Hi there."),
        ("growing", vec![piece("m", "Hi "), piece("m", "Hi there.")], "Hi there."),
        ("another message", vec![piece("m", "Hi"), piece("n", "Ho")], "Ho"),
        ("a tool between", vec![piece("m", "Look:"), tool("m"), piece("m", "Found.")], "Look:\nFound."),
        ("a tool only", vec![piece("m", "Look:"), tool("n")], "Look:"),
    ];
    for (name, lines, expected) in rows {
        let mut joined = JoinedText::new(usize::MAX);
        for line in &lines {
            joined.add(line);
        }
        assert_eq!(joined.text(), expected, "{name}");
    }
}

#[test]
fn the_last_text_of_a_recording() {
    let rows = [
        ("", None),
        (
            r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"half"}]}}"#,
            Some("half"),
        ),
        (
            r#"{"type":"assistant","error":"unknown","message":{"id":"m","content":[{"type":"text","text":"API"}]}}"#,
            None,
        ),
    ];
    for (recording, expected) in rows {
        assert_eq!(last_text(&mut recording.as_bytes(), 1 << 20).unwrap().as_deref(), expected);
    }
}
