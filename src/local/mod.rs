//! The embedded chat server: the same contract for one person on one machine.
//!
//! Read in this order: `server` (start and stop), `connection` (one request), `routes` (the table of operations),
//! `ops` (what each does), `flow` (which message opens which run), `rules` (what may follow what), `store` (the data).
//! It knows the wire and the operating system, nothing of the runner or of Claude Code, and nothing of tests:
//! `hooks` only asks whoever holds them before and after an operation, `operator` does by hand what a bigger
//! server would do by itself.

mod access;
mod blobs;
mod connection;
mod core;
mod dpop;
mod fail;
mod flow;
pub mod hooks;
mod http;
mod identity;
mod markdown;
mod mime;
mod notifier;
mod operator;
mod ops;
mod page;
mod problems;
mod request;
mod routes;
mod rules;
mod secrets;
mod server;
mod settings;
mod store;
mod strict;
mod sweep;
mod tokens;
mod views;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod walk;

pub use flow::Became;
pub use hooks::Hooks;
pub use operator::{Done, Operator, Signer};
pub use server::{LocalError, Options, Server};
pub use settings::{RUN_SILENCE_LIMIT, Settings};
pub use store::projects::Behavior;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value behind `mutex`, also after a panic elsewhere: every writer leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
