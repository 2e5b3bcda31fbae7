//! The fields of the CLI's lines that the runner reads, by their printed names (FACTS of the pinned version).
//!
//! One struct for all lines, because `type` is not always the first member. Every field is lenient; what is not named
//! here is read over.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Count, Flag, List, Members, Object, Text};
use crate::claude::stream::clean;

/// One line.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    pub subtype: Text<'a>,
    pub uuid: Text<'a>,
    pub session_id: Text<'a>,
    pub timestamp: Text<'a>,
    pub model: Text<'a>,
    #[serde(rename = "apiKeySource")]
    pub api_key_source: Text<'a>,
    pub message: Object<RawMessage<'a>>,
    pub parent_tool_use_id: Text<'a>,
    #[serde(rename = "isReplay")]
    pub is_replay: Flag,
    pub error: Text<'a>,
    pub api_error_params: Object<RawReset>,
    pub command_uuid: Text<'a>,
    pub state: Text<'a>,
    pub status: Text<'a>,
    pub task_id: Text<'a>,
    pub task_type: Text<'a>,
    pub tool_use_id: Text<'a>,
    pub subagent_type: Text<'a>,
    pub description: Text<'a>,
    pub ambient: Flag,
    pub is_backgrounded: Flag,
    pub patch: Object<RawPatch<'a>>,
    pub tasks: List<Object<RawTask<'a>>>,
    pub attempt: Count,
    pub max_retries: Count,
    pub retry_delay_ms: Count,
    pub error_status: Count,
    pub rate_limit_info: Object<RawReset>,
    pub request_id: Text<'a>,
    pub is_error: Flag,
    pub result: Text<'a>,
    pub errors: List<Text<'a>>,
    pub terminal_reason: Text<'a>,
    pub stop_reason: Text<'a>,
    pub api_error_status: Count,
    pub local_command: Text<'a>,
    pub user_message_uuid: Text<'a>,
    pub user_message_uuids: List<Text<'a>>,
    pub origin: Object<RawOrigin<'a>>,
    #[serde(rename = "modelUsage")]
    pub model_usage: Members<Object<RawModelUsage>>,
    pub model_usage_since_last_result: Members<Object<RawModelUsage>>,
}

/// `message` of an assistant or user line.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawMessage<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    pub model: Text<'a>,
    pub content: List<Object<RawBlock<'a>>>,
    pub usage: Object<RawTokens>,
}

/// One content block.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    pub text: Text<'a>,
    pub id: Text<'a>,
    pub name: Text<'a>,
    pub input: Members<Text<'a>>,
    pub tool_use_id: Text<'a>,
    pub is_error: Flag,
}

/// `message.usage`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawTokens {
    pub input_tokens: Count,
    pub output_tokens: Count,
    pub cache_read_input_tokens: Count,
    pub cache_creation_input_tokens: Count,
}

/// `patch` of `task_updated`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPatch<'a> {
    #[serde(borrow)]
    pub status: Text<'a>,
}

/// One element of `tasks`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawTask<'a> {
    #[serde(borrow)]
    pub task_id: Text<'a>,
    pub ambient: Flag,
}

/// When a limit ends.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawReset {
    #[serde(rename = "resetsAt", alias = "resets_at")]
    pub resets_at: Count,
}

/// `origin` of a result.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawOrigin<'a> {
    #[serde(borrow)]
    pub kind: Text<'a>,
}

/// One model of `modelUsage`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawModelUsage {
    pub input_tokens: Count,
    pub output_tokens: Count,
    pub cache_read_input_tokens: Count,
    pub cache_creation_input_tokens: Count,
    #[serde(rename = "costUSD")]
    pub cost_usd: Option<Box<RawValue>>,
    pub context_window: Count,
}

/// Reads one line; `None` when it is no JSON object that a strict parser takes.
pub(super) fn read(json: &[u8]) -> Option<Raw<'_>> {
    serde_json::from_slice::<Object<Raw<'_>>>(json).ok()?.0
}

/// The line in a form that `read` takes, if it is JSON at all: broken characters are replaced, of a member that
/// stands twice the last counts.
pub(super) fn mend(json: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(&clean(json)).ok()?;
    Some(value.to_string())
}
