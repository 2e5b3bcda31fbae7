//! The stand-in for the Claude Code CLI.

pub mod play;
pub mod scenario;

use std::process::ExitCode;

/// Plays the scenario this program was installed with.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
