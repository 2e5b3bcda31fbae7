//! `claude-code-runner`: chat threads on one side, Claude Code turns on the other.

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
