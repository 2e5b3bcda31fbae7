//! One check as a line or as a member of a JSON array.

use serde::Serialize;

use crate::cli::show;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Works, and somebody should know.
    Warn,
    /// Does not work.
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// How it went.
    pub status: Status,
    /// Stable, for scripts.
    pub code: &'static str,
    /// What that means and what to do; without a secret.
    pub sentence: String,
}

impl Check {
    /// As it should be.
    pub fn ok(code: &'static str, sentence: impl Into<String>) -> Check {
        Check { status: Status::Ok, code, sentence: sentence.into() }
    }

    /// Works, and somebody should know.
    pub fn warn(code: &'static str, sentence: impl Into<String>) -> Check {
        Check { status: Status::Warn, code, sentence: sentence.into() }
    }

    /// Does not work.
    pub fn fail(code: &'static str, sentence: impl Into<String>) -> Check {
        Check { status: Status::Fail, code, sentence: sentence.into() }
    }

    /// Whether it does not work.
    pub fn is_fail(&self) -> bool {
        self.status == Status::Fail
    }

    fn line(&self) -> String {
        format!("{:<4} {} {}", self.status.word(), self.code, show::one_line(&self.sentence))
    }
}

/// Prints all checks to standard output.
pub fn print(checks: &[Check], json: bool) {
    if json {
        return show::line(&serde_json::json!(checks).to_string());
    }
    checks.iter().for_each(|check| show::line(&check.line()));
}
