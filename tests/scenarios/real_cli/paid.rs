//! Level real: two paid turns of one session against the real service. Behind two switches, because it costs money and leaves this
//! machine; nothing else of the tests does either.

use claude_code_runner::sdk::wire::run::RunState;
use uuid::Uuid;

use super::{program, world_without_runner};
use crate::support::world::{World, private_file};

/// The second switch; the first names the CLI.
const PAID: &str = "CLAUDE_CODE_RUNNER_REAL_TURN";

/// Where the key is.
const KEY: &str = "ANTHROPIC_API_KEY";

/// A small model, and a limit that its answer stays far below.
const CHEAP: [&str; 2] = ["default_model = \"haiku\"", "max_budget_usd = 0.10"];

#[test]
fn paid_turns_are_proven_answered_and_accounted() {
    let (Some(_), Ok(switch), Ok(key)) = (program(), std::env::var(PAID), std::env::var(KEY)) else {
        println!("not run: {PAID} and {KEY} are not both set");
        return;
    };
    assert_eq!(switch, "1", "{PAID}");
    let made = world_without_runner(|setup| {
        setup.runner.retain(|line| !line.starts_with("turn_env"));
        setup.runner.extend(CHEAP.map(str::to_owned));
    });
    let Some((mut world, service)) = made else { return };
    private_file(&world.dir.join("api-key"), &key);
    world.start_runner();
    // Completed means: auth status named the key before, the turn named the same source, and the reader understood it.
    let (thread, run) = world.asks("Answer with the one word: seven");
    answered(&world, thread, run, "seven");
    // The same session again: what it costs is its own part.
    let run = world.person.says(thread, "And now: eight").run_id.unwrap();
    answered(&world, thread, run, "eight");
    assert!(service.requests().is_empty(), "the scripted service had no part in it");
}

fn answered(world: &World, thread: Uuid, run: Uuid, word: &str) {
    let found = world.ends_as(run, RunState::Completed, None);
    assert!(world.answer_texts(thread).last().unwrap().to_lowercase().contains(word));
    let costs = found.costs.unwrap();
    assert!(!costs.is_empty() && costs.iter().all(|cost| cost.tokens_in + cost.tokens_out > 0));
}
