//! HTTP/1.1 on a socket: requests in with bounds, answers out. Knows nothing of the contract's operations.

mod answer;
mod head;
mod inbound;

pub use answer::{Answer, Content};
#[cfg(test)]
pub use head::parse;
pub use head::{Head, Headers, Refusal};
pub use inbound::{Client, Inbound, ReadFault};

/// Longest request head (request line and fields), bytes; ours are below one tenth of it.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Most fields of one request; ours carry about ten.
pub const MAX_FIELDS: usize = 64;
/// Time for a whole head after its first byte; a slower client only holds a thread.
pub const HEAD_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);
/// How long a kept connection may wait for its next request.
pub const IDLE_LIMIT: std::time::Duration = std::time::Duration::from_secs(75);
/// Longest time without progress while a body is read or an answer is written.
pub const STALL_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);
