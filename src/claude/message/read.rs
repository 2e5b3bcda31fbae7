//! From a line of the CLI to a `Message`.
//!
//! Decides which fields make which message and nothing about what follows from it.

use super::lenient::{Members, Object, Text};
use super::raw::{self, Raw, RawModelUsage};
use super::{
    ApiRetry, Assistant, Init, LifecycleState, Message, ModelUsage, TaskEnded, TaskStarted, TaskStatus,
    Tokens, ToolResult, ToolResults, ToolUse, TurnResult,
};
use crate::claude::stream::Record;

/// Reads one line; `None` for noise: what is no JSON object.
pub fn parse(record: Record<'_>) -> Option<Message> {
    if starts_with_unknown_type(record.json) {
        return Some(Message::Ignored);
    }
    if let Some(raw) = raw::read(record.json) {
        return Some(message(raw, record.text));
    }
    let mended = raw::mend(record.json)?;
    raw::read(mended.as_bytes()).map(|raw| message(raw, record.text))
}

/// `type` and `subtype` of the lines that have a use.
const KNOWN_TYPES: [&[u8]; 7] = [
    b"system",
    b"assistant",
    b"user",
    b"result",
    b"command_lifecycle",
    b"rate_limit_event",
    b"control_request",
];
const KNOWN_SUBTYPES: [&[u8]; 7] = [
    b"init",
    b"task_started",
    b"task_updated",
    b"task_notification",
    b"background_tasks_changed",
    b"status",
    b"api_retry",
];

/// Whether the first members say that nobody needs the line, so that it need not be parsed.
fn starts_with_unknown_type(json: &[u8]) -> bool {
    let Some((kind, rest)) = string_behind(json, b"{\"type\":\"") else { return false };
    if kind == b"system" {
        return string_behind(rest, b",\"subtype\":\"")
            .is_some_and(|(name, _)| !KNOWN_SUBTYPES.contains(&name));
    }
    !KNOWN_TYPES.contains(&kind)
}

/// The string that `prefix` opens, without escapes, and what follows its closing quote.
fn string_behind<'a>(json: &'a [u8], prefix: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let rest = json.strip_prefix(prefix)?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then(|| (&rest[..end], &rest[end + 1..]))
}

fn message(raw: Raw<'_>, long_text: Option<String>) -> Message {
    match raw.kind.as_str() {
        Some("system") => system(raw),
        Some("assistant") => Message::Assistant(assistant(raw, long_text)),
        Some("user") => user(raw),
        Some("result") => Message::Result(Box::new(result(raw, long_text))),
        Some("command_lifecycle") => lifecycle(raw),
        Some("rate_limit_event") => Message::RateLimit { resets_at: reset_seconds(raw.rate_limit_info) },
        Some("control_request") => raw
            .request_id
            .into_owned()
            .map_or(Message::Ignored, |request_id| Message::ControlRequest { request_id }),
        _ => Message::Ignored,
    }
}

fn system(raw: Raw<'_>) -> Message {
    match raw.subtype.as_str() {
        Some("init") => Message::Init(Init {
            session_id: raw.session_id.into_owned(),
            model: raw.model.into_owned(),
            api_key_source: raw.api_key_source.into_owned(),
        }),
        Some("task_started") => task_started(raw),
        Some("task_updated") => {
            let status = raw.patch.0.unwrap_or_default().status;
            task_ended(raw.task_id, &status, false)
        }
        Some("task_notification") => task_ended(raw.task_id, &raw.status, true),
        Some("background_tasks_changed") => Message::BackgroundTasks(background_tasks(raw)),
        Some("status") => Message::Status { compacting: raw.status.as_str() == Some("compacting") },
        Some("api_retry") => Message::ApiRetry(ApiRetry {
            attempt: raw.attempt.0.unwrap_or_default(),
            max_retries: raw.max_retries.0.unwrap_or_default(),
            retry_delay_ms: raw.retry_delay_ms.0.unwrap_or_default(),
            error: raw.error.into_owned().unwrap_or_default(),
            error_status: raw.error_status.0.and_then(|status| u16::try_from(status).ok()),
        }),
        _ => Message::Ignored,
    }
}

fn task_started(raw: Raw<'_>) -> Message {
    let Some(task_id) = raw.task_id.into_owned() else { return Message::Ignored };
    Message::TaskStarted(TaskStarted {
        task_id,
        tool_use_id: raw.tool_use_id.into_owned(),
        task_type: raw.task_type.into_owned(),
        subagent_type: raw.subagent_type.into_owned(),
        description: raw.description.into_owned().unwrap_or_default(),
        backgrounded: raw.is_backgrounded.0.unwrap_or(true),
        ambient: raw.ambient.0.unwrap_or(false),
    })
}

fn task_ended(task_id: Text<'_>, status: &Text<'_>, notification: bool) -> Message {
    let Some(task_id) = task_id.into_owned() else { return Message::Ignored };
    let status = match status.as_str() {
        Some("completed") => TaskStatus::Completed,
        Some("failed") => TaskStatus::Failed,
        Some("stopped" | "killed") => TaskStatus::Stopped,
        _ => TaskStatus::Other,
    };
    Message::TaskEnded(TaskEnded { task_id, status, notification })
}

fn background_tasks(raw: Raw<'_>) -> Vec<String> {
    let tasks = raw.tasks.0.into_iter().filter_map(|task| task.0);
    tasks.filter(|task| task.ambient.0 != Some(true)).filter_map(|task| task.task_id.into_owned()).collect()
}

fn lifecycle(raw: Raw<'_>) -> Message {
    let state = match raw.state.as_str() {
        Some("queued") => LifecycleState::Queued,
        Some("started") => LifecycleState::Started,
        Some("completed") => LifecycleState::Completed,
        Some("cancelled") => LifecycleState::Cancelled,
        _ => return Message::Ignored,
    };
    raw.command_uuid.into_owned().map_or(Message::Ignored, |uuid| Message::Lifecycle { uuid, state })
}

fn user(raw: Raw<'_>) -> Message {
    if raw.is_replay.0 == Some(true) {
        return Message::Replay;
    }
    let blocks = raw.message.0.unwrap_or_default().content.0.into_iter().filter_map(|block| block.0);
    let results: Vec<ToolResult> = blocks
        .filter(|block| block.kind.as_str() == Some("tool_result"))
        .filter_map(|block| {
            let tool_use_id = block.tool_use_id.into_owned()?;
            Some(ToolResult { tool_use_id, is_error: block.is_error.0.unwrap_or(false) })
        })
        .collect();
    if results.is_empty() {
        return Message::Ignored;
    }
    Message::ToolResults(ToolResults { results, at_millis: millis(&raw.timestamp) })
}

fn assistant(raw: Raw<'_>, long_text: Option<String>) -> Assistant {
    let at_millis = millis(&raw.timestamp);
    let body = raw.message.0.unwrap_or_default();
    let mut text = long_text;
    let mut tool_uses = Vec::new();
    for block in body.content.0.into_iter().filter_map(|block| block.0) {
        match block.kind.as_str() {
            Some("text") => match (&mut text, block.text.0) {
                (Some(text), Some(more)) => text.push_str(&more),
                (None, Some(first)) => text = Some(first.into_owned()),
                (_, None) => {}
            },
            Some("tool_use") => tool_uses.extend(block.id.into_owned().map(|id| ToolUse {
                id,
                name: block.name.into_owned().unwrap_or_default(),
                subject: subject(block.input),
            })),
            _ => {}
        }
    }
    Assistant {
        id: body.id.into_owned(),
        model: body.model.into_owned(),
        text: text.unwrap_or_default(),
        tool_uses,
        usage: body.usage.0.map(|usage| Tokens {
            input: usage.input_tokens.0.unwrap_or_default(),
            output: usage.output_tokens.0.unwrap_or_default(),
            cache_read: usage.cache_read_input_tokens.0.unwrap_or_default(),
            cache_write: usage.cache_creation_input_tokens.0.unwrap_or_default(),
        }),
        parent_tool_use_id: raw.parent_tool_use_id.into_owned(),
        error: raw.error.into_owned(),
        resets_at: reset_seconds(raw.api_error_params),
        at_millis,
    }
}

/// The members of a tool's input that say most about the call, best first (M2-34 note 12).
const SUBJECTS: [&str; 8] =
    ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];

fn subject(input: Members<Text<'_>>) -> String {
    let mut strings: Vec<_> =
        input.0.unwrap_or_default().into_iter().filter_map(|(name, value)| Some((name, value.0?))).collect();
    let rank = |name: &str| SUBJECTS.iter().position(|known| *known == name).unwrap_or(SUBJECTS.len());
    // The sort is stable: among members that are not listed the first stays the first.
    strings.sort_by_key(|(name, _)| rank(name));
    strings.into_iter().next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

fn result(raw: Raw<'_>, long_text: Option<String>) -> TurnResult {
    let named = raw.user_message_uuids.0.into_iter().chain([raw.user_message_uuid]);
    let mut uuids = Vec::new();
    for uuid in named.filter_map(Text::into_owned) {
        if !uuids.contains(&uuid) {
            uuids.push(uuid);
        }
    }
    TurnResult {
        uuid: raw.uuid.into_owned(),
        subtype: raw.subtype.into_owned(),
        is_error: raw.is_error.0,
        text: long_text.or_else(|| raw.result.into_owned()),
        errors: raw.errors.0.into_iter().filter_map(Text::into_owned).collect(),
        terminal_reason: raw.terminal_reason.into_owned(),
        stop_reason: raw.stop_reason.into_owned(),
        api_error_status: raw.api_error_status.0.and_then(|status| u16::try_from(status).ok()),
        local_command: raw.local_command.into_owned(),
        session_id: raw.session_id.into_owned(),
        uuids,
        origin: raw.origin.0.unwrap_or_default().kind.into_owned(),
        model_usage: model_usage(raw.model_usage),
        model_usage_delta: model_usage(raw.model_usage_since_last_result),
    }
}

fn model_usage(members: Members<Object<RawModelUsage>>) -> Option<Vec<(String, ModelUsage)>> {
    let usage = |raw: RawModelUsage| ModelUsage {
        tokens: Tokens {
            input: raw.input_tokens.0.unwrap_or_default(),
            output: raw.output_tokens.0.unwrap_or_default(),
            cache_read: raw.cache_read_input_tokens.0.unwrap_or_default(),
            cache_write: raw.cache_creation_input_tokens.0.unwrap_or_default(),
        },
        cost_usd: raw.cost_usd.map(|digits| digits.get().to_owned()),
        context_window: raw.context_window.0,
    };
    let known = members.0?.into_iter().filter_map(|(model, raw)| Some((model, usage(raw.0?))));
    Some(known.collect())
}

/// Later than any second that is meant: such a number counts milliseconds.
const SECONDS_MAX: u64 = 100_000_000_000;

fn reset_seconds(reset: Object<raw::RawReset>) -> Option<i64> {
    let number = reset.0?.resets_at.0?;
    let seconds = if number > SECONDS_MAX { number / 1000 } else { number };
    i64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
}

fn millis(timestamp: &Text<'_>) -> Option<i64> {
    timestamp.as_str()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
