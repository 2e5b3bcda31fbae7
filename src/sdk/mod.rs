//! The chat server's contract; knows nothing of Claude Code.

mod address;
pub mod auth;
pub mod bound;
pub mod client;
mod clock;
pub mod context;
pub mod download;
pub mod error;
mod exchange;
pub mod gateway;
pub mod heartbeat;
pub mod http;
pub mod inbox;
pub mod jws;
pub mod outbox;
pub mod patch;
pub mod retry;
pub mod store;
#[cfg(test)]
mod test_server;
mod tls;
mod token;
#[cfg(test)]
mod transfer_tests;
pub mod upload;
pub mod verify;
pub mod wire;
