//! What the CLI says, line by line, as types.
//!
//! A line is read with tolerance: unknown types, subtypes, content blocks and fields are skipped, a field of an
//! unexpected JSON type counts as absent. What a message means for the run is not known here; see `progress`, `usage`
//! and the live box.

mod join;
mod lenient;
mod raw;
mod read;
mod repeats;
#[cfg(test)]
mod tests;

pub use join::{JoinedText, char_boundary, last_text};
pub use read::parse;
pub use repeats::Repeats;

/// One line that the runner has a use for.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// `system/init`: a turn of the process begins.
    Init(Init),
    /// A piece of an answer of the model, or the CLI's own error text in its place.
    Assistant(Assistant),
    /// Results of tools.
    ToolResults(ToolResults),
    /// The echo of a line the process was sent; says nothing.
    Replay,
    /// `command_lifecycle`: what became of a line the process was sent.
    Lifecycle {
        /// The line.
        uuid: String,
        /// Its state.
        state: LifecycleState,
    },
    /// `system/task_started`.
    TaskStarted(TaskStarted),
    /// `system/task_updated` or `system/task_notification` with a status.
    TaskEnded(TaskEnded),
    /// `system/background_tasks_changed`: ids of all tasks that run beside the turn, ambient ones left out.
    BackgroundTasks(Vec<String>),
    /// `system/status`.
    Status {
        /// Whether the CLI makes room in the context now.
        compacting: bool,
    },
    /// `system/api_retry`: the model's service is called again.
    ApiRetry(ApiRetry),
    /// `rate_limit_event`.
    RateLimit {
        /// When the limit is lifted, seconds since 1970.
        resets_at: Option<i64>,
    },
    /// `result`: a turn of the process has ended.
    Result(Box<TurnResult>),
    /// The CLI asks its host something.
    ControlRequest {
        /// What the response must name.
        request_id: String,
    },
    /// A line without use for the runner.
    Ignored,
}

/// `system/init`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    /// The session of the turn.
    pub session_id: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Where the CLI has its key from.
    pub api_key_source: Option<String>,
}

/// An `assistant` line. Several lines with one `id` are one message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assistant {
    /// The message.
    pub id: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its text items, joined.
    pub text: String,
    /// The tools it calls.
    pub tool_uses: Vec<ToolUse>,
    /// Tokens of the whole message, repeated on each of its lines.
    pub usage: Option<Tokens>,
    /// The tool call this message belongs to, for a subagent.
    pub parent_tool_use_id: Option<String>,
    /// The CLI's category of the error whose text stands here instead of an answer.
    pub error: Option<String>,
    /// When the limit that caused the error is lifted, seconds since 1970.
    pub resets_at: Option<i64>,
    /// When it was printed, milliseconds since 1970.
    pub at_millis: Option<i64>,
}

/// One call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// Identity.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The member of its input that says most (M2-34 note 12), whole; may be empty.
    pub subject: String,
}

/// A `user` line with results of tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResults {
    /// The calls and whether each failed.
    pub results: Vec<ToolResult>,
    /// When it was printed, milliseconds since 1970.
    pub at_millis: Option<i64>,
}

/// The end of a tool call; its content is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub tool_use_id: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// The states of a line the process was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleState {
    /// The process has it.
    Queued,
    /// The model sees it.
    Started,
    /// Done with it.
    Completed,
    /// Given up.
    Cancelled,
}

/// `system/task_started`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStarted {
    /// Identity.
    pub task_id: String,
    /// The tool call that started it.
    pub tool_use_id: Option<String>,
    /// Its kind, `local_agent` or another.
    pub task_type: Option<String>,
    /// The kind of agent.
    pub subagent_type: Option<String>,
    /// One line for people.
    pub description: String,
    /// Whether it goes on beside the turn.
    pub backgrounded: bool,
    /// Whether it belongs to the CLI itself and is not shown.
    pub ambient: bool,
}

/// A change of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnded {
    /// The task.
    pub task_id: String,
    /// How it ended.
    pub status: TaskStatus,
    /// Whether the model is told (`task_notification`), which starts a turn.
    pub notification: bool,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Well.
    Completed,
    /// With an error.
    Failed,
    /// By a stop.
    Stopped,
    /// Not at all, or in a way unknown here.
    Other,
}

/// `system/api_retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiRetry {
    /// Counts from one.
    pub attempt: u64,
    /// The most there will be.
    pub max_retries: u64,
    /// Wait before it, milliseconds.
    pub retry_delay_ms: u64,
    /// The CLI's category of the error.
    pub error: String,
    /// HTTP status of the error, when there was an answer.
    pub error_status: Option<u16>,
}

/// `result`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnResult {
    /// The line's own.
    pub uuid: Option<String>,
    /// Says little.
    pub subtype: Option<String>,
    /// Whether the turn failed.
    pub is_error: Option<bool>,
    /// The final text; the CLI's error text when the turn failed.
    pub text: Option<String>,
    /// Error texts of the CLI, to be compared with known ones only.
    pub errors: Vec<String>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// HTTP status of the last failed call of the model.
    pub api_error_status: Option<u16>,
    /// The command that was run instead of the model.
    pub local_command: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// The sent lines this result answers.
    pub uuids: Vec<String>,
    /// What started the turn when it was no sent line.
    pub origin: Option<String>,
    /// Usage of the process or of the session, by model.
    pub model_usage: Option<Vec<(String, ModelUsage)>>,
    /// Usage since the result before, by model; not on every version.
    pub model_usage_delta: Option<Vec<(String, ModelUsage)>>,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

/// Usage of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelUsage {
    /// Tokens.
    pub tokens: Tokens,
    /// Price in US dollars, the digits as printed: a binary float would change them.
    pub cost_usd: Option<String>,
    /// Size of the model's context, tokens.
    pub context_window: Option<u64>,
}

impl TurnResult {
    /// Whether the turn succeeded: `is_error` is false; without a usable `is_error` nothing else may speak
    /// against it.
    pub fn is_success(&self) -> bool {
        match self.is_error {
            Some(is_error) => !is_error,
            None => {
                self.subtype.as_deref() == Some("success")
                    && self.api_error_status.is_none()
                    && matches!(self.terminal_reason.as_deref(), None | Some("completed"))
            }
        }
    }
}
