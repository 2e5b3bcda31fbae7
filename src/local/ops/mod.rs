//! What each operation of the contract does, one file per group. Each takes a request and gives an answer.

pub mod changes;
pub mod channels;
pub mod context;
pub mod discovery;
pub mod downloads;
pub mod gateway;
pub mod grants;
pub mod heartbeat;
pub mod messages;
pub mod page;
pub mod person_runs;
pub mod person_threads;
pub mod runs;
pub mod sessions;
pub mod threads;
pub mod uploads;

use super::core::Core;
use super::fail::Fail;
use super::http::Answer;
use super::request::Request;

/// An operation.
pub type Operation = fn(&Core, &Request) -> Result<Answer, Fail>;
