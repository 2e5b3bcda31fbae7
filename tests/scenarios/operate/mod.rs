//! What an operator does with the service: look at it, let a service manager watch it, install its unit.

mod faults;
mod manager;
mod status;
mod unit;

use std::process::{Command, Output, Stdio};

use crate::support::world::{World, private_file};

const PROGRAM: &str = env!("CARGO_BIN_EXE_claude-code-runner");

/// The program with these words and the configuration of `world`.
fn command(world: &World, words: &[&str]) -> Command {
    let config = world.dir.join("runner.toml");
    private_file(&config, &world.config_text());
    let mut command = Command::new(PROGRAM);
    command.args(words).arg("--config").arg(config).stdin(Stdio::null()).env_clear();
    command.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "runner")]);
    command.env("HOME", world.dir.join("home"));
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
