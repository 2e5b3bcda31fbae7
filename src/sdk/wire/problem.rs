//! Problem details (RFC 9457) with the members of the contract.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// `type` of what this side makes of an answer whose status alone says something.
const STATUS_ALONE: &str = "about:blank#status";

/// Why the server did not do what was asked.
///
/// Callers branch on `code` and `reason` only; `title` and `detail` are for people and never logged. A member of
/// another type counts as absent (RFC 9457 section 3.1), so that it takes no other member with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// URI reference of the kind of problem.
    #[serde(rename = "type", default = "about_blank", deserialize_with = "kind_or_blank")]
    pub kind: String,
    /// One sentence for people.
    #[serde(default, deserialize_with = "or_absent")]
    pub title: String,
    /// The HTTP status, repeated.
    #[serde(default, deserialize_with = "or_absent")]
    pub status: u16,
    /// The stable code, for example `version_conflict`.
    #[serde(default, deserialize_with = "or_absent")]
    pub code: String,
    /// A closed refinement of the code, for example `run_inactive`.
    #[serde(default, deserialize_with = "or_absent", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More for people.
    #[serde(default, deserialize_with = "or_absent", skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Faults of single members of the request.
    #[serde(default, deserialize_with = "or_absent", skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The present state, where the problem is a conflict of versions.
    #[serde(default, deserialize_with = "or_absent", skip_serializing_if = "Option::is_none")]
    pub current: Option<Value>,
}

/// One faulty member of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// JSON pointer of the member (RFC 6901).
    pub pointer: String,
    /// What is wrong with it.
    pub code: String,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

fn kind_or_blank<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind: Option<String> = or_absent(deserializer)?;
    Ok(kind.unwrap_or_else(about_blank))
}

fn or_absent<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

impl Problem {
    /// A problem with `status` and `code` and nothing else.
    pub fn new(status: u16, code: &str) -> Problem {
        Problem {
            kind: about_blank(),
            title: String::new(),
            status,
            code: code.to_owned(),
            reason: None,
            detail: None,
            errors: Vec::new(),
            current: None,
        }
    }

    /// The same problem refined by `reason`.
    pub fn because(mut self, reason: &str) -> Problem {
        self.reason = Some(reason.to_owned());
        self
    }

    /// The same problem of an answer that named no code of its own: `code` is only what the status usually means.
    pub fn by_status(mut self) -> Problem {
        self.kind = STATUS_ALONE.to_owned();
        self
    }

    /// Whether the answer named no code of its own.
    pub fn is_by_status(&self) -> bool {
        self.kind == STATUS_ALONE
    }

    /// Whether this is the problem `code`, whatever its reason.
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether this is the problem `code` with exactly `reason`.
    pub fn is_because(&self, code: &str, reason: &str) -> bool {
        self.code == code && self.reason.as_deref() == Some(reason)
    }
}

/// Problem codes of the contract, as constants so that no caller can misspell one.
pub mod code {
    #![allow(missing_docs)] // each name is its own documentation: the code it holds
    pub const AGENT_INVOCATION_DENIED: &str = "agent_invocation_denied";
    pub const ALREADY_STARTED: &str = "already_started";
    pub const BASE_VERSION_CONFLICT: &str = "base_version_conflict";
    pub const BILLING_MODE_MISMATCH: &str = "billing_mode_mismatch";
    pub const CHANNEL_READ_ONLY: &str = "channel_read_only";
    pub const CONFLICT: &str = "conflict";
    pub const FEATURE_DISABLED: &str = "feature_disabled";
    pub const FILE_BLOCKED: &str = "file_blocked";
    pub const FILE_NOT_READY: &str = "file_not_ready";
    pub const FORBIDDEN: &str = "forbidden";
    pub const GONE: &str = "gone";
    pub const IDEMPOTENCY_KEY_REUSE: &str = "idempotency_key_reuse";
    pub const INVALID_STATE_TRANSITION: &str = "invalid_state_transition";
    pub const INVOCATION_TOKEN_INVALID: &str = "invocation_token_invalid";
    pub const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
    pub const NOT_ENABLED: &str = "not_enabled";
    pub const NOT_FOUND: &str = "not_found";
    pub const PAYLOAD_TOO_LARGE: &str = "payload_too_large";
    pub const RATE_LIMITED: &str = "rate_limited";
    pub const REQUEST_IN_PROGRESS: &str = "request_in_progress";
    pub const SUPERSEDED_POLL: &str = "superseded_poll";
    pub const TITLE_MANUAL: &str = "title_manual";
    pub const TOOL_CLASS_MISMATCH: &str = "tool_class_mismatch";
    pub const UNAUTHENTICATED: &str = "unauthenticated";
    pub const UNAVAILABLE: &str = "unavailable";
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "unsupported_media_type";
    pub const VALIDATION_FAILED: &str = "validation_failed";
    pub const VERSION_CONFLICT: &str = "version_conflict";

    // What HTTP itself refuses, whatever the operation (RFC 9110, RFC 6585), and a fault of the server.
    pub const HEAD_TOO_LARGE: &str = "head_too_large";
    pub const INTERNAL_ERROR: &str = "internal_error";
    pub const LENGTH_REQUIRED: &str = "length_required";
    pub const MALFORMED_REQUEST: &str = "malformed_request";
    pub const MISDIRECTED_REQUEST: &str = "misdirected_request";
    pub const PRECONDITION_REQUIRED: &str = "precondition_required";
    pub const RANGE_NOT_SATISFIABLE: &str = "range_not_satisfiable";
    pub const REQUEST_TIMEOUT: &str = "request_timeout";
}

/// Refinements of the problem codes above.
pub mod reason {
    #![allow(missing_docs)] // each name is its own documentation: the reason it holds
    pub const ACTING_FOR_INSUFFICIENT: &str = "acting_for_insufficient";
    pub const CAPABILITY_MISSING: &str = "capability_missing";
    pub const EXPIRED: &str = "expired";
    pub const FILE_NOT_ATTACHABLE: &str = "file_not_attachable";
    pub const FILE_TYPE_DENIED: &str = "file_type_denied";
    pub const INVALID: &str = "invalid";
    pub const PART_CONFLICT: &str = "part_conflict";
    pub const QUOTA_EXCEEDED: &str = "quota_exceeded";
    pub const RUN_INACTIVE: &str = "run_inactive";
    pub const STORAGE_FULL: &str = "storage_full";
    pub const SUPERSEDED: &str = "superseded";
    pub const UPLOAD_INCOMPLETE: &str = "upload_incomplete";
}
