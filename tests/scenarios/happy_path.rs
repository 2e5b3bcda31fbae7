//! A message becomes a turn and an answer.

use claude_code_runner::sdk::wire::run::RunState;

use crate::support::world::World;

#[test]
fn a_message_becomes_an_answer() {
    let world = World::new();
    world.claude.answers("Hello Alex.");
    let (thread, run) = world.asks("Hello");
    let found = world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["Hello Alex."]);
    assert!(found.costs.is_some());
}
