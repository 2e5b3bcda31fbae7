//! What an operator can get wrong, through the built program: each fault has an error that says what to do.

use std::os::unix::fs::PermissionsExt;

use claude_code_runner::sdk::wire::run::RunState;

use crate::support::service::Service;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Starts the service with a changed configuration and gives what it said; it must have refused.
fn refused(world: &World, change: impl FnOnce(String) -> String) -> (Option<i32>, String) {
    let ended = Service::start_with(world, &change(world.config_text())).ended();
    (ended.code, ended.stderr)
}

/// Takes the line of a key away and puts another one in its place.
fn line(text: &str, key: &str, with: &str) -> String {
    let own = |line: &&str| line.split('=').next().unwrap().trim() == key;
    let (old, _) = (text.lines().find(own).unwrap(), ());
    text.replace(old, with)
}

#[test]
fn five_faults_are_five_lines_with_key_and_place_and_without_a_value() {
    let world = World::without_runner(Setup::default());
    let secret = "sk-example-canary-key-0002";
    let (code, said) = refused(&world, |text| {
        let text = line(&text, "server_url", "server_url = \"http://example.com\"");
        let text = line(&text, "instance_id", "instance_id = \"my instance\"");
        let text = line(&text, "agent_token_ref", &format!("agent_token_ref = \"{secret}\""));
        let text = line(&text, "poll_interval", "poll_interval = \"quickly\"");
        line(&text, "default_model", "defaultmodel = \"sonnet\"")
    });
    assert_eq!(code, Some(78), "{said}");
    for (key, number) in [
        ("runner.server_url", 2),
        ("runner.instance_id", 3),
        ("runner.agent_token_ref", 4),
        ("runner.defaultmodel", 8),
        ("runner.poll_interval", 12),
    ] {
        let found = said.lines().any(|it| it.contains(&format!("runner.toml:{number}:")) && it.contains(key));
        assert!(found, "{key} at line {number}: {said}");
    }
    for value in [secret, "my instance", "quickly", "example.com"] {
        assert!(!said.contains(value), "{value}: {said}");
    }
    assert!(!world.state().exists(), "nothing was made");
}

#[test]
fn an_unreadable_token_file_is_named() {
    let world = World::without_runner(Setup::default());
    let open = world.dir.join("open-token");
    std::fs::write(&open, "token").unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let empty = world.dir.join("empty-token");
    crate::support::world::private_file(&empty, "");
    for (name, path) in [
        ("missing", world.dir.join("none")),
        ("a directory", world.dir.join("bin")),
        ("others may read it", open),
        ("empty", empty),
    ] {
        let reference = format!("agent_token_ref = \"file:{}\"", path.display());
        let (code, said) = refused(&world, |text| line(&text, "agent_token_ref", &reference));
        assert_eq!(code, Some(78), "{name}: {said}");
        assert!(said.contains("runner.agent_token_ref"), "{name}: {said}");
    }
    assert_eq!(world.hooks.requests().len(), 0, "nothing was sent");
}

#[test]
fn a_state_directory_that_others_may_enter_is_refused() {
    let world = World::without_runner(Setup::default());
    std::fs::create_dir(world.state()).unwrap();
    for mode in [0o755, 0o750, 0o770, 0o701] {
        std::fs::set_permissions(world.state(), std::fs::Permissions::from_mode(mode)).unwrap();
        let (code, said) = refused(&world, |text| text);
        assert_eq!(code, Some(78), "{mode:o}: {said}");
        assert!(said.contains("runner.state_dir") && said.contains("0700"), "{mode:o}: {said}");
    }
    std::fs::set_permissions(world.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let _service = Service::start(&world);
    let (_, run) = world.asks("How many orders?");
    world.ends_as(run, RunState::Completed, None);
}

#[test]
fn a_second_runner_on_the_same_state_directory_is_refused() {
    let world = World::without_runner(Setup::default());
    let first = Service::start(&world);
    eventually("the first one polls", || (world.hooks.count("pollEvents") > 0).then_some(()));
    let (code, said) = refused(&world, |text| text);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another runner uses this runner.state_dir"), "{said}");
    let (_, run) = world.asks("How many orders?");
    world.ends_as(run, RunState::Completed, None);
    drop(first);
}

/// Another runner could take the directory that is there now: two would work for one agent.
#[test]
fn a_state_directory_that_is_taken_away_ends_the_service() {
    let adapter = vec![r#"heartbeat_interval = "1s""#.into()];
    let world = World::without_runner(Setup { adapter, ..Setup::default() });
    let first = Service::start(&world);
    eventually("it serves", || (world.hooks.count("pollEvents") > 0).then_some(()));
    std::fs::rename(world.state(), world.dir.join("moved")).unwrap();
    let ended = first.ended();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("state_dir_lost"), "{}", ended.stderr);
    assert!(ended.stderr.contains("runner.state_dir was removed or replaced"), "{}", ended.stderr);
}

#[test]
fn a_token_that_the_server_refuses_ends_the_service() {
    let world = World::without_runner(Setup::default());
    let stranger = world.dir.join("stranger");
    crate::support::world::private_file(&stranger, "nobodys-token");
    let reference = format!("agent_token_ref = \"file:{}\"", stranger.display());
    let (code, said) = refused(&world, |text| line(&text, "agent_token_ref", &reference));
    assert_eq!(code, Some(77), "{said}");
    assert!(said.contains("new token") && !said.contains("nobodys-token"), "{said}");
}

#[test]
fn a_project_without_git_is_not_ready_and_its_run_starts_all_the_same() {
    let world = World::without_runner(Setup::default());
    std::fs::remove_dir(world.project().join(".git")).unwrap();
    let _service = Service::start(&world);
    let (thread, run) = world.asks("How many orders?");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    let beats = world.hooks.requests_of("sendHeartbeat");
    let ready = beats.last().unwrap().json().unwrap()["project_readiness"][0]["ready"].clone();
    assert_eq!(ready, serde_json::json!(false));
}
