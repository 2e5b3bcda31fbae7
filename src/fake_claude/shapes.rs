//! The records of the stream, in the shapes of the pinned version's recordings.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::session::Counts;

/// Context window and longest answer that the real CLI names for its models.
const CONTEXT_WINDOW: u64 = 200_000;
const MAX_OUTPUT_TOKENS: u64 = 32_000;

/// What an ordinary turn uses, and its price in dollars.
const TURN_USAGE: &[(&str, f64)] = &[
    ("inputTokens", 1200.0),
    ("outputTokens", 42.0),
    ("cacheReadInputTokens", 5000.0),
    ("cacheCreationInputTokens", 300.0),
    ("costUSD", 0.006855),
];

/// Ids that most records carry.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub(super) session: String,
    pub(super) model: String,
}

/// A fresh id for a record.
pub(super) fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The usage of an ordinary turn.
pub(super) fn turn_usage() -> Counts {
    TURN_USAGE.iter().map(|(member, count)| ((*member).to_owned(), *count)).collect()
}

impl Ids {
    /// A `system` record with `members`.
    pub(super) fn system(&self, subtype: &str, members: Value) -> Value {
        let mut record =
            json!({"type": "system", "subtype": subtype, "session_id": self.session, "uuid": fresh()});
        merge(&mut record, members);
        record
    }

    /// `command_lifecycle` of a line.
    pub(super) fn lifecycle(&self, uuid: &str, state: &str) -> Value {
        json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state, "uuid": fresh(), "session_id": self.session})
    }

    /// The echo of a line.
    pub(super) fn replay(&self, uuid: &str, content: &Value) -> Value {
        let message = json!({"role": "user", "content": content});
        json!({"type": "user", "message": message, "session_id": self.session, "parent_tool_use_id": null, "uuid": uuid, "timestamp": now(), "isReplay": true})
    }

    /// An assistant record with one content block.
    pub(super) fn assistant(&self, block: Value, uuids: &[String]) -> Value {
        let usage = json!({"input_tokens": 1200, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 5000, "output_tokens": 1});
        let message = json!({
            "id": format!("msg_{}", fresh().replace('-', "")), "type": "message", "role": "assistant", "model": self.model, "content": [block],
            "stop_reason": null, "stop_sequence": null, "usage": usage, "context_management": null,
        });
        let mut record = json!({"type": "assistant", "message": message, "parent_tool_use_id": null, "session_id": self.session, "uuid": fresh(), "timestamp": now()});
        merge(&mut record, named(uuids));
        record
    }

    /// The assistant record that carries an error of the service.
    pub(super) fn synthetic(&self, error: &str, text: &str, status: Option<u16>) -> Value {
        let message = json!({
            "id": fresh(), "type": "message", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}],
            "stop_reason": "stop_sequence", "stop_sequence": "", "usage": {"input_tokens": 0, "output_tokens": 0},
        });
        json!({
            "type": "assistant", "message": message, "parent_tool_use_id": null, "session_id": self.session, "uuid": fresh(),
            "timestamp": now(), "error": error, "is_api_error_message": true, "api_error_status": status,
        })
    }

    /// The result of a tool call.
    pub(super) fn tool_result(&self, id: &str, output: &str, is_error: bool) -> Value {
        let block =
            json!({"tool_use_id": id, "type": "tool_result", "content": output, "is_error": is_error});
        json!({
            "type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": null, "session_id": self.session,
            "uuid": fresh(), "timestamp": now(), "tool_use_result": {"stdout": output, "stderr": "", "interrupted": false},
        })
    }

    /// The line that an interruption leaves.
    pub(super) fn interruption(&self, text: &str) -> Value {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
        json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": self.session, "uuid": fresh(), "timestamp": now()})
    }

    /// A result record; `members` replace and extend the ordinary ones.
    pub(super) fn result(&self, index: usize, usage: &Usage<'_>, uuids: &[String], members: Value) -> Value {
        let tokens =
            |member: &str| usage.turn.values().filter_map(|counts| counts.get(member)).sum::<f64>() as u64;
        let mut record = json!({
            "type": "result", "subtype": "success", "is_error": false, "session_id": self.session, "uuid": fresh(), "result_index": index,
            "num_turns": 1, "duration_ms": 108, "duration_api_ms": 31, "stop_reason": "end_turn", "terminal_reason": "completed",
            "api_error_status": null, "permission_denials": [], "queued_turn_count": 0, "total_cost_usd": cost(usage.shown),
            "usage": {
                "input_tokens": tokens("inputTokens"), "output_tokens": tokens("outputTokens"),
                "cache_creation_input_tokens": tokens("cacheCreationInputTokens"), "cache_read_input_tokens": tokens("cacheReadInputTokens"),
            },
            "modelUsage": model_usage(usage.shown),
        });
        if usage.with_difference {
            record["model_usage_since_last_result"] = model_usage(usage.turn);
        }
        merge(&mut record, named(uuids));
        merge(&mut record, members);
        record
    }
}

/// The usage members of a result.
pub(super) struct Usage<'a> {
    /// The sums that are shown.
    pub(super) shown: &'a BTreeMap<String, Counts>,
    /// Since the last result.
    pub(super) turn: &'a BTreeMap<String, Counts>,
    /// Whether the version prints the difference.
    pub(super) with_difference: bool,
}

/// Puts the members of `more` into `record`; a null takes a member away.
pub(super) fn merge(record: &mut Value, more: Value) {
    let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) else { return };
    record.extend(more);
}

/// The time in the form of the stream.
pub(super) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn named(uuids: &[String]) -> Value {
    match uuids.first() {
        Some(first) => json!({"user_message_uuid": first, "user_message_uuids": uuids}),
        None => json!({}),
    }
}

fn cost(usage: &BTreeMap<String, Counts>) -> f64 {
    usage.values().filter_map(|counts| counts.get("costUSD")).sum()
}

fn model_usage(usage: &BTreeMap<String, Counts>) -> Value {
    let one = |(model, counts): (&String, &Counts)| (model.clone(), model_counts(model, counts));
    Value::Object(usage.iter().map(one).collect::<Map<_, _>>())
}

fn model_counts(model: &str, counts: &Counts) -> Value {
    let mut record = json!({
        "webSearchRequests": 0, "contextWindow": CONTEXT_WINDOW, "maxOutputTokens": MAX_OUTPUT_TOKENS, "thinkingTokens": 0,
        "canonicalModel": model, "provider": "firstParty", "costBasis": "list",
    });
    for (member, count) in counts {
        record[member] = if member == "costUSD" { json!(count) } else { json!(*count as u64) };
    }
    record
}
