//! The real CLI, driven by the real runner against the embedded server and a scripted model service.
//!
//! Runs only where `CLAUDE_CODE_RUNNER_REAL_CLI` names the CLI's program, which `scripts/real-cli` installs and
//! calls in a network namespace of its own; otherwise each test says so and ends.

mod service;
mod turns;

use claude_code_runner::sdk::wire::run::ToolClass;

use crate::support::world::{Setup, World};
use service::Service;

/// Names the program.
pub const SWITCH: &str = "CLAUDE_CODE_RUNNER_REAL_CLI";

/// The world with the real CLI, and the service it talks to; `None` without the switch.
pub fn world(change: impl FnOnce(&mut Setup)) -> Option<(World, Service)> {
    let Ok(program) = std::env::var(SWITCH) else {
        println!("not run: {SWITCH} names no CLI");
        return None;
    };
    let service = Service::start();
    let runner = vec![
        format!("claude_bin = \"{program}\""),
        format!("turn_env = {{ ANTHROPIC_BASE_URL = \"{}\" }}", service.url()),
        "scoped_allowed_tools = [\"Read\", \"Edit(./**)\", \"Write(./**)\"]".to_owned(),
    ];
    let mut setup = Setup { runner, runner_class: ToolClass::Scoped, ..Setup::default() };
    change(&mut setup);
    Some((World::with(setup), service))
}
