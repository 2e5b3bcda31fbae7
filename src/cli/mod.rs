//! The command line: one file a command.

pub mod ask;
pub mod check_config;
pub mod demo;
pub mod local;
pub mod run;

use std::process::ExitCode;

/// Runs the command named by the program's arguments.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
