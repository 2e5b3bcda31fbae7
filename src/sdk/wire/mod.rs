//! The types that travel between runner and chat server, each defined once.
//!
//! Serde types of the contract and nothing else: no rule, no request, no import from a sibling module.
//! Both sides use them, the agent's client (`sdk::client`) and the embedded server (`local`).
//!
//! - Requests refuse unknown members (`deny_unknown_fields`); answers and events ignore them, so the
//!   server may grow.
//! - A member without a value is absent, never `null`.
//! - Ids are parsed as UUIDs where they enter the program, so a path built from one is safe.

pub mod channel;
pub mod event;
pub mod file;
pub mod heartbeat;
pub mod message;
pub mod person;
pub mod problem;
pub mod raw;
pub mod run;
pub mod time;

pub use time::Time;

/// `type` of a problem body and of its media type (RFC 9457).
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The protocol version both sides speak (contract, "Small print").
pub const PROTOCOL_VERSION: &str = "1";

/// Name of the header that binds a request to a run (contract, "Common rules").
pub const INVOCATION_TOKEN_HEADER: &str = "Invocation-Token";
