//! The problems this server answers, each made in one place.

use serde_json::{Value, json};

use super::fail::Fail;
use crate::sdk::wire::problem::{FieldError, Problem, code, reason};

/// A problem with a sentence for people.
fn say(status: u16, code: &str, title: &str) -> Problem {
    Problem { title: title.to_owned(), ..Problem::new(status, code) }
}

/// 400 on the member `pointer` (RFC 6901), with what is wrong with it.
pub fn invalid(pointer: &str, fault: &str) -> Fail {
    invalid_as("The request is not valid.", pointer, fault)
}

/// The same with the sentence `title`.
fn invalid_as(title: &str, pointer: &str, fault: &str) -> Fail {
    let mut problem = say(400, code::VALIDATION_FAILED, title);
    problem.errors.push(FieldError { pointer: pointer.to_owned(), code: fault.to_owned() });
    problem.into()
}

/// 400 on the name of a file, of which at most `most` bytes are taken.
pub fn file_name(most: u64) -> Fail {
    let title = format!(
        "The file's name is empty, longer than {most} bytes, or has a slash or a control character; rename the file."
    );
    invalid_as(&title, "/name", "wrong_value")
}

/// 401: no credential, or one that nobody has.
pub fn unauthenticated() -> Problem {
    say(401, code::UNAUTHENTICATED, "A valid credential is needed.")
}

/// 403: the credential of the other side.
pub fn forbidden() -> Problem {
    say(403, code::FORBIDDEN, "This credential may not do that.")
}

/// 403: the run binding does not hold.
pub fn token(why: &str) -> Fail {
    say(403, code::INVOCATION_TOKEN_INVALID, "The invocation token does not allow this.").because(why).into()
}

/// 403: the run ended, so its token is worth nothing.
pub fn run_inactive() -> Fail {
    token(reason::RUN_INACTIVE)
}

/// 403: no token will be given.
pub fn denied() -> Fail {
    say(403, code::AGENT_INVOCATION_DENIED, "The agent may not work on this run.").into()
}

/// 404.
pub fn not_found() -> Fail {
    say(404, code::NOT_FOUND, "There is nothing of that name here.").into()
}

/// 409 with only a code.
pub fn conflict(code: &str) -> Fail {
    say(409, code, "The present state does not allow this.").into()
}

/// 409 `conflict` refined by a reason.
pub fn conflict_because(why: &str) -> Fail {
    say(409, code::CONFLICT, "The present state does not allow this.").because(why).into()
}

/// 409: a state that does not follow the present one.
pub fn transition() -> Fail {
    conflict(code::INVALID_STATE_TRANSITION)
}

/// 409: the document has moved on; `current` says where.
pub fn base_version(version: i64) -> Fail {
    let mut problem = say(409, code::BASE_VERSION_CONFLICT, "The document has another version.");
    problem.current = Some(json!({"version": version}));
    problem.into()
}

/// 412: `If-Match` names another version than `current`.
pub fn version(current: Value) -> Fail {
    let mut problem = say(412, code::VERSION_CONFLICT, "It has another version.");
    problem.current = Some(current);
    problem.into()
}

/// 422: the key of another request.
pub fn key_reuse() -> Fail {
    say(422, code::IDEMPOTENCY_KEY_REUSE, "This key belongs to another request.").into()
}

/// 413.
pub fn too_large() -> Problem {
    say(413, code::PAYLOAD_TOO_LARGE, "That is too large.")
}

/// 410: it is over and will not come back.
pub fn gone() -> Fail {
    say(410, code::GONE, "It has ended.").into()
}

/// Any other status with its code, for what HTTP itself refuses.
pub fn http(status: u16, code: &str) -> Problem {
    say(status, code, "The request is not acceptable.")
}
