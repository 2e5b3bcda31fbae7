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

/// What any reader of the stream must look at.
#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(borrow)]
    _message: Option<&'a serde_json::value::RawValue>,
}

/// Throughput of each.
pub fn measure() -> Rows {
    let line = ordinary_line();
    let ordinary = line.repeat(ORDINARY / line.len());
    let tool = giant_tool_result();
    let answer = giant_answer();
    Ok(vec![
        Row::new("stream, 200 MB of ordinary lines", speed(&ordinary)?, ""),
        Row::new("  the same, a bare typed pass", bare(&ordinary), ""),
        Row::new("stream, one tool result of 60 MB", speed(&tool)?, ""),
        Row::new("stream, one answer of 60 MB", speed(&answer)?, ""),
    ])
}

fn ordinary_line() -> String {
    let text = "Reading the orders and adding them up, one after another. ".repeat(6);
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 0},
    });
    let line =
        json!({"type": "assistant", "message": message, "session_id": Uuid::nil(), "uuid": Uuid::nil()});
    format!("{line}\n")
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
