//! What goes wrong on a fresh machine: `check-config` names each fault and its cure.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::run::ToolClass;
use claude_code_runner::sys::process::effective_uid;
use serde_json::{Value, json};

use super::{command, said};
use crate::support::world::{Setup, World};

/// The checks of a command, which prints them as JSON.
fn checks(mut command: Command) -> Vec<Value> {
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
}

/// Every check that fails: code and sentence.
fn failed(checks: &[Value]) -> Vec<(&str, &str)> {
    let failed = checks.iter().filter(|check| check["status"] == "fail");
    failed.map(|check| (check["code"].as_str().unwrap(), check["sentence"].as_str().unwrap())).collect()
}

/// `check-config` of `world` fails with this code alone, and its sentence holds the cure.
#[track_caller]
fn fails(world: &World, words: &[&str], code: &str, cure: &str) {
    let mut all = vec!["check-config", "--json"];
    all.extend(words);
    let checks = checks(command(world, &all));
    let failed = failed(&checks);
    assert!(failed.len() == 1 && failed[0].0 == code && failed[0].1.contains(cure), "{code}: {failed:?}");
}

fn world(line: &str) -> World {
    World::without_runner(Setup { runner: vec![line.to_owned()], ..Setup::default() })
}

#[test]
fn a_good_installation_has_no_fault_on_line_and_is_left_as_it_was() {
    let world = World::without_runner(Setup::default());
    let checks = checks(command(&world, &["check-config", "--json", "--online"]));
    assert_eq!(failed(&checks), []);
    for code in ["clock_agrees", "agent_token_accepted", "project_ready"] {
        assert!(checks.iter().any(|check| check["code"] == code), "{code}: {checks:?}");
    }
    assert!(!world.state().exists(), "the first start makes it, for its own user");
}

#[test]
fn wrong_paths_and_a_missing_key_are_named() {
    let rows = [
        ("projects_root = \"/nowhere/projects\"", "no_directory", "create it or name another"),
        ("claude_bin = \"/nowhere/claude\"", "claude_not_found", "install it"),
        ("state_dir = \"/proc/self/stat/state\"", "not_a_directory", "name another place"),
    ];
    for (line, code, cure) in rows {
        fails(&world(line), &[], code, cure);
    }
    let world = world("anthropic_api_key_ref = \"file:/nowhere/key\"");
    let checks = checks(command(&world, &["check-config", "--json"]));
    let (code, sentence) = failed(&checks)[0];
    assert_eq!(code, "secret_missing");
    assert!(
        sentence.contains("runner.anthropic_api_key_ref") && sentence.contains("create its file"),
        "{sentence}"
    );
}

#[test]
fn an_old_cli_and_a_stub_of_an_update_are_named() {
    let world = World::without_runner(Setup::default());
    world.claude.plays(&json!({"version": "2.1.200", "turns": []}));
    fails(&world, &[], "runtime_version_unsupported", "install exactly");
    let stub = world.dir.join("bin/claude");
    std::fs::remove_file(&stub).unwrap();
    std::fs::write(&stub, "#!/bin/sh\necho 'the native binary is not installed' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    fails(&world, &[], "runtime_unreachable", "an update may have left a stub");
}

#[test]
fn root_is_warned_and_refused_for_class_host() {
    if effective_uid() != 0 {
        println!("not run: this is no root");
        return;
    }
    let setup = Setup { runner_class: ToolClass::Host, ..Setup::default() };
    let world = World::without_runner(setup);
    fails(&world, &[], "host_as_root", "a user of its own");
    let checks = checks(command(&world, &["check-config", "--json"]));
    assert!(checks.iter().any(|check| check["code"] == "runs_as_root" && check["status"] == "warn"));
}

#[test]
fn a_server_that_cannot_be_reached_and_a_clock_that_is_off_are_named() {
    let mut world = World::without_runner(Setup::default());
    let discovery = |date: &str| {
        let head = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
        format!("{head}Date: {date}\r\nConnection: close\r\n\r\n{{}}").into_bytes()
    };
    // The discovery is asked twice: for the instance, then for the time.
    world.hooks.nth("getDiscovery", 2, Fault::RawBefore(discovery("Thu, 01 Jan 2026 00:00:00 GMT")));
    fails(&world, &["--online"], "clock_off", "timedatectl");
    world.server.stop();
    fails(&world, &["--online"], "server_unreachable", "firewall");
}

#[test]
fn a_full_disk_is_named() {
    let world = World::without_runner(Setup::default());
    std::fs::create_dir(world.state()).unwrap();
    let run = command(&world, &["check-config", "--json"]);
    // A small file system of its own in the place of the state directory, which nobody else sees.
    let script = "mount -t tmpfs -o size=1m,mode=0700 small \"$1\" && head -c 1048576 /dev/zero >\"$1/filler\"; shift; exec \"$@\"";
    let mut alone = Command::new("unshare");
    let namespaces: &[&str] =
        if effective_uid() == 0 { &["--mount"] } else { &["--map-root-user", "--mount"] };
    alone.args(namespaces).args(["sh", "-c", script, "sh"]).arg(world.state());
    alone
        .arg(run.get_program())
        .args(run.get_args())
        .stdin(Stdio::null())
        .env("HOME", world.dir.join("home"));
    let probe =
        Command::new("unshare").args(namespaces).args(["sh", "-c", "mount -t tmpfs none /mnt"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("not run: mounts of one's own are refused here");
        return;
    }
    let checks = checks(alone);
    let failed = failed(&checks);
    assert!(
        failed.iter().any(|(code, cure)| *code == "disk_full" && cure.contains("make room")),
        "{failed:?}"
    );
}
