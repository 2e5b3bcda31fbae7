//! The Claude Code CLI: how it is started, what it is told, what it says.

pub mod argv;
pub mod auth_check;
pub mod environment;
pub mod error_table;
pub mod line;
pub mod message;
pub mod progress;
pub mod prompt;
pub mod stream;
pub mod usage;
pub mod version;
