//! The real CLI, driven by the real runner against the embedded server and a scripted model service.
//!
//! Runs only where `CLAUDE_CODE_RUNNER_REAL_CLI` names the CLI's program, which `scripts/real-cli` installs and
//! calls in a network namespace of its own; otherwise each test says so and ends.

mod cost;
mod flags;
mod host;
mod limits;
mod paid;
mod record;
mod restart;
mod service;
mod turns;

use std::path::Path;

use claude_code_runner::sdk::wire::run::ToolClass;
use serde_json::{Value, json};

use crate::support::world::{Setup, World};
use service::Service;

/// Names the program.
pub const SWITCH: &str = "CLAUDE_CODE_RUNNER_REAL_CLI";

/// The CLI's program; `None`, and a line that says so, without the switch.
fn program() -> Option<String> {
    let program = std::env::var(SWITCH).ok();
    if program.is_none() {
        println!("not run: {SWITCH} names no CLI");
    }
    program
}

/// The world with the real CLI, and the service it talks to; `None` without the switch.
fn world(change: impl FnOnce(&mut Setup)) -> Option<(World, Service)> {
    let (mut world, service) = world_without_runner(change)?;
    world.start_runner();
    Some((world, service))
}

/// The same before the start of its runner.
fn world_without_runner(change: impl FnOnce(&mut Setup)) -> Option<(World, Service)> {
    let program = program()?;
    let service = Service::start();
    let runner = vec![
        format!("claude_bin = \"{program}\""),
        format!("turn_env = {{ ANTHROPIC_BASE_URL = \"{}\" }}", service.url()),
        "scoped_allowed_tools = [\"Read\", \"Edit(./**)\", \"Write(./**)\"]".to_owned(),
    ];
    let mut setup = Setup { runner, runner_class: ToolClass::Scoped, ..Setup::default() };
    change(&mut setup);
    Some((World::without_runner(setup), service))
}

/// The usual world.
fn nothing(_: &mut Setup) {}

/// A world whose turns have a shell.
fn with_shell(setup: &mut Setup) {
    setup.runner.retain(|line| !line.starts_with("scoped_allowed_tools"));
    setup.runner.push("scoped_allowed_tools = [\"Read\", \"Bash\"]".into());
}

/// The input of a shell tool that makes `ready` and waits for `go`.
fn waits(ready: &Path, go: &Path) -> Value {
    let command = format!("touch {}; until [ -e {} ]; do sleep 0.1; done", ready.display(), go.display());
    json!({"command": command})
}
