//! The reasons of a run's end as sentences for the person who asked.

use crate::run::end::reason;
use crate::sdk::wire::run::RunState;

/// One sentence for each reason a runner gives (M2-34, turn-paths), and what to do.
const SENTENCES: &[(&str, &str)] = &[
    (reason::INVALID_INVOCATION_TOKEN, "the runner did not accept the server's token"),
    (
        reason::TOOL_CLASS_MISMATCH,
        "the runner may do more than the server allows; start both with the same --tool-class",
    ),
    (
        reason::BILLING_MODE_MISMATCH,
        "Claude Code would be paid for in another way than chosen; check --billing and the login",
    ),
    (
        reason::RUNTIME_NOT_AUTHENTICATED,
        "Claude Code has no working login or key; log in with `claude`, or check --api-key-ref",
    ),
    (
        reason::RUNTIME_ERROR,
        "Claude Code did not start, broke off or reported an error; the steps above say how far it came, \
         --log-level info says which of them, and `claude --version` shows whether it can be started",
    ),
    (reason::ADAPTER_ERROR, "the runner could not work on it; --log-level info tells more"),
    (reason::RUNTIME_LIMIT, "a usage or rate limit was reached; try again later"),
    (reason::CONTEXT_FULL, "the conversation is too long; start a new thread"),
    (reason::EVENT_TOO_OLD, "the message had waited too long; send it again"),
    (reason::RUNNER_RESTARTED, "the runner was started anew before the turn began; send the message again"),
    ("runner_silent", "the runner was not heard of for too long"),
    ("user_stop", "it was stopped"),
    ("cancel_timeout", "it was stopped, but the runner did not confirm it in time"),
];

/// Why a run in `state` did not complete.
pub fn words(state: RunState, reason: Option<&str>) -> String {
    let began = match state {
        RunState::Cancelled => "The run was stopped",
        RunState::Interrupted => "The run was interrupted",
        _ => "The run failed",
    };
    let Some(reason) = reason else { return format!("{began}.") };
    let known = SENTENCES.iter().find(|(known, _)| *known == reason);
    match known {
        Some((_, sentence)) => format!("{began}: {sentence} ({reason})."),
        None => format!("{began} ({reason})."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::end::ROWS;

    #[test]
    fn every_reason_of_a_runner_has_a_sentence() {
        for row in ROWS {
            let Some((_, Some(reason))) = row.finish else { continue };
            assert!(SENTENCES.iter().any(|(known, _)| *known == reason), "{reason}");
        }
    }

    #[test]
    fn words_name_state_sentence_and_code() {
        let rows = [
            (
                RunState::Failed,
                Some("context_full"),
                "The run failed: the conversation is too long; start a new thread (context_full).",
            ),
            (RunState::Cancelled, None, "The run was stopped."),
            (RunState::Interrupted, Some("new_reason"), "The run was interrupted (new_reason)."),
        ];
        for (state, reason, expected) in rows {
            assert_eq!(words(state, reason), expected);
        }
    }
}
