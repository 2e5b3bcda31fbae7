//! `claude-code-runner`: chat threads on one side, Claude Code turns on the other.
//!
//! This is the map. Read it first, then `run/mod.rs` (one run), then `runner/mod.rs` (the main thread).
//!
//! # The flow
//!
//! ```text
//! gateway thread     runner (main thread)              run thread, one a run
//! long poll  ----->  event, check, inbox, ack  ----->  prepare  start  turn  answer  finish
//!                                                        |        |      |      |       |
//!                                                     context   startRun |   createMessage
//!                                                     auth status        |          finishRun
//!                                                                     claude -p
//! ```
//!
//! 1. An event is checked, stored in the inbox and only then acknowledged (`runner/intake.rs`).
//! 2. A run thread prepares: project, locks, slot, context, files, proof of who pays (`run/prepare.rs`).
//! 3. The server is told of the start; the turn record is written; the process starts (`run/start.rs`).
//! 4. The process writes to files; the run thread follows them, patches the live document, posts one answer
//!    per result (`run/turn/`, `run/answer.rs`).
//! 5. Whatever happens, the run ends in `run/finish.rs`, which is told an `End` and makes it known.
//!
//! # The layers
//!
//! Imports go down only; a test reads them.
//!
//! ```text
//! cli                       the commands
//! runner                    the main thread: events, inbox, run table, heartbeat
//! run                       one run, one thread
//! attachments               files in and out: decisions, staging, upload of a set
//! sdk        claude         the server's contract  |  the CLI: argv, prompt, stream
//! config     sys            the configuration file |  the operating system, the only unsafe code
//! ```
//!
//! Beside them: `sdk::wire`, the serde types of the contract, which every layer but `sys` may use; `local`,
//! the embedded server, which uses only `sdk::{wire, jws}` and `sys`; `fake_claude`, the stand-in for the
//! CLI, which uses nothing of ours. Only `cli` uses `local`.
//!
//! # The threads
//!
//! | thread | owns | waits for |
//! |---|---|---|
//! | main | run table, slots, inbox, poll position | one `select` over one event enum |
//! | gateway | nothing | the long poll |
//! | courier | a queue: acknowledgements, keys, refusals, retention | HTTP |
//! | heartbeat | the latest snapshot | timer, HTTP |
//! | signals | nothing | the signal iterator |
//! | probe | nothing, short-lived | `claude --version` |
//! | run-<id> | locks, child, stdin, stream offset, turn record, its own inbox connection | one `poll`, HTTP |
//! | post-run-<id> | nothing: the request of a live turn that its run thread gave it | HTTP |
//!
//! Main never waits for the network. A stop reaches a run thread by its cancel, which shuts the run's HTTP
//! client down and wakes its `poll`.
//!
//! # What is on disk
//!
//! The table is in `run/state_dir.rs`. What a crash must not lose is there before the request that depends
//! on it.
//!
//! # What must stay true
//!
//! - No async runtime, no second way to wait.
//! - No secret and no content in a log line; messages are `key=value` pairs of codes, ids and numbers.
//! - No process is signalled by a number alone: a zombie child holds its group, an adopted one is a pidfd.
//! - An answer, a title, a cost report and an upload happen once; patches and state reports may repeat.

pub mod attachments;
pub mod claude;
pub mod cli;
pub mod config;
pub mod fake_claude;
pub mod local;
pub mod run;
pub mod runner;
pub mod sdk;
pub mod sys;
