//! Reading a turn's stream: ordinary lines, a giant tool result, a giant answer, against a bare typed pass.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Row, Rows, broken};
use crate::run::live_box::{Sink, replay};
use crate::sdk::wire::Time;

/// Bytes of ordinary lines.
const ORDINARY: usize = 200 * 1024 * 1024;

/// Bytes of the giant tool result and the giant answer.
const GIANT: usize = 60 * 1024 * 1024;

/// Longest line, the configuration's default and more.
const LINE_LIMIT: u64 = 128 * 1024 * 1024;

/// What any typed reader of the stream must look at.
#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(borrow)]
    _message: Option<BareMessage<'a>>,
}

#[derive(Deserialize)]
struct BareMessage<'a> {
    #[serde(default, borrow)]
    _id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    _content: Vec<BareItem<'a>>,
}

#[derive(Deserialize)]
struct BareItem<'a> {
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(default, borrow)]
    _text: Option<Cow<'a, str>>,
}

/// Throughput of each.
pub fn measure() -> Rows {
    let ordinary = ordinary_lines();
    let tool = giant_tool_result();
    let answer = giant_answer();
    Ok(vec![
        Row::new("stream, 200 MB of ordinary lines", speed(&ordinary)?, ""),
        Row::new("  the same, a bare typed pass", bare(&ordinary), ""),
        Row::new("stream, one tool result of 60 MB", speed(&tool)?, ""),
        Row::new("stream, one answer of 60 MB", speed(&answer)?, ""),
    ])
}

/// A long turn: a text, a call of a tool and its result of some kilobytes, over and over.
fn ordinary_lines() -> String {
    let mut lines = String::with_capacity(ORDINARY);
    let (text, output) =
        ("Reading the orders and adding them up. ".repeat(8), "a line of output\n".repeat(300));
    let session = Uuid::nil();
    for number in 0_u64.. {
        let (message, tool) = (format!("msg_{number}"), format!("toolu_{number}"));
        let usage = json!({"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 0});
        let said = |item: Value| {
            json!({"type": "assistant", "session_id": session, "message": {
            "id": message, "role": "assistant", "model": "stand-in", "content": [item], "usage": usage}})
        };
        let result = json!({"type": "user", "session_id": session, "tool_use_result": {"stdout": output},
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool, "content": output}]}});
        let call =
            json!({"type": "tool_use", "id": tool, "name": "Bash", "input": {"command": "cat orders.csv"}});
        for line in [said(json!({"type": "text", "text": text})), said(call), result] {
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
        if lines.len() >= ORDINARY {
            break;
        }
    }
    lines
}

fn giant_tool_result() -> String {
    let content = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x".repeat(GIANT)}]);
    let line =
        json!({"type": "user", "message": {"role": "user", "content": content}, "session_id": Uuid::nil()});
    format!("{line}\n")
}

fn giant_answer() -> String {
    let line =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "x".repeat(GIANT)});
    format!("{line}\n")
}

fn speed(text: &str) -> Result<String, crate::cli::exit::Failure> {
    let mut document: BTreeMap<String, Value> = BTreeMap::new();
    let mut sink = Sink { document: &mut document, mask: &unmasked, now: Time::now() };
    let began = Instant::now();
    replay(&mut text.as_bytes(), LINE_LIMIT, Uuid::nil(), &mut sink).map_err(broken("no stream"))?;
    Ok(rate(text.len(), began))
}

fn unmasked(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn bare(text: &str) -> String {
    let began = Instant::now();
    let fine = text.lines().filter(|line| serde_json::from_str::<Bare<'_>>(line).is_ok()).count();
    let rate = rate(text.len(), began);
    if fine == 0 { "nothing".to_owned() } else { rate }
}

fn rate(bytes: usize, began: Instant) -> String {
    let mebibytes = bytes as f64 / 1024.0 / 1024.0;
    format!("{:.0} MiB/s", mebibytes / began.elapsed().as_secs_f64())
}
