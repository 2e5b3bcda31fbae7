//! How the program ends: one number for scripts and service managers, one line for people.
//!
//! Must not know which command ends.

use std::process::ExitCode;

use super::show;

/// Stopped as asked, or everything went well.
pub const OK: u8 = 0;
/// Any failure without a number of its own; for `ask` the run failed.
pub const FAILED: u8 = 1;
/// The command line cannot be understood, or a choice is missing.
pub const USAGE: u8 = 2;
/// Another runner polls with the same consumer (`EX_TEMPFAIL` of sysexits: a later start may work).
pub const SUPERSEDED: u8 = 75;
/// The server refuses the agent token (`EX_NOPERM`): starting again does not help.
pub const TOKEN_REFUSED: u8 = 77;
/// The configuration cannot be used (`EX_CONFIG`): starting again does not help.
pub const CONFIGURATION: u8 = 78;
/// Ended by Ctrl-C (128 and the number of SIGINT).
pub const INTERRUPTED: u8 = 130;

/// Why a command did not do its work: the exit code and a line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of the constants above.
    pub exit: u8,
    /// For a person, without a secret.
    pub message: String,
}

impl Failure {
    /// A failure without a number of its own.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { exit: FAILED, message: message.into() }
    }

    /// A missing or impossible choice on the command line.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: USAGE, message: message.into() }
    }

    /// A configuration that cannot be used.
    pub fn configuration(message: impl Into<String>) -> Failure {
        Failure { exit: CONFIGURATION, message: message.into() }
    }

    /// The exit code as a word, where a script needs nothing more precise.
    pub fn word(&self) -> &'static str {
        match self.exit {
            USAGE => "usage",
            SUPERSEDED => "superseded",
            TOKEN_REFUSED => "token_refused",
            CONFIGURATION => "configuration",
            INTERRUPTED => "interrupted",
            _ => "failed",
        }
    }

    /// Prints the failure to standard output as the one object that a script reads in any case.
    pub fn print_object(&self, fault: &str) {
        show::line(&serde_json::json!({"fault": fault, "sentence": self.message}).to_string());
    }
}

/// Prints a failure and gives the program's exit code.
pub fn code(result: Result<u8, Failure>) -> ExitCode {
    let result = result.and_then(|code| match show::lost() {
        Some(fault) if code == OK => {
            Err(Failure::new(format!("standard output cannot be written ({fault})")))
        }
        _ => Ok(code),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            for line in failure.message.lines() {
                show::error_line(&format!("claude-code-runner: {line}"));
            }
            ExitCode::from(failure.exit)
        }
    }
}
