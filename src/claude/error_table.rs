//! What an error of the CLI means: a finish reason, one sentence for the person, a code for the log.
//!
//! One table. Its keys are machine-readable fields (`terminal_reason`, `api_error_status`, the category of the error
//! line), never the CLI's text, which can echo content (R-3, R-8, R-9, R-12, turn-paths "Recognised error results").
//! The only texts compared are the CLI's own start errors, a closed table of beginnings.

use super::message::TurnResult;

#[cfg(test)]
mod tests;

/// The finish reasons an error of the CLI can have (contract, "Finish reasons").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not logged in, or the key is refused.
    NotAuthenticated,
    /// A limit of use, credit or capacity.
    Limit,
    /// The session's context is full.
    ContextFull,
    /// Everything else.
    Error,
}

impl Reason {
    /// The reason as `finishRun` carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NotAuthenticated => "runtime_not_authenticated",
            Reason::Limit => "runtime_limit",
            Reason::ContextFull => "context_full",
            Reason::Error => "runtime_error",
        }
    }
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For `finishRun`.
    pub reason: Reason,
    /// For the log; stable.
    pub code: &'static str,
    /// For the person, in the thread. `None` when the runner itself interrupted the turn.
    pub sentence: Option<String>,
}

/// What is known about an error.
#[derive(Clone, Copy, Debug, Default)]
struct Facts<'a> {
    terminal: &'a str,
    status: u16,
    category: &'a str,
    stop: &'a str,
}

/// One row: the first whose test holds counts.
struct Row {
    code: &'static str,
    reason: Reason,
    sentence: Option<&'static str>,
    holds: fn(Facts<'_>) -> bool,
}

/// HTTP status codes of the model's service that have a row.
const BAD_REQUEST: u16 = 400;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const TOO_LARGE: u16 = 413;
const TOO_MANY: u16 = 429;
/// Not a registered code; this service says "overloaded" with it.
const OVERLOADED: u16 = 529;

/// Categories of a refused login or key.
const REFUSED: [&str; 5] = [
    "authentication_failed",
    "oauth_org_not_allowed",
    "account_on_hold",
    "verification_required",
    "cloud_credential_error",
];

/// The service does not take the session's history, for example after a process that died during a tool call; each
/// later turn of the session would fail the same way (C3-05).
pub const HISTORY_REFUSED: &str = "history_refused";

/// The sentence of a limit whose end is unknown.
const LIMIT_SENTENCE: &str = "The usage limit of the agent's account is reached. Please try again later.";

const NOT_AUTHENTICATED: Row = Row {
    code: "not_authenticated",
    reason: Reason::NotAuthenticated,
    sentence: Some(
        "The agent's login or key was refused, so it could not answer. Please tell the person who runs it.",
    ),
    holds: |facts| matches!(facts.status, UNAUTHORIZED | FORBIDDEN) || REFUSED.contains(&facts.category),
};

const RATE_LIMIT: Row = Row {
    code: "rate_limit",
    reason: Reason::Limit,
    sentence: Some(LIMIT_SENTENCE),
    holds: |facts| facts.status == TOO_MANY || facts.category == "rate_limit",
};

const OTHER: Row = Row {
    code: "turn_failed",
    reason: Reason::Error,
    sentence: Some("The agent's turn ended with an error, so there is no answer. Please try again."),
    holds: |_| true,
};

const TABLE: &[Row] = &[
    Row {
        code: "context_full",
        reason: Reason::ContextFull,
        sentence: Some(
            "The conversation no longer fits into the agent's context. Write again to continue with a fresh session, \
             or start a new thread.",
        ),
        holds: |facts| facts.terminal == "prompt_too_long",
    },
    Row {
        code: "interrupted",
        reason: Reason::Error,
        sentence: None,
        holds: |facts| matches!(facts.terminal, "aborted_streaming" | "aborted_tools"),
    },
    Row {
        code: "budget_exhausted",
        reason: Reason::Limit,
        sentence: Some("The turn reached the budget that is set for one run and was ended."),
        holds: |facts| facts.terminal == "budget_exhausted",
    },
    Row {
        code: "max_turns",
        reason: Reason::Error,
        sentence: Some("The turn took more steps than it may and was ended. Please ask for less at once."),
        holds: |facts| facts.terminal == "max_turns",
    },
    Row {
        code: "credit_used_up",
        reason: Reason::Limit,
        sentence: Some(
            "The credit of the agent's account is used up, so it could not answer. Please tell the person who runs it.",
        ),
        holds: |facts| facts.category == "billing_error",
    },
    NOT_AUTHENTICATED,
    RATE_LIMIT,
    Row {
        code: "overloaded",
        reason: Reason::Limit,
        sentence: Some("The model's service is overloaded at the moment. Please try again in a few minutes."),
        holds: |facts| facts.status == OVERLOADED || facts.category == "overloaded",
    },
    Row {
        code: "model_unavailable",
        reason: Reason::Error,
        sentence: Some(
            "The configured model does not exist or may not be used. Please tell the person who runs the agent.",
        ),
        holds: |facts| facts.status == NOT_FOUND || facts.category == "model_not_found",
    },
    Row {
        code: "request_too_large",
        reason: Reason::Error,
        sentence: Some("The message and its files are too large for the model. Please send less at once."),
        holds: |facts| facts.status == TOO_LARGE || facts.terminal == "image_error",
    },
    Row {
        code: "output_limit",
        reason: Reason::Error,
        sentence: Some(
            "The answer grew beyond what the model may write at once. Please ask for a shorter one.",
        ),
        holds: |facts| facts.category == "max_output_tokens",
    },
    Row {
        code: "refused_by_model",
        reason: Reason::Error,
        sentence: Some("The model declined to answer this message."),
        holds: |facts| facts.stop == "refusal",
    },
    Row {
        code: HISTORY_REFUSED,
        reason: Reason::Error,
        sentence: Some(
            "The model's service refused the conversation as it is. Write again to go on with a fresh session, or start \
             a new thread.",
        ),
        holds: |facts| facts.status == BAD_REQUEST,
    },
    Row {
        code: "service_error",
        reason: Reason::Error,
        sentence: Some("The model's service could not be reached or failed. Please try again later."),
        holds: |facts| facts.status >= 500 || facts.category == "server_error",
    },
    OTHER,
];

/// Every log code of the table, for the list of all codes.
pub fn codes() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.code)
}

/// What a failed `result` means. `last_error` is the category of the newest error line of the turn; `resets_at` the
/// newest known end of a limit, seconds since 1970.
pub fn classify(result: &TurnResult, last_error: Option<&str>, resets_at: Option<i64>) -> Failure {
    let facts = Facts {
        terminal: result.terminal_reason.as_deref().unwrap_or_default(),
        status: result.api_error_status.unwrap_or_default(),
        category: last_error.unwrap_or_default(),
        stop: result.stop_reason.as_deref().unwrap_or_default(),
    };
    let row = TABLE.iter().find(|row| (row.holds)(facts)).unwrap_or(&OTHER);
    failure(row, resets_at)
}

/// The failure of a turn that is ended because the service refuses the key.
pub fn not_authenticated() -> Failure {
    failure(&NOT_AUTHENTICATED, None)
}

/// The failure of a turn whose process ended without a result.
pub fn no_result() -> Failure {
    failure(&OTHER, None)
}

fn failure(row: &Row, resets_at: Option<i64>) -> Failure {
    let when = resets_at.filter(|_| row.code == RATE_LIMIT.code).and_then(utc_minute);
    let sentence = match when {
        Some(when) => {
            Some(format!("The usage limit of the agent's account is reached. It ends at {when} UTC."))
        }
        None => row.sentence.map(str::to_owned),
    };
    Failure { reason: row.reason, code: row.code, sentence }
}

/// `2026-01-02 03:04`
fn utc_minute(seconds: i64) -> Option<String> {
    let text = jiff::Timestamp::from_second(seconds).ok()?.to_string();
    let minute = text.get(..16)?;
    Some(minute.replace('T', " "))
}

/// Why the CLI did not start a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// `--resume` of a session it does not know.
    NoConversation,
    /// `--session-id` of a session that exists.
    SessionInUse,
    /// A session reference it does not take.
    InvalidSession,
    /// A line on its standard input that it could not read.
    InputRefused,
}

impl StartFault {
    /// The log code.
    pub fn code(self) -> &'static str {
        match self {
            StartFault::NoConversation => "no_conversation",
            StartFault::SessionInUse => "session_in_use",
            StartFault::InvalidSession => "invalid_session",
            StartFault::InputRefused => "input_refused",
        }
    }
}

/// The beginnings of the CLI's start errors. Names and ids that follow are not looked at.
const START_FAULTS: [(&str, &str, StartFault); 6] = [
    ("No conversation found with session ID", "", StartFault::NoConversation),
    ("Error: Session ID ", " is already in use", StartFault::SessionInUse),
    ("Error: Invalid session ID", "", StartFault::InvalidSession),
    ("Error: --resume requires a valid session ID", "", StartFault::InvalidSession),
    ("Error: --session-id with --continue or --resume", "", StartFault::InvalidSession),
    ("Error parsing streaming input line", "", StartFault::InputRefused),
];

/// The class of what the CLI printed on stderr, or in `errors` of its result, when it did not start a turn.
pub fn start_fault(text: &str) -> Option<StartFault> {
    let class = |line: &str| {
        let known =
            START_FAULTS.iter().find(|(start, later, _)| line.starts_with(start) && line.contains(later));
        known.map(|(_, _, fault)| *fault)
    };
    text.lines().find_map(class)
}
