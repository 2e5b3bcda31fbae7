//! The runner core: what M2-34 lists as scenarios, the rulings on starting the CLI, reading its stream, secrets
//! and text, and the rows of public reports on the same.

mod billing;
mod codes;
mod ends;
mod heartbeat;
mod host;
mod hostile;
mod limits;
mod prompt;
mod queue;
mod secrets;
mod sessions;
mod start;
mod stream;
mod tokens;

use std::time::Duration;

use claude_code_runner::local::hooks::Captured;
use claude_code_runner::sdk::wire::person::RunDocument;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::{RunState, ToolClass};
use claude_code_runner::sys::process;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// The usual setup with these lines in `[runner]`.
fn runner_lines(lines: &[&str]) -> Setup {
    Setup { runner: lines.iter().map(|line| (*line).to_owned()).collect(), ..Setup::default() }
}

/// The body of the only `startRun` of a run.
fn start_body(world: &World, run: Uuid) -> Value {
    let bodies = bodies(world, "startRun", run);
    assert_eq!(bodies.len(), 1);
    bodies.into_iter().next().unwrap()
}

/// The JSON bodies of every request of `operation` for `run`.
fn bodies(world: &World, operation: &str, run: Uuid) -> Vec<Value> {
    of_run(world, operation, run).iter().filter_map(Captured::json).collect()
}

/// Every request of `operation` for `run`.
fn of_run(world: &World, operation: &str, run: Uuid) -> Vec<Captured> {
    let run = run.to_string();
    world.hooks.requests_of(operation).into_iter().filter(|request| request.path.contains(&run)).collect()
}

/// Every operation of every patch of a run, in order.
fn patches(world: &World, run: Uuid) -> Vec<Value> {
    let of = |body: Value| body["ops"].as_array().cloned().unwrap_or_default();
    bodies(world, "patchRun", run).into_iter().flat_map(of).collect()
}

/// The steps of a run's document.
fn steps(found: &RunDocument) -> Vec<Value> {
    let steps = found.document["steps"].as_object().cloned().unwrap_or_default();
    steps.into_iter().map(|(_, step)| step).collect()
}

/// The arguments behind `flag` up to the next flag.
fn values_of(argv: &[String], flag: &str) -> Vec<String> {
    let behind = argv.iter().skip_while(|arg| *arg != flag).skip(1);
    behind.take_while(|arg| !arg.starts_with("--")).cloned().collect()
}

/// A refusal of the invocation token.
fn token_refused(reason: &str) -> Problem {
    Problem::new(403, "invocation_token_invalid").because(reason)
}

/// Waits until a turn has reached the marker.
#[track_caller]
fn reached(world: &World, marker: &str) {
    eventually(marker, || world.claude.reached(marker).then_some(()));
}

/// Waits until `operation` was answered `count` times.
#[track_caller]
fn answered(world: &World, operation: &str, count: usize) {
    assert!(world.hooks.wait_for(operation, count, DEADLINE), "{operation}: not {count} times");
}

/// Nothing was started: neither on the server nor here.
#[track_caller]
fn nothing_started(world: &World, name: &str) {
    assert_eq!(world.hooks.count("startRun"), 0, "{name}");
    assert!(world.claude.captured("turn").is_empty(), "{name}");
}

/// The run failed with `reason` and nothing was started.
#[track_caller]
fn refused_before_start(world: &World, run: Uuid, reason: &str, name: &str) {
    let found = world.ends(run);
    assert_eq!((found.state, found.reason.as_deref()), (RunState::Failed, Some(reason)), "{name}");
    nothing_started(world, name);
    assert!(world.answers(found.thread_id).is_empty(), "{name}: the server shows the reason");
}

/// The process ids of the turns.
fn pids(world: &World) -> Vec<i32> {
    let turns = world.claude.captured("turn");
    turns.iter().map(|turn| i32::try_from(turn["pid"].as_i64().unwrap()).unwrap()).collect()
}

/// Nothing of any turn's process group is left.
#[track_caller]
fn no_group_left(world: &World) {
    for pid in pids(world) {
        eventually("the group is gone", || (!process::group_alive(pid)).then_some(()));
    }
}

/// A scenario with members beside its turns.
fn scenario(members: Value, steps: Value) -> Value {
    let mut all = json!({"turns": [{"steps": steps}]});
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    all
}

/// Whether class host may run here; as root it is refused.
fn host_may_run() -> bool {
    process::effective_uid() != 0
}

/// The classes that may run here.
fn classes() -> Vec<ToolClass> {
    let all = [ToolClass::Chat, ToolClass::Scoped, ToolClass::Host];
    all.into_iter().filter(|class| *class != ToolClass::Host || host_may_run()).collect()
}

/// How long a request must not come for it to count as not made.
const QUIET: Duration = Duration::from_millis(200);
