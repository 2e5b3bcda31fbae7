//! Runs: start, the live document, the end.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::time::Time;

/// Who pays for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BillingMode {
    /// The operator's API key.
    Organization,
    /// The login of the account the runner runs as.
    Personal,
}

/// What a turn may do, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolClass {
    /// No tools.
    Chat,
    /// Named tools.
    Scoped,
    /// Everything the account may do.
    Host,
}

impl ToolClass {
    /// Whether this class may do more than `allowed` (M2-34, product requirement 2).
    pub fn exceeds(self, allowed: ToolClass) -> bool {
        self > allowed
    }
}

/// The states of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Waiting for its start.
    Queued,
    /// Started.
    Running,
    /// A stop was asked for.
    Cancelling,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by a stop.
    Cancelled,
    /// Ended because the runner was gone.
    Interrupted,
}

impl RunState {
    /// Whether the run has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Interrupted)
    }
}

/// Answer of `getRun` and `finishRun`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Identity.
    pub run_id: Uuid,
    /// How far it is.
    pub state: RunState,
    /// Version of the run document.
    pub version: i64,
}

/// The session of a thread, as the server keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSession {
    /// The runtime's name for it; this runtime accepts only a UUID.
    pub external_session_ref: String,
    /// Whether the runtime has confirmed it.
    pub started: bool,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Body of `renewInvocationToken`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvocationTokenRenew {
    /// `jti` of the token to replace.
    pub expired_jti: String,
}

/// Answer of `renewInvocationToken`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvocationTokenGrant {
    /// The new token.
    pub invocation_token: String,
}

/// Body of `startRun`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStart {
    /// Who pays, proven.
    pub billing_mode_used: BillingMode,
    /// What the turn may do.
    pub tool_class_used: ToolClass,
    /// The session the turn runs in.
    pub external_session_ref: String,
    /// The model asked for.
    pub model: String,
    /// The proof of who pays.
    pub billing_evidence: BillingEvidence,
}

/// The proof of who pays; never a key or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BillingEvidence {
    /// Whose service is paid.
    pub provider: String,
    /// `api_key`, `oauth`, `cloud`, `none` or `unknown`.
    pub key_type: String,
    /// How it was found out.
    pub method: String,
}

/// Answer of `startRun`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run, now running.
    pub run: RunInfo,
    /// The thread's session.
    pub agent_session: AgentSession,
}

/// Body of `patchRun`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPatch {
    /// The version the operations start from.
    pub base_version: i64,
    /// The operations, in order.
    pub ops: Vec<PatchOp>,
}

/// One operation on the run document, with set semantics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchOp {
    /// What to do.
    pub op: PatchKind,
    /// JSON pointer of a path of the run document.
    pub path: String,
    /// The value of `add` and `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The operations of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchKind {
    /// Set, whether it exists or not.
    Add,
    /// Set.
    Replace,
    /// Take away, whether it exists or not.
    Remove,
}

/// Answer of `patchRun` and `reportAgentSession`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versioned {
    /// The new version.
    pub version: i64,
}

/// One step of the run document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStep {
    /// Identity.
    pub id: Uuid,
    /// What kind of work.
    pub kind: StepKind,
    /// The tool's or the state's name.
    pub name: String,
    /// One line for people, may be empty.
    pub title: String,
    /// How far it is.
    pub status: StepStatus,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The step it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_step_id: Option<Uuid>,
    /// Strings by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<std::collections::BTreeMap<String, String>>,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A call of a tool.
    ToolCall,
    /// An agent started by the turn.
    Subagent,
    /// Work that goes on beside the turn.
    BackgroundJob,
    /// A state worth showing.
    Status,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// At work.
    Running,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by a stop.
    Cancelled,
}

/// Numbers of a run; every member is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunMetrics {
    /// Tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Tokens read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cache_read: Option<u64>,
    /// Tokens written to the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cache_write: Option<u64>,
    /// Share of the context window in use, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_pct: Option<f64>,
    /// Subagents started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<u64>,
    /// Background jobs at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_jobs: Option<u64>,
    /// Repeated calls of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_retries: Option<u64>,
    /// The newest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_api_retry: Option<ApiRetry>,
}

/// One repeated call of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiRetry {
    /// Counts from one.
    pub attempt: u64,
    /// The most there will be.
    pub max_retries: u64,
    /// Wait before it, milliseconds.
    pub retry_delay_ms: u64,
    /// The runtime's category of the error.
    pub error: String,
    /// HTTP status of the error, when there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_status: Option<u16>,
}

/// What a run cost on one model; an estimate by the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostReport {
    /// Whose service.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Tokens read from the cache.
    pub tokens_cache_read: u64,
    /// Tokens written to the cache.
    pub tokens_cache_write: u64,
    /// Price in millionths of the currency.
    pub amount_micros: i64,
    /// ISO 4217 code.
    pub currency: String,
}

/// Body of `finishRun`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFinish {
    /// The final state.
    pub state: RunState,
    /// Why, for every state but `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the run cost; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Vec<CostReport>>,
    /// The last numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<RunMetrics>,
}

/// Body of `reportAgentSession`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSessionReport {
    /// The session.
    pub external_session_ref: String,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the runtime has confirmed it.
    pub started: bool,
    /// The server's reference is lost and this one replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_failed: Option<bool>,
}

/// Body of `reportFollowup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowupReport {
    /// What became of it.
    pub state: FollowupState,
}

/// What became of a follow-up (R-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowupState {
    /// The runtime has the line; not final.
    Delivered,
    /// It has an answer of its own.
    Answered,
    /// It became part of an answer.
    Absorbed,
    /// Nobody read it; the server opens a run for it.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::ToolClass::{self, Chat, Host, Scoped};

    #[test]
    fn tool_class_order_and_exceeds_for_all_nine_pairs() {
        let ordered = [Chat, Scoped, Host];
        for (at, class) in ordered.into_iter().enumerate() {
            for (limit, allowed) in ordered.into_iter().enumerate() {
                assert_eq!(class.exceeds(allowed), at > limit, "{class:?} {allowed:?}");
            }
        }
        let words: Vec<String> = ordered.iter().map(|class| serde_json::to_string(class).unwrap()).collect();
        assert_eq!(words, [r#""chat""#, r#""scoped""#, r#""host""#]);
        assert!(serde_json::from_str::<ToolClass>(r#""root""#).is_err());
    }
}
