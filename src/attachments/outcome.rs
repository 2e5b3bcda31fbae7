//! Why a file was not sent: the closed set of reasons (D-M3-12-7, M3-12 note 8).
//!
//! The codes stand in the thread and in records; adding one is a change of what people and other runners read.

use serde::{Deserialize, Serialize};

use crate::sdk::wire::problem::Problem;

/// Why a file was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No such file, or it cannot be opened.
    NotFound,
    /// The real path is not below a root of this run.
    OutsideAllowedRoots,
    /// A name on the real path, or the announced name, is one that secrets have.
    DeniedPattern,
    /// A directory, FIFO, socket or device.
    NotARegularFile,
    /// The file has several names, one of which may lie outside; a copy has one.
    HardLink,
    /// The file has no bytes.
    EmptyFile,
    /// The file changed between its check and the end of its copy.
    ChangedDuringCheck,
    /// Larger than the server takes.
    TooLarge,
    /// The answer announces more files than a message takes.
    TooMany,
    /// The server did not tell its limits.
    LimitsUnavailable,
    /// The server refused the upload.
    UploadRefused,
    /// The upload did not come to an end.
    UploadFailed,
    /// The server refused to attach the uploaded files.
    NotAttached,
    /// Nothing is wrong with this file: another one of the answer could not be sent.
    SetNotSent,
}

/// Every reason, in the order of the seeds' list.
pub const REASONS: [Reason; 14] = [
    Reason::NotFound,
    Reason::OutsideAllowedRoots,
    Reason::DeniedPattern,
    Reason::NotARegularFile,
    Reason::HardLink,
    Reason::EmptyFile,
    Reason::ChangedDuringCheck,
    Reason::TooLarge,
    Reason::TooMany,
    Reason::LimitsUnavailable,
    Reason::UploadRefused,
    Reason::UploadFailed,
    Reason::NotAttached,
    Reason::SetNotSent,
];

impl Reason {
    /// The stable code, as it stands in the notice.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::OutsideAllowedRoots => "outside_allowed_roots",
            Self::DeniedPattern => "denied_pattern",
            Self::NotARegularFile => "not_a_regular_file",
            Self::HardLink => "hard_link",
            Self::EmptyFile => "empty_file",
            Self::ChangedDuringCheck => "changed_during_check",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::LimitsUnavailable => "limits_unavailable",
            Self::UploadRefused => "upload_refused",
            Self::UploadFailed => "upload_failed",
            Self::NotAttached => "not_attached",
            Self::SetNotSent => "set_not_sent",
        }
    }
}

/// What the server gave as its reason, codes only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The problem's code.
    pub code: String,
    /// The problem's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&Problem> for Refusal {
    fn from(problem: &Problem) -> Refusal {
        Refusal { code: problem.code.clone(), reason: problem.reason.clone() }
    }
}

/// One announced file of a set that was not sent, in the order of announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The announced name, as [`super::notice::display_name`] makes it; empty for a line without a path.
    pub name: String,
    /// Why it was not sent.
    pub reason: Reason,
    /// The server's words, for `upload_refused` and `not_attached`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

impl Outcome {
    /// An outcome that the server has no part in.
    pub fn of(name: impl Into<String>, reason: Reason) -> Outcome {
        Outcome { name: name.into(), reason, refusal: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_stored_as_they_are_shown() {
        let mut codes: Vec<&str> = REASONS.iter().map(|reason| reason.code()).collect();
        for reason in REASONS {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{}\"", reason.code()));
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), REASONS.len());
    }
}
