//! Class host with the real CLI: everything that the account may do, so never as root.

use claude_code_runner::sdk::wire::run::{RunState, ToolClass};
use claude_code_runner::sys::process::effective_uid;
use serde_json::json;

use super::service::What;
use super::{nothing, world};
use crate::support::world::Setup;

fn host(setup: &mut Setup) {
    nothing(setup);
    (setup.server_class, setup.runner_class) = (ToolClass::Host, ToolClass::Host);
}

#[test]
fn class_host_writes_with_any_tool_as_an_ordinary_user() {
    if effective_uid() == 0 {
        println!("not run: class host wants an ordinary user");
        return;
    }
    let Some((world, service)) = world(host) else { return };
    world.person.lets_write(world.channel());
    let made = world.project().join("made.txt");
    let command = format!("printf seven > {}", made.display());
    service.reply("make it", 1, What::Tool("Bash", json!({"command": command})));
    service.reply("tool_result", 1, What::Text("Done.\nATTACH: made.txt".into()));
    let (thread, run) = world.asks("make it");
    world.ends_as(run, RunState::Completed, None);
    let answers = world.answers(thread);
    assert_eq!(world.person.downloads(answers[0].attachments[0].file_id), b"seven");
}

/// The runner refuses it before the CLI would.
#[test]
fn class_host_as_root_never_starts_the_cli() {
    if effective_uid() != 0 {
        println!("not run: this is no root");
        return;
    }
    let Some((world, service)) = world(host) else { return };
    world.person.lets_write(world.channel());
    let (_, run) = world.asks("make it");
    world.ends_as(run, RunState::Failed, Some("adapter_error"));
    assert!(service.requests().is_empty());
}
