//! Turns that do not go straight through: follow-ups, stops, limits, crashes, other sessions.

mod adoption;
mod followups;
mod limits;
mod outage;
mod sessions;
mod stop;
mod sweep;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use claude_code_runner::sdk::wire::run::FollowupState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// A world with these lines in `[runner]` of its configuration.
fn world(runner: &[&str]) -> World {
    World::with(setup(runner))
}

fn setup(runner: &[&str]) -> Setup {
    Setup { runner: runner.iter().map(|line| (*line).to_owned()).collect(), ..Setup::default() }
}

/// A tool call that makes the marker `reached` and then waits for the marker `go`.
fn waiting_tool() -> Value {
    json!({"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "reached"}, {"hold": "go"}]}})
}

/// Waits until the stand-in has made the marker.
fn reached(world: &World, marker: &str) {
    eventually(marker, || world.claude.reached(marker).then_some(()));
}

/// The states of a run's follow-ups, oldest first.
fn followup_states(world: &World, run: Uuid) -> Vec<Option<FollowupState>> {
    world.person.run(run).followups.iter().map(|followup| followup.state).collect()
}

/// Waits until the run's only follow-up is in `state`.
fn followup_is(world: &World, run: Uuid, state: FollowupState) {
    eventually("the follow-up's state", || (followup_states(world, run) == [Some(state)]).then_some(()));
}

/// Every state that the runner reported of any follow-up, in order.
fn reported_states(world: &World) -> Vec<String> {
    let requests = world.hooks.requests_of("reportFollowup");
    let state = |request: &claude_code_runner::local::hooks::Captured| {
        request.json().and_then(|body| Some(body["state"].as_str()?.to_owned()))
    };
    requests.iter().filter_map(state).collect()
}

/// The processes whose environment has the run's temporary directory: the turn and all that it left.
fn processes_of(state: &Path, run: Uuid) -> Vec<i32> {
    let entry = format!("TMPDIR={}", state.join("tmp").join(run.to_string()).display());
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Checks that nothing of the run's turn is left in the process table.
#[track_caller]
fn nothing_is_left(world: &World, run: Uuid) {
    assert_eq!(processes_of(&world.state(), run), Vec::<i32>::new());
}

/// Number of turns that were started.
fn turns(world: &World) -> usize {
    world.claude.captured("turn").len()
}

/// Puts a script in the place of the stand-in; `FAKE` in it stands for the stand-in's program.
fn replace_program(world: &World, script: &str) {
    let program = world.claude.program();
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, script.replace("FAKE", env!("CARGO_BIN_EXE_fake-claude"))).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}
