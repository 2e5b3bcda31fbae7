//! Rows of the case list where server and person see what happened to an answer's files.

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::problem::{Problem, code};
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::world::{
    PART, answer, answers, bytes, completes, messages, names, nothing_leaked, nothing_left, of_agent, put,
    uploads, with, world,
};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// Parts of the file of these rows.
const PARTS: usize = 4;

/// A file of [`PARTS`] parts and an answer that announces it; its bytes.
fn long_file(world: &World) -> Vec<u8> {
    let content = bytes(7, PARTS * PART as usize - 1);
    put(world, "long.bin", &content);
    answers(world, "Here.\nATTACH: long.bin");
    content
}

/// The part numbers that were sent, in order.
fn parts(world: &World) -> Vec<String> {
    let sent = of_agent(world, "uploadPart");
    sent.iter().map(|seen| seen.path.rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn c5_13_what_happens_to_a_file_after_its_copy_has_no_effect() {
    type Change = fn(&std::path::Path);
    let rows: [(&str, Change); 3] = [
        ("cut", |path| std::fs::write(path, "").unwrap()),
        ("replaced", |path| {
            std::fs::write(path.with_extension("new"), "another").unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("removed", |path| std::fs::remove_file(path).unwrap()),
    ];
    let world = world();
    for (what, change) in rows {
        let content = long_file(&world);
        let gate = world.hooks.hold_next("uploadPart");
        let (thread, run) = world.asks("Send it");
        assert!(gate.reached(DEADLINE), "{what}");
        change(&world.project().join("long.bin"));
        gate.open();
        completes(&world, run);
        let file = answer(&world, thread).attachments.remove(0);
        assert_eq!(world.person.downloads(file.file_id), content, "{what}");
    }
    nothing_leaked(&world, true);
}

/// Nothing is told of a type, so no name can lie about one; the server looks at the bytes.
#[test]
fn c5_19_a_type_is_what_the_bytes_are() {
    let world = world();
    put(&world, "chart.svg", "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>");
    put(&world, "photo.png", "<html><script>alert(1)</script></html>");
    put(&world, "noext", b"%PDF-1.7\n");
    answers(&world, "Three.\nATTACH: chart.svg\nATTACH: photo.png \nATTACH: noext");
    let (thread, run) = world.asks("Send them");
    completes(&world, run);
    let told = answer(&world, thread);
    assert_eq!(names(&told), ["chart.svg", "photo.png", "noext"]);
    let types: Vec<&str> = told.attachments.iter().map(|file| file.mime_type.as_str()).collect();
    assert_eq!(types, ["text/plain", "text/plain", "application/pdf"]);
    for create in of_agent(&world, "createUpload") {
        let members = create.json().unwrap();
        let members: Vec<&String> = members.as_object().unwrap().keys().collect();
        assert_eq!(members, ["name", "sha256", "size_bytes"]);
    }
    // White space behind a path is never a part of it: a name that ends so cannot be announced.
    put(&world, "trailing.png ", "x");
    answers(&world, "ATTACH: trailing.png ");
    let (thread, run) = world.asks("And this");
    completes(&world, run);
    assert_eq!(answer(&world, thread).content_md, "Attachments not sent:\n- `trailing.png`: not_found");
}

/// A part is whole or not there, so there is no offset to ask for: other bytes under its number are the server's or
/// a stranger's, and the file is refused.
#[test]
fn c6_03_a_conflict_about_a_part_is_told() {
    let world = world();
    long_file(&world);
    let conflict = Problem::new(409, code::CONFLICT).because("part_conflict");
    world.hooks.nth("uploadPart", 3, Fault::Refuse(conflict, None));
    let (thread, run) = world.asks("Send it");
    completes(&world, run);
    let text = "Here.\n\nAttachments not sent:\n- `long.bin`: upload_refused (conflict, part_conflict)";
    assert_eq!(answer(&world, thread).content_md, text);
    assert_eq!((parts(&world), of_agent(&world, "abortUpload").len()), (numbers(&[1, 2, 3]), 1));
    nothing_leaked(&world, true);
}

fn numbers(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(u32::to_string).collect()
}

/// One refusal: the credentials are read anew and the same part goes again. Refused again: the run waits, sends
/// nothing meanwhile, then asks what the server has and goes on.
#[test]
fn c6_05_refused_credentials_cost_no_part() {
    let refused = || Fault::Refuse(Problem::new(401, code::UNAUTHENTICATED), None);
    for (times, sent, asked) in [(1, vec![1, 2, 3, 3, 4], 0), (2, vec![1, 2, 3, 3, 3, 4], 1)] {
        let world = world();
        let content = long_file(&world);
        for ordinal in 0..times {
            world.hooks.nth("uploadPart", 3 + ordinal, refused());
        }
        let (thread, run) = world.asks("Send it");
        completes(&world, run);
        assert_eq!(parts(&world), numbers(&sent), "{times}");
        assert_eq!(of_agent(&world, "getUpload").len(), asked, "{times}");
        let file = answer(&world, thread).attachments.remove(0);
        assert_eq!(world.person.downloads(file.file_id), content, "{times}");
        assert_eq!(world.server.operator().uploads().unwrap().len(), 1, "{times}");
        nothing_leaked(&world, true);
    }
}

#[test]
fn c6_05_a_forbidden_part_is_tried_once() {
    let world = world();
    long_file(&world);
    world.hooks.nth("uploadPart", 3, Fault::Refuse(Problem::new(403, code::FORBIDDEN), None));
    let (thread, run) = world.asks("Send it");
    completes(&world, run);
    let text = "Here.\n\nAttachments not sent:\n- `long.bin`: upload_refused (forbidden)";
    assert_eq!(answer(&world, thread).content_md, text);
    assert_eq!(parts(&world), numbers(&[1, 2, 3]));
}

#[test]
fn c6_07_waits_that_make_no_sense_do_not_hold_an_upload() {
    let waits = ["-5", "1.5", "", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "0"];
    let world = world();
    for (status, code) in [(429, code::RATE_LIMITED), (503, code::UNAVAILABLE)] {
        for wait in waits {
            let content = long_file(&world);
            world.hooks.next("uploadPart", Fault::Refuse(Problem::new(status, code), Some(wait.to_owned())));
            let (thread, run) = world.asks("Send it");
            completes(&world, run);
            let file = answer(&world, thread).attachments.remove(0);
            assert_eq!(world.person.downloads(file.file_id), content, "{status} {wait:?}");
        }
    }
}

#[test]
fn c6_07_a_stop_ends_the_longest_wait() {
    for wait in ["9999999999", "18446744073709551616", "Thu, 01 Jan 2099 00:00:00 GMT"] {
        let world = world();
        long_file(&world);
        let busy = Problem::new(429, code::RATE_LIMITED);
        world.hooks.nth("uploadPart", 3, Fault::Refuse(busy, Some(wait.to_owned())));
        let (thread, run) = world.asks("Send it");
        eventually("the part is refused", || (parts(&world).len() == 3).then_some(()));
        world.person.stops(run);
        world.ends_as(run, RunState::Cancelled, Some("user_stop"));
        assert_eq!((parts(&world).len(), messages(&world).len()), (3, 0), "{wait}");
        assert!(world.answers(thread).is_empty(), "{wait}");
        nothing_left(&world);
    }
}

/// The server goes and comes back on its port between two parts: its connections are gone, its sessions are not.
#[test]
fn c6_09_a_server_that_starts_anew_gets_the_missing_parts() {
    // However long the start takes, the part is asked for again until it is there.
    let mut world = with(Setup { sdk: vec!["retry_max_attempts = 100".into()], ..Setup::default() });
    let content = long_file(&world);
    let gate = Gate::new();
    world.hooks.nth("uploadPart", 3, Fault::DoneThenHold(gate.clone()));
    let (thread, run) = world.asks("Send it");
    assert!(gate.reached(DEADLINE));
    world.restart_server();
    completes(&world, run);
    let file = answer(&world, thread).attachments.remove(0);
    assert_eq!(world.person.downloads(file.file_id), content);
    assert_eq!(world.server.operator().uploads().unwrap().len(), 1);
    // Whether the answer to the held part still got through is chance; no other part goes again.
    let mut sent = parts(&world);
    assert!(sent.len() <= PARTS + 1, "{sent:?}");
    sent.dedup();
    assert_eq!(sent, numbers(&[1, 2, 3, 4]));
}

/// What a turn writes while it works is shown without the lines to the runner, and is no announcement yet.
#[test]
fn c10_15_nothing_is_sent_before_the_result_and_nothing_after_a_stop() {
    let world = world();
    put(&world, "out/a.pdf", bytes(1, 10));
    world.claude.steps(json!([
        {"text": "Done.\nATTACH: out/a.pdf"},
        {"tool": {"name": "Read", "input": {}, "do": [{"mark": "works"}, {"hold": "go"}]}},
        {"text": "Done.\nATTACH: out/a.pdf"},
    ]));
    let (thread, run) = world.asks("Send it");
    eventually("the turn works", || world.claude.reached("works").then_some(()));
    eventually("its text shows", || {
        let shown = serde_json::to_string(&world.person.run(run).document).unwrap();
        shown
            .contains("Done.")
            .then(|| assert!(!shown.contains("ATTACH") && !shown.contains("a.pdf"), "{shown}"))
    });
    world.person.stops(run);
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    assert!(world.answers(thread).is_empty() && uploads(&world).is_empty());
    assert!(of_agent(&world, "getInstance").is_empty() && messages(&world).is_empty());
    nothing_leaked(&world, false);
}
