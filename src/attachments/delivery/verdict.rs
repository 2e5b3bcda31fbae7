//! What a failed request means for a file, and for the message (D-M3-12-6, D-M3-12-8).

use super::Delivery;
use super::upload::End;
use crate::attachments::outcome::{Reason, Refusal};
use crate::sdk::bound::RunError;
use crate::sdk::error::TransportError;
use crate::sdk::wire::problem::{Problem, code, reason};

/// Status of an answer that says that the bytes are too many, with or without a problem body.
const STATUS_TOO_LARGE: u16 = 413;

/// Statuses from here on are the server's own trouble, not a refusal.
const STATUS_SERVER_ERROR: u16 = 500;

/// Why a file is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code in the notice.
    pub reason: Reason,
    /// The server's words.
    pub refusal: Option<Refusal>,
}

impl Failure {
    /// The upload did not come to an end.
    pub fn failed() -> Failure {
        Failure { reason: Reason::UploadFailed, refusal: None }
    }

    fn refused(code: &str, reason: Option<&str>) -> Failure {
        let refusal = Refusal { code: code.to_owned(), reason: reason.map(str::to_owned) };
        Failure { reason: Reason::UploadRefused, refusal: Some(refusal) }
    }
}

impl From<RunError> for End {
    fn from(fault: RunError) -> End {
        match fault {
            RunError::Ended => End::Halted(Delivery::RunEnded),
            RunError::ShutDown => End::Halted(Delivery::Interrupted),
            RunError::Hold(_) => End::Halted(Delivery::Held),
            RunError::Transport(TransportError::Status(STATUS_TOO_LARGE)) => {
                End::Failed(Failure::refused(code::PAYLOAD_TOO_LARGE, None))
            }
            RunError::Transport(_) => End::Failed(Failure::failed()),
            RunError::Problem(problem) => End::Failed(judge(&problem)),
        }
    }
}

/// A final problem refuses the file; what more tries could have changed only failed.
fn judge(problem: &Problem) -> Failure {
    if problem.is_because(code::UNAVAILABLE, reason::STORAGE_FULL) {
        return Failure::refused(&problem.code, problem.reason.as_deref());
    }
    let passing = problem.status >= STATUS_SERVER_ERROR
        || problem.is(code::RATE_LIMITED)
        || problem.is(code::UNAVAILABLE)
        || problem.is(code::REQUEST_IN_PROGRESS);
    // Without a code of its own only one status says what is wrong with the file (contract, "Small print").
    let says_nothing = problem.is_by_status() && problem.status != STATUS_TOO_LARGE;
    if passing || says_nothing {
        return Failure::failed();
    }
    Failure::refused(&problem.code, problem.reason.as_deref())
}

/// Pointer of the member that names the files in `createMessage`.
const FILES_POINTER: &str = "/attachment_file_ids";

/// Whether this problem of `createMessage` refuses the files and not the answer (D-M3-12-8): then the answer goes
/// without them, with a notice and a new `client_msg_id`.
pub fn refuses_attachments(problem: &Problem) -> bool {
    match problem.code.as_str() {
        code::FEATURE_DISABLED | code::FORBIDDEN => true,
        code::CONFLICT => problem.is_because(code::CONFLICT, reason::FILE_NOT_ATTACHABLE),
        code::VALIDATION_FAILED => {
            !problem.errors.is_empty()
                && problem.errors.iter().all(|error| error.pointer.starts_with(FILES_POINTER))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::wire::problem::FieldError;

    #[test]
    fn every_answer_has_its_meaning() {
        let refused = |code: &str, reason: Option<&str>| End::Failed(Failure::refused(code, reason));
        let failed = || End::Failed(Failure::failed());
        let bare = |status, code: &str| Problem::new(status, code).by_status();
        let rows: Vec<(&str, Problem, End)> = vec![
            (
                "no right",
                Problem::new(403, "forbidden").because("capability_missing"),
                refused("forbidden", Some("capability_missing")),
            ),
            (
                "no right of the person",
                Problem::new(403, "forbidden").because("acting_for_insufficient"),
                refused("forbidden", Some("acting_for_insufficient")),
            ),
            ("read only", Problem::new(403, "channel_read_only"), refused("channel_read_only", None)),
            ("missing", Problem::new(404, "not_found"), refused("not_found", None)),
            (
                "no room for the channel",
                Problem::new(409, "conflict").because("quota_exceeded"),
                refused("conflict", Some("quota_exceeded")),
            ),
            (
                "another part",
                Problem::new(409, "conflict").because("part_conflict"),
                refused("conflict", Some("part_conflict")),
            ),
            (
                "parts missing",
                Problem::new(409, "conflict").because("upload_incomplete"),
                refused("conflict", Some("upload_incomplete")),
            ),
            ("gone", Problem::new(410, "gone"), refused("gone", None)),
            ("too large", Problem::new(413, "payload_too_large"), refused("payload_too_large", None)),
            (
                "type",
                Problem::new(415, "unsupported_media_type").because("file_type_denied"),
                refused("unsupported_media_type", Some("file_type_denied")),
            ),
            ("faulty", Problem::new(400, "validation_failed"), refused("validation_failed", None)),
            ("key used", Problem::new(422, "idempotency_key_reuse"), refused("idempotency_key_reuse", None)),
            ("switched off", Problem::new(501, "not_enabled"), failed()),
            (
                "disk full",
                Problem::new(503, "unavailable").because("storage_full"),
                refused("unavailable", Some("storage_full")),
            ),
            ("away", Problem::new(503, "unavailable"), failed()),
            ("broken", Problem::new(500, "internal"), failed()),
            ("too often", Problem::new(429, "rate_limited"), failed()),
            ("still running", Problem::new(409, "request_in_progress"), failed()),
            ("413 without a body", bare(413, "payload_too_large"), refused("payload_too_large", None)),
            ("403 without a body", bare(403, "forbidden"), failed()),
            ("418 without a body", bare(418, "status_without_code"), failed()),
        ];
        for (what, problem, expected) in rows {
            assert_eq!(End::from(RunError::Problem(Box::new(problem))), expected, "{what}");
        }
        let transport = |error| End::from(RunError::Transport(error));
        assert_eq!(transport(TransportError::Broken), failed());
        assert_eq!(transport(TransportError::Status(413)), refused("payload_too_large", None));
        assert_eq!(transport(TransportError::Status(502)), failed());
    }

    #[test]
    fn refusals_of_the_files_alone() {
        let pointing = |pointers: &[&str]| {
            let mut problem = Problem::new(400, "validation_failed");
            let error = |pointer: &&str| FieldError { pointer: (*pointer).to_owned(), code: "x".to_owned() };
            problem.errors = pointers.iter().map(error).collect();
            problem
        };
        let rows = [
            ("switched off", Problem::new(403, "feature_disabled"), true),
            ("no right", Problem::new(403, "forbidden").because("capability_missing"), true),
            ("attached before", Problem::new(409, "conflict").because("file_not_attachable"), true),
            ("another conflict", Problem::new(409, "conflict"), false),
            ("the files are faulty", pointing(&["/attachment_file_ids/0"]), true),
            ("the files and the text", pointing(&["/attachment_file_ids/0", "/content_md"]), false),
            ("the text", pointing(&["/content_md"]), false),
            ("nothing named", pointing(&[]), false),
            ("the run is over", Problem::new(403, "invocation_token_invalid"), false),
        ];
        for (what, problem, expected) in rows {
            assert_eq!(refuses_attachments(&problem), expected, "{what}");
        }
    }
}
