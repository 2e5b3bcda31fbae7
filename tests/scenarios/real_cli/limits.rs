//! What a turn must not reach, and what it cannot hold any more.

use claude_code_runner::sdk::wire::run::{RunState, ToolClass};

use super::service::What;
use super::{nothing, record, world};

#[test]
fn a_file_outside_that_a_message_mentions_reaches_no_request() {
    for class in [ToolClass::Chat, ToolClass::Scoped] {
        let Some((world, service)) = world(|setup| setup.runner_class = class) else { return };
        let (outside, inside) = (world.dir.join("outside.txt"), world.project().join("inside.txt"));
        std::fs::write(&outside, "canary of a file outside").unwrap();
        std::fs::write(&inside, "canary of a file inside").unwrap();
        let mentions = [outside.display().to_string(), "../../outside.txt".into(), "inside.txt".into()];
        let text = mentions.map(|path| format!("@{path}")).join(" and ");
        let (_, run) = world.asks(&text);
        world.ends_as(run, RunState::Completed, None);
        let sent = serde_json::to_string(&service.requests()).unwrap();
        assert!(sent.contains("outside.txt"), "the words themselves are there");
        assert!(!sent.contains("canary of a file"), "{class:?}: no file was put in");
    }
}

/// The service's refusal of a conversation that has become too long.
fn too_long() -> What {
    let message = "prompt is too long: 250000 tokens > 200000 maximum";
    What::Error(400, "invalid_request_error", message, None)
}

#[test]
fn a_full_context_ends_its_run_and_the_next_one_starts_fresh() {
    let Some((world, service)) = world(nothing) else { return };
    service.reply("first", 1, What::Text("one".into()));
    let (thread, run) = world.asks("first");
    world.ends_as(run, RunState::Completed, None);
    let full = world.server.operator().session(thread).unwrap().unwrap();
    // Too long as it is, and too long for a summary too.
    service.reply("", 99, too_long());
    let run = world.person.says(thread, "second").run_id.unwrap();
    world.ends_as(run, RunState::Failed, Some("context_full"));
    record::keep(&world, run, "context-full");
    service.forget();
    service.reply("third", 1, What::Text("three".into()));
    let run = world.person.says(thread, "third").run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    let answers = world.answer_texts(thread);
    assert_eq!((answers.first().unwrap().as_str(), answers.last().unwrap().as_str()), ("one", "three"));
    assert_eq!(answers.len(), 3, "one sentence of our own between them");
    let fresh = world.server.operator().session(thread).unwrap().unwrap();
    assert_ne!(fresh.external_session_ref, full.external_session_ref);
}
