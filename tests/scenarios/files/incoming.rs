//! Files of people (IN-1 to IN-6), and what a project's binding and permissions mean for files (IN-8, IN-9).

use std::os::unix::fs::{MetadataExt, symlink};

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::message::ScanStatus;
use claude_code_runner::sdk::wire::problem::{Problem, code};
use claude_code_runner::sdk::wire::run::{RunState, ToolClass};
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    PART, answer, answers, bytes, completes, every_file, grant, names, nothing_left, put, revision, with,
    works, world,
};
use crate::support::logs;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// Sends one file with a message and gives the thread, the run and the file.
fn sends(world: &World, name: &str, bytes: &[u8]) -> (Uuid, Uuid, Uuid) {
    let file = world.person.uploads(world.channel(), name, bytes);
    let thread = world.thread();
    let run = world.person.says_with(thread, "Look at it", &[file]).run_id.unwrap();
    (thread, run, file)
}

/// What the newest turn was told.
fn prompt(world: &World) -> String {
    world.claude.lines().last().unwrap().join("\n")
}

fn stored(world: &World, thread: Uuid) -> Vec<std::path::PathBuf> {
    every_file(&world.state().join("files").join(thread.to_string()))
}

/// IN-1, IN-2, IN-6: stored privately under a safe name, and named only inside its data block.
#[test]
fn a_file_of_the_message_is_in_the_inbox_under_a_safe_name() {
    let world = world();
    let rows = [
        ("orders.zip", "orders.zip"),
        ("CLAUDE.md", "file-CLAUDE.md"),
        ("$(touch x); a.txt", "__touch x__ a.txt"),
        ("re\u{301}sume\u{301}.pdf", "r\u{e9}sum\u{e9}.pdf"),
    ];
    for (name, safe) in rows {
        let sent = bytes(7, 60);
        let (thread, run, file) = sends(&world, name, &sent);
        completes(&world, run);
        let path = world.state().join(format!("files/{thread}/{file}/{safe}"));
        assert_eq!(stored(&world, thread), std::slice::from_ref(&path), "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), sent);
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o7777, 0o700);
        let told = prompt(&world);
        assert_eq!(told.matches(&path.display().to_string()).count(), 1, "{told}");
    }
}

/// IN-1, IN-4: what may not be fetched is never asked for, and named with its code.
#[test]
fn a_file_that_may_not_be_read_is_not_asked_for() {
    let world = world();
    let rows = [
        (ScanStatus::Pending, "file_not_ready"),
        (ScanStatus::Blocked, "file_blocked"),
        (ScanStatus::Failed, "file_blocked"),
    ];
    for (status, expected) in rows {
        let file = world.person.uploads(world.channel(), "a.txt", b"abc");
        world.server.operator().set_scan_status(file, status).unwrap();
        let thread = world.thread();
        let run = world.person.says_with(thread, "Look", &[file]).run_id.unwrap();
        completes(&world, run);
        assert!(prompt(&world).contains(&format!("unavailable: {expected}")), "{}", prompt(&world));
        assert!(stored(&world, thread).is_empty());
    }
    assert_eq!(world.hooks.count("downloadFile"), 0);
}

/// IN-1, IN-6: the files of other messages of the thread are only listed.
#[test]
fn files_of_earlier_messages_are_not_fetched_again() {
    let world = world();
    let (thread, run, _) = sends(&world, "first.txt", b"abc");
    completes(&world, run);
    assert_eq!(world.hooks.count("downloadFile"), 1);
    let run = world.person.says(thread, "And now?").run_id.unwrap();
    completes(&world, run);
    assert_eq!(world.hooks.count("downloadFile"), 1);
}

/// IN-3, IN-4: every way a download fails has its code, leaves nothing behind and never fails the run.
#[test]
fn a_failed_download_is_named_and_leaves_nothing() {
    let refuse = |status, code: &str| Fault::Refuse(Problem::new(status, code), None);
    let length = 3 * usize::try_from(PART).unwrap();
    let rows = [
        (refuse(404, code::NOT_FOUND), "not_found"),
        (refuse(409, code::FILE_NOT_READY), "file_not_ready"),
        (refuse(409, code::FILE_BLOCKED), "file_blocked"),
        (refuse(501, code::NOT_ENABLED), "not_enabled"),
        (refuse(500, code::INTERNAL_ERROR), "transfer_failed"),
        (Fault::CutBefore, "transfer_failed"),
        (Fault::CutBodyAt(10), "transfer_failed"),
        (Fault::DoneThenBody("x".repeat(length)), "checksum_mismatch"),
        (Fault::DoneThenBody("x".into()), "checksum_mismatch"),
    ];
    let world = world();
    for (fault, expected) in rows {
        world.hooks.always("downloadFile", fault);
        let (thread, run, _) = sends(&world, "a.bin", &bytes(3, length));
        completes(&world, run);
        world.hooks.clear();
        assert!(
            prompt(&world).contains(&format!("unavailable: {expected}")),
            "{expected}: {}",
            prompt(&world)
        );
        assert!(stored(&world, thread).is_empty(), "{expected}");
    }
}

/// IN-3: a file above the instance's limit is not fetched.
#[test]
fn a_file_above_the_limit_is_too_large() {
    let world = world();
    let file = world.person.uploads(world.channel(), "a.bin", &bytes(3, 3000));
    world.server.operator().change_settings(|settings| settings.limits.file_max_upload_bytes = 100);
    let thread = world.thread();
    let run = world.person.says_with(thread, "Look", &[file]).run_id.unwrap();
    completes(&world, run);
    assert!(prompt(&world).contains("unavailable: too_large"));
    assert_eq!(world.hooks.count("downloadFile"), 0);
}

/// IN-5: a stop ends a download at once and leaves no partial file.
#[test]
fn a_stop_ends_a_download() {
    let world = world();
    let gate = Gate::new();
    world.hooks.next("downloadFile", Fault::HoldBodyAt(10, gate.clone()));
    let (thread, run, _) = sends(&world, "a.bin", &bytes(3, 3000));
    assert!(gate.reached(DEADLINE));
    world.person.stops(run);
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    assert!(stored(&world, thread).is_empty());
    assert!(world.claude.captured("turn").is_empty());
    gate.open();
}

/// C5-11: a turn replaces the inbox by a link; nothing outside appears or changes.
#[test]
fn a_planted_link_receives_nothing() {
    let world = world();
    let outside = world.dir.join("home/private");
    std::fs::create_dir(&outside).unwrap();
    let plant = format!("rm -rf {{{{add_dir}}}} && ln -s {} {{{{add_dir}}}}", outside.display());
    works(&world, json!([{"shell": plant}]), "Planted.");
    let (thread, run) = world.asks("Plant it");
    completes(&world, run);
    answers(&world, "Read.");
    let file = world.person.uploads(world.channel(), "data.csv", b"a,b\n");
    let run = world.person.says_with(thread, "Read it", &[file]).run_id.unwrap();
    world.ends(run);
    assert_eq!(every_file(&outside), Vec::<std::path::PathBuf>::new());
}

/// A turn that announces a file of the project, one of its temporary directory, and waits before it answers.
fn waits_before_it_answers(world: &World) {
    put(world, "a.txt", "a");
    let work = json!([
        {"write": {"path": "{{tmpdir}}/b.txt", "content": "b"}}, {"mark": "works"}, {"hold": "go"}
    ]);
    world.claude.plays(&json!({"turns": [
        {"when": {"nth": 1}, "steps": [
            {"tool": {"name": "Read", "input": {}, "do": work}},
            {"text": "Two.\nATTACH: a.txt\nATTACH: {{tmpdir}}/b.txt"}]},
        {"steps": [{"text": "Two.\nATTACH: a.txt"}]}
    ]}));
}

/// IN-9: a binding that is revoked while the turn runs closes the project.
#[test]
fn a_revoked_binding_closes_the_project() {
    let world = world();
    waits_before_it_answers(&world);
    let (thread, run) = world.asks("Send both");
    eventually("the turn works", || world.claude.reached("works").then_some(()));
    let acks = usize::try_from(world.hooks.count("ackEvents")).unwrap();
    world.server.operator().unbind(world.channel()).unwrap();
    assert!(world.hooks.wait_for("ackEvents", acks + 1, DEADLINE));
    world.claude.release("go");
    completes(&world, run);
    let notice = "- `a.txt`: outside_allowed_roots\n- `b.txt`: set_not_sent";
    assert_eq!(answer(&world, thread).content_md, format!("Two.\n\nAttachments not sent:\n{notice}"));
}

/// IN-9: another directory in the project's place is not the project.
#[test]
fn a_replaced_project_directory_is_no_root() {
    for link in [false, true] {
        let world = world();
        waits_before_it_answers(&world);
        let (thread, run) = world.asks("Send both");
        eventually("the turn works", || world.claude.reached("works").then_some(()));
        let project = world.project();
        let moved = world.dir.join("projects/moved");
        std::fs::rename(&project, &moved).unwrap();
        if link {
            symlink(&moved, &project).unwrap();
        } else {
            std::fs::create_dir(&project).unwrap();
            std::fs::write(project.join("a.txt"), "other").unwrap();
        }
        world.claude.release("go");
        completes(&world, run);
        let told = answer(&world, thread);
        if link {
            // The same directory under the same name: its files are those of the project.
            assert_eq!(names(&told), ["a.txt", "b.txt"]);
        } else {
            let notice = "- `a.txt`: outside_allowed_roots\n- `b.txt`: set_not_sent";
            assert_eq!(told.content_md, format!("Two.\n\nAttachments not sent:\n{notice}"));
        }
        nothing_left(&world);
    }
}

/// IN-8: the revision stands in turn record and document; a change applies to the next turn.
#[test]
fn grant_revision_is_recorded_and_a_change_applies_to_the_next_turn() {
    let world = world();
    waits_before_it_answers(&world);
    let before = revision(&world);
    let (thread, run) = world.asks("Send both");
    eventually("the turn works", || world.claude.reached("works").then_some(()));
    let record = world.state().join("turns").join(format!("{run}.json"));
    let record: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!(
        record.pointer("/project/grant_revision").or(record.get("grant_revision")),
        Some(&json!(before))
    );
    grant(&world, &json!({"workspace_write": true}));
    grant(&world, &json!({"workspace_write": false}));
    // A withdrawn write permission does not close the project for what is sent (IN-9).
    world.claude.release("go");
    let found = completes(&world, run);
    assert_eq!(found.document["grant_revision"], json!(before));
    assert_eq!(names(&answer(&world, thread)), ["a.txt", "b.txt"]);
    let run = world.person.says(thread, "Again").run_id.unwrap();
    assert_eq!(completes(&world, run).document["grant_revision"], json!(before + 2));
}

/// IN-8: class host needs the write permission; as root it is refused anyway.
#[test]
fn class_host_is_refused_without_the_write_permission() {
    let setup = Setup { server_class: ToolClass::Host, runner_class: ToolClass::Host, ..Setup::default() };
    let world = with(setup);
    let (_, run) = world.asks("Work");
    world.ends_as(run, RunState::Failed, Some("adapter_error"));
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let code = if root { "host_as_root" } else { "workspace_read_only" };
    assert!(logs::has_code(run, code), "{:?}", logs::of(run));
    assert!(world.claude.captured("turn").is_empty());
}
