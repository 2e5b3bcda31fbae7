//! Every way a run can end: state, reason for the server, code for the log, sentence for the person.
//!
//! One table. Whoever adds an end adds a [`Cause`] and its row here, and a test that reaches it.
//!
//! **The finish reasons are a closed set of the contract; the log codes are read by operators' scripts.
//! Never rename one.**

use crate::sdk::wire::run::RunState;

/// Finish reasons of the contract ("Runs").
pub mod reason {
    #![allow(missing_docs)] // each name is its own documentation: the reason it holds
    pub const INVALID_INVOCATION_TOKEN: &str = "invalid_invocation_token";
    pub const TOOL_CLASS_MISMATCH: &str = "tool_class_mismatch";
    pub const BILLING_MODE_MISMATCH: &str = "billing_mode_mismatch";
    pub const RUNTIME_NOT_AUTHENTICATED: &str = "runtime_not_authenticated";
    pub const RUNTIME_ERROR: &str = "runtime_error";
    pub const ADAPTER_ERROR: &str = "adapter_error";
    pub const RUNTIME_LIMIT: &str = "runtime_limit";
    pub const CONTEXT_FULL: &str = "context_full";
    pub const EVENT_TOO_OLD: &str = "event_too_old";
    pub const RUNNER_RESTARTED: &str = "runner_restarted";
}

/// Why a run ended, or why this runner lets go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The last result was without error.
    Completed,
    /// The token is not one this server signed for this run.
    InvalidToken,
    /// The configured class is above the token's.
    ToolClassMismatch,
    /// Mode personal is not allowed here.
    PersonalNotAllowed,
    /// The event is older than `adapter.max_event_age`.
    EventTooOld,
    /// The payload of the event cannot be read.
    EventMalformed,
    /// Not triggered by a message.
    TriggerKind,
    /// The channel is no forum with a project.
    ProjectNotBound,
    /// `claude --version` does not answer.
    RuntimeUnreachable,
    /// The CLI is older than the minimum, or does not say its version as it should.
    RuntimeUnsupported,
    /// The workspace reference leads out of the projects root.
    OutsideRoot,
    /// The project's directory does not exist.
    WorkspaceMissing,
    /// Class host as root.
    HostAsRoot,
    /// Class host on a binding without write permission.
    WorkspaceReadOnly,
    /// A file rule without a path in a trusted project.
    RuleWithoutPath,
    /// A model or tool value that cannot be an argument.
    ArgumentRefused,
    /// The session reference is not a UUID.
    SessionRefNotUuid,
    /// The thread's or session's lock was held too long.
    SessionBusy,
    /// The server's context cannot be had.
    ContextUnavailable,
    /// No API key for mode organization.
    KeyMissing,
    /// The CLI has no credential.
    NotLoggedIn,
    /// The CLI would pay otherwise than asked.
    PrecheckMismatch,
    /// The turn paid otherwise than proven.
    CounterCheckMismatch,
    /// The environment of the turn cannot be built.
    EnvironmentFault,
    /// The server refused the start.
    StartRefused,
    /// The server says that somebody else started the run.
    StartedElsewhere,
    /// The server withdrew the permission before the start.
    InvocationDenied,
    /// The server says the start named another billing mode than the run's.
    StartBillingMismatch,
    /// The server says the start named another tool class than the run's.
    StartClassMismatch,
    /// The server superseded the token; a newer one will come.
    Superseded,
    /// The process could not be started.
    SpawnFailed,
    /// The runner died between the start and the process.
    RunnerRestarted,
    /// The process ended without a result.
    NoResult,
    /// The result was an error of no particular kind.
    RuntimeError,
    /// The key or login was refused by the service.
    RuntimeNotAuthenticated,
    /// A usage, rate, budget or service limit.
    RuntimeLimit,
    /// The conversation does not fit any more.
    ContextFull,
    /// The turn took longer than `runner.turn_time_limit`.
    TurnTimeLimit,
    /// The turn was silent longer than `runner.turn_silence_limit`.
    TurnSilenceLimit,
    /// A line longer than `runner.stream_line_limit`.
    StreamLineLimit,
    /// The server refused the answer for good.
    AnswerRefused,
    /// The state directory cannot be written.
    StateFault,
    /// Somebody asked to stop.
    Cancelled,
    /// The server ended the run by itself.
    ServerEnded,
    /// This runner stops; its successor goes on.
    Detached,
    /// A fault in the runner itself.
    Panicked,
}

/// What a cause means to server, log and operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The cause.
    pub cause: Cause,
    /// Stable code of the log.
    pub code: &'static str,
    /// Final state and reason; `None`: `finishRun` is not called.
    pub finish: Option<(RunState, Option<&'static str>)>,
    /// What an operator should know or do.
    pub help: &'static str,
}

const fn row(
    cause: Cause,
    code: &'static str,
    finish: Option<(RunState, Option<&'static str>)>,
    help: &'static str,
) -> Row {
    Row { cause, code, finish, help }
}

const fn failed(why: &'static str) -> Option<(RunState, Option<&'static str>)> {
    Some((RunState::Failed, Some(why)))
}

/// The table, in the order in which a run meets the causes.
pub const ROWS: &[Row] = &[
    row(Cause::Completed, "completed", Some((RunState::Completed, None)), "The turn ended well."),
    row(
        Cause::InvalidToken,
        "invalid_invocation_token",
        failed(reason::INVALID_INVOCATION_TOKEN),
        "The token was not signed by this server for this agent and run; compare runner.instance_id and the clock.",
    ),
    row(
        Cause::ToolClassMismatch,
        "tool_class_mismatch",
        failed(reason::TOOL_CLASS_MISMATCH),
        "runner.tool_class is above what the server allows; lower it or change the agent there.",
    ),
    row(
        Cause::PersonalNotAllowed,
        "personal_not_allowed",
        failed(reason::BILLING_MODE_MISMATCH),
        "The run asked for mode personal; set runner.allow_personal only when this account is that person's.",
    ),
    row(
        Cause::EventTooOld,
        "event_too_old",
        failed(reason::EVENT_TOO_OLD),
        "The message waited longer than adapter.max_event_age; the person was told to write again.",
    ),
    row(
        Cause::EventMalformed,
        "event_malformed",
        failed(reason::ADAPTER_ERROR),
        "The server sent an invocation that does not fit the contract.",
    ),
    row(
        Cause::TriggerKind,
        "trigger_kind_unsupported",
        failed(reason::ADAPTER_ERROR),
        "Only messages start a turn; no commands or components are registered.",
    ),
    row(
        Cause::ProjectNotBound,
        "project_not_bound",
        failed(reason::ADAPTER_ERROR),
        "The channel is not a forum with a project binding served by this agent.",
    ),
    row(
        Cause::RuntimeUnreachable,
        "runtime_unreachable",
        failed(reason::RUNTIME_ERROR),
        "claude --version failed; check runner.claude_bin and PATH.",
    ),
    row(
        Cause::RuntimeUnsupported,
        "runtime_version_unsupported",
        failed(reason::RUNTIME_ERROR),
        "The CLI is older than the minimum, or does not answer as Claude Code; install the pinned version.",
    ),
    row(
        Cause::OutsideRoot,
        "outside_root",
        failed(reason::ADAPTER_ERROR),
        "The binding's workspace_ref leads out of runner.projects_root.",
    ),
    row(
        Cause::WorkspaceMissing,
        "workspace_missing",
        failed(reason::ADAPTER_ERROR),
        "The project's directory does not exist below runner.projects_root.",
    ),
    row(
        Cause::HostAsRoot,
        "host_as_root",
        failed(reason::ADAPTER_ERROR),
        "Class host is refused for root; run the service as a user of its own.",
    ),
    row(
        Cause::WorkspaceReadOnly,
        "workspace_read_only",
        failed(reason::ADAPTER_ERROR),
        "Class host needs the write permission of the project.",
    ),
    row(
        Cause::RuleWithoutPath,
        "rule_without_path",
        failed(reason::ADAPTER_ERROR),
        "In a trusted project every rule for a file tool must carry a path, such as Read(./**).",
    ),
    row(
        Cause::ArgumentRefused,
        "argument_refused",
        failed(reason::ADAPTER_ERROR),
        "The binding's model or tools are empty, start with a dash or hold control characters.",
    ),
    row(
        Cause::SessionRefNotUuid,
        "session_ref_not_uuid",
        failed(reason::ADAPTER_ERROR),
        "The server's session reference is not a UUID and was not made by this runner.",
    ),
    row(
        Cause::SessionBusy,
        "session_busy",
        failed(reason::ADAPTER_ERROR),
        "Another turn of the thread held its lock longer than runner.session_lock_wait.",
    ),
    row(
        Cause::ContextUnavailable,
        "context_unavailable",
        failed(reason::ADAPTER_ERROR),
        "The server refused the run's context.",
    ),
    row(
        Cause::KeyMissing,
        "api_key_missing",
        failed(reason::RUNTIME_NOT_AUTHENTICATED),
        "Mode organization needs runner.anthropic_api_key_ref to resolve to a key.",
    ),
    row(
        Cause::NotLoggedIn,
        "not_logged_in",
        failed(reason::RUNTIME_NOT_AUTHENTICATED),
        "claude auth status found no credential for the run's mode.",
    ),
    row(
        Cause::PrecheckMismatch,
        "precheck_mismatch",
        failed(reason::BILLING_MODE_MISMATCH),
        "claude auth status named another way to pay than the run's mode, or was not understood.",
    ),
    row(
        Cause::CounterCheckMismatch,
        "counter_check_mismatch",
        failed(reason::BILLING_MODE_MISMATCH),
        "The turn named another key source than proven before the start and was stopped.",
    ),
    row(
        Cause::EnvironmentFault,
        "environment_fault",
        failed(reason::ADAPTER_ERROR),
        "HOME is missing, the CLI is not on the cleaned PATH, or a secret of runner.turn_env cannot be read.",
    ),
    row(Cause::StartRefused, "start_refused", failed(reason::ADAPTER_ERROR), "The server refused startRun."),
    row(
        Cause::StartedElsewhere,
        "started_elsewhere",
        None,
        "Another runner started the run; is a second one using this agent's token?",
    ),
    row(
        Cause::InvocationDenied,
        "invocation_denied",
        None,
        "The server withdrew the invocation before the start.",
    ),
    row(
        Cause::StartBillingMismatch,
        "start_billing_mismatch",
        failed(reason::BILLING_MODE_MISMATCH),
        "The server changed the run's billing mode before the start.",
    ),
    row(
        Cause::StartClassMismatch,
        "start_class_mismatch",
        failed(reason::TOOL_CLASS_MISMATCH),
        "The server changed the run's tool class before the start.",
    ),
    row(Cause::Superseded, "token_superseded", None, "A newer token is on its way; the run waits for it."),
    row(
        Cause::SpawnFailed,
        "spawn_failed",
        failed(reason::RUNTIME_ERROR),
        "The CLI could not be started; check its file mode and the memory and process limits.",
    ),
    row(
        Cause::RunnerRestarted,
        "runner_restarted",
        Some((RunState::Interrupted, Some(reason::RUNNER_RESTARTED))),
        "The runner died between the start of the run and the start of its process.",
    ),
    row(
        Cause::NoResult,
        "no_result",
        failed(reason::RUNTIME_ERROR),
        "The CLI ended without a result (exit 0 with text completes instead); see the run's stderr file in the state directory.",
    ),
    row(Cause::RuntimeError, "runtime_error", failed(reason::RUNTIME_ERROR), "The CLI reported an error."),
    row(
        Cause::RuntimeNotAuthenticated,
        "runtime_not_authenticated",
        failed(reason::RUNTIME_NOT_AUTHENTICATED),
        "The service refused the key or login.",
    ),
    row(
        Cause::RuntimeLimit,
        "runtime_limit",
        failed(reason::RUNTIME_LIMIT),
        "A usage, rate, budget or service limit was reached.",
    ),
    row(
        Cause::ContextFull,
        "context_full",
        failed(reason::CONTEXT_FULL),
        "The conversation was too long and could not be compacted; the next run starts a fresh session.",
    ),
    row(
        Cause::TurnTimeLimit,
        "turn_time_limit",
        failed(reason::RUNTIME_ERROR),
        "The turn took longer than runner.turn_time_limit and was stopped.",
    ),
    row(
        Cause::TurnSilenceLimit,
        "turn_silence_limit",
        failed(reason::RUNTIME_ERROR),
        "The turn printed nothing for runner.turn_silence_limit and was stopped.",
    ),
    row(
        Cause::StreamLineLimit,
        "stream_line_limit",
        failed(reason::RUNTIME_ERROR),
        "The turn printed a line longer than runner.stream_line_limit and was stopped.",
    ),
    row(
        Cause::AnswerRefused,
        "answer_refused",
        failed(reason::ADAPTER_ERROR),
        "The server refused the answer, for example because it is too long; the person was told to ask for a shorter one.",
    ),
    row(
        Cause::StateFault,
        "state_fault",
        failed(reason::ADAPTER_ERROR),
        "The state directory cannot be written; check disk space and ownership.",
    ),
    row(
        Cause::Cancelled,
        "cancelled",
        Some((RunState::Cancelled, None)),
        "A person or the server asked to stop.",
    ),
    row(Cause::ServerEnded, "server_ended", None, "The server had ended the run already."),
    row(Cause::Detached, "detached", None, "The runner stops; the next one takes the run over."),
    row(
        Cause::Panicked,
        "panicked",
        failed(reason::ADAPTER_ERROR),
        "A fault in the runner; please report it.",
    ),
];

impl Cause {
    /// The table's row of this cause.
    pub fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.cause == self).unwrap_or(&ROWS[0])
    }
}

/// One end of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// The reason of the request, for [`Cause::Cancelled`] only.
    pub stop_reason: Option<String>,
    /// What the person reads before the run ends.
    pub sentence: Option<String>,
}

impl End {
    /// The end by `cause`, without a sentence.
    pub fn by(cause: Cause) -> End {
        End { cause, stop_reason: None, sentence: None }
    }

    /// The end by a stop with the `reason` of its request.
    pub fn cancelled(reason: &str) -> End {
        End { cause: Cause::Cancelled, stop_reason: Some(reason.to_owned()), sentence: None }
    }

    /// The same end with a sentence for the person.
    pub fn telling(mut self, sentence: impl Into<String>) -> End {
        self.sentence = Some(sentence.into());
        self
    }

    /// Final state and reason for `finishRun`; `None` when it must not be called.
    pub fn finish(&self) -> Option<(RunState, Option<String>)> {
        let (state, reason) = self.cause.row().finish?;
        Some((state, self.stop_reason.clone().or(reason.map(str::to_owned))))
    }
}

impl From<Cause> for End {
    fn from(cause: Cause) -> End {
        End::by(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_code_and_help_of_its_own() {
        let codes: std::collections::HashSet<_> = ROWS.iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), ROWS.len());
        for row in ROWS {
            assert_eq!(row.cause.row(), row, "{}", row.code);
            assert!(!row.help.is_empty(), "{}", row.code);
        }
    }

    #[test]
    fn a_stop_carries_the_reason_of_its_request() {
        assert_eq!(
            End::cancelled("owner_stop").finish(),
            Some((RunState::Cancelled, Some("owner_stop".to_owned())))
        );
        assert_eq!(End::by(Cause::ServerEnded).finish(), None);
    }
}
