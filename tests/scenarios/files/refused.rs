//! Answers whose files do not arrive: none of them does, and the person reads why.

use std::os::unix::fs::symlink;

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::{FieldError, Problem, code};
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::world::{
    LARGEST, REPORT_BYTES, SECRET, answer, answer_is, answers, bytes, completes, messages, names,
    nothing_leaked, of_agent, put, uploads, world,
};
use crate::support::world::World;

/// The text of the only answer, which has no file and ended its run well.
#[track_caller]
fn told(world: &World, text: &str) -> String {
    answers(world, text);
    let (thread, run) = world.asks("Send it");
    completes(world, run);
    let answer = answer(world, thread);
    assert_eq!(names(&answer), Vec::<&str>::new());
    answer.content_md
}

#[test]
fn symlink_escape_rejected_nothing_uploaded() {
    let world = world();
    let outside = world.dir.join("home/canary-outside.txt");
    std::fs::write(&outside, SECRET).unwrap();
    put(&world, "notes.md", "fine");
    symlink(&outside, world.project().join("link.txt")).unwrap();
    let text = told(&world, "Both.\nATTACH: notes.md\nATTACH: link.txt");
    let notice = "- `notes.md`: set_not_sent\n- `link.txt`: outside_allowed_roots";
    assert_eq!(text, format!("Both.\n\nAttachments not sent:\n{notice}"));
    assert!(uploads(&world).is_empty());
    for seen in world.hooks.requests() {
        assert!(!String::from_utf8_lossy(&seen.body).contains("canary-outside"), "{}", seen.operation);
    }
    nothing_leaked(&world, false);
}

#[test]
fn secret_patterns_rejected_nothing_uploaded() {
    let world = world();
    for file in [".env", ".ssh/id_ed25519", "config/x"] {
        put(&world, file, SECRET);
    }
    put(&world, "README.md", "fine");
    let text = told(&world, "ATTACH: README.md\nATTACH: .env");
    assert_eq!(text, "Attachments not sent:\n- `README.md`: set_not_sent\n- `.env`: denied_pattern");
    let text = told(&world, "Key:\nATTACH: config/../.ssh/id_ed25519");
    assert_eq!(text, "Key:\n\nAttachments not sent:\n- `id_ed25519`: denied_pattern");
    assert!(uploads(&world).is_empty());
    nothing_leaked(&world, false);
}

/// C5-17: the person always reads which file was not sent, and why.
#[test]
fn an_answer_of_refused_lines_only_is_their_notice() {
    let world = world();
    let text = told(&world, "ATTACH: none.txt\nATTACH: ../../x\n");
    assert_eq!(text, "Attachments not sent:\n- `none.txt`: not_found\n- `x`: not_found");
    let text = told(&world, "Here is the report.\nATTACH:  ");
    assert_eq!(text, "Here is the report.\n\nAttachments not sent:\n- `(empty)`: not_found");
}

/// C5-15: an empty file is refused by a stated rule, alone and among others.
#[test]
fn an_empty_file_is_refused_alone_and_among_others() {
    let world = world();
    for (name, content) in [("a.txt", "a"), ("empty.txt", ""), ("c.txt", "c")] {
        put(&world, name, content);
    }
    assert_eq!(told(&world, "ATTACH: empty.txt"), "Attachments not sent:\n- `empty.txt`: empty_file");
    let text = told(&world, "ATTACH: a.txt\nATTACH: empty.txt\nATTACH: c.txt");
    let lines = "- `a.txt`: set_not_sent\n- `empty.txt`: empty_file\n- `c.txt`: set_not_sent";
    assert_eq!(text, format!("Attachments not sent:\n{lines}"));
    assert!(uploads(&world).is_empty());
}

fn three_files(world: &World) -> &'static str {
    for (at, name) in ["a.txt", "b.txt", "c.txt"].iter().enumerate() {
        put(world, name, bytes(at as u8, if at == 1 { REPORT_BYTES } else { 10 }));
    }
    "Three.\nATTACH: a.txt\nATTACH: b.txt\nATTACH: c.txt"
}

#[test]
fn all_or_none_upload_failure_attaches_none() {
    let world = world();
    let answer = three_files(&world);
    let quota = Problem::new(409, code::CONFLICT).because("quota_exceeded");
    world.hooks.nth("createUpload", 2, Fault::Refuse(quota, None));
    let lines = "- `a.txt`: set_not_sent\n- `b.txt`: upload_refused (conflict, quota_exceeded)\n\
                 - `c.txt`: set_not_sent";
    assert_eq!(told(&world, answer), format!("Three.\n\nAttachments not sent:\n{lines}"));
    let operations: Vec<String> = uploads(&world).into_iter().map(|(operation, _)| operation).collect();
    assert_eq!(operations, ["createUpload", "uploadPart", "completeUpload", "createUpload"]);
    assert!(messages(&world).iter().all(|body| body.get("attachment_file_ids").is_none()));
    nothing_leaked(&world, true);
}

#[test]
fn all_or_none_upload_transport_failure_aborts_only_the_open_session() {
    let world = world();
    let answer = three_files(&world);
    // The third part of the second file, each time it is tried.
    for ordinal in 4..40 {
        world.hooks.nth("uploadPart", ordinal, Fault::CutBefore);
    }
    let lines = "- `a.txt`: set_not_sent\n- `b.txt`: upload_failed\n- `c.txt`: set_not_sent";
    assert_eq!(told(&world, answer), format!("Three.\n\nAttachments not sent:\n{lines}"));
    let phases: Vec<(String, String)> = world
        .server
        .operator()
        .uploads()
        .unwrap()
        .into_iter()
        .map(|(_, name, phase)| (name, phase))
        .collect();
    let row = |name: &str, phase: &str| (name.to_owned(), phase.to_owned());
    assert_eq!(phases, [row("a.txt", "completed"), row("b.txt", "aborted")]);
    assert_eq!(of_agent(&world, "abortUpload").len(), 1);
    nothing_leaked(&world, true);
}

/// Every refusal of the contract on each upload operation: the code and its reason stand in the notice.
#[test]
fn every_refusal_of_an_upload_is_named() {
    let rows = [
        (
            "createUpload",
            403,
            "forbidden",
            Some("capability_missing"),
            "upload_refused (forbidden, capability_missing)",
        ),
        ("createUpload", 403, "channel_read_only", None, "upload_refused (channel_read_only)"),
        ("createUpload", 413, "payload_too_large", None, "upload_refused (payload_too_large)"),
        (
            "createUpload",
            415,
            "unsupported_media_type",
            Some("file_type_denied"),
            "upload_refused (unsupported_media_type, file_type_denied)",
        ),
        (
            "createUpload",
            503,
            "unavailable",
            Some("storage_full"),
            "upload_refused (unavailable, storage_full)",
        ),
        ("createUpload", 400, "validation_failed", None, "upload_refused (validation_failed)"),
        ("uploadPart", 409, "conflict", Some("part_conflict"), "upload_refused (conflict, part_conflict)"),
        ("uploadPart", 404, "not_found", None, "upload_refused (not_found)"),
        ("uploadPart", 410, "gone", None, "upload_refused (gone)"),
        (
            "completeUpload",
            409,
            "conflict",
            Some("upload_incomplete"),
            "upload_refused (conflict, upload_incomplete)",
        ),
        ("completeUpload", 500, "internal_error", None, "upload_failed"),
    ];
    let world = world();
    put(&world, "a.txt", "a");
    for (operation, status, code, reason, expected) in rows {
        let mut problem = Problem::new(status, code);
        problem.reason = reason.map(str::to_owned);
        world.hooks.always(operation, Fault::Refuse(problem, None));
        let text = told(&world, "ATTACH: a.txt");
        world.hooks.clear();
        assert_eq!(text, format!("Attachments not sent:\n- `a.txt`: {expected}"), "{operation} {code}");
    }
}

/// Without a problem body the status counts (contract, "Small print").
#[test]
fn a_refusal_without_a_body_counts_by_its_status() {
    let rows = [
        (400, "upload_failed"),
        (403, "upload_failed"),
        (404, "upload_failed"),
        (413, "upload_refused (payload_too_large)"),
        (418, "upload_failed"),
    ];
    let world = world();
    put(&world, "a.txt", "a");
    for (status, expected) in rows {
        let bare = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        world.hooks.always("createUpload", Fault::RawBefore(bare.into_bytes()));
        let text = told(&world, "ATTACH: a.txt");
        world.hooks.clear();
        assert_eq!(text, format!("Attachments not sent:\n- `a.txt`: {expected}"), "{status}");
    }
}

#[test]
fn all_or_none_limits_from_instance() {
    let world = world();
    let three = three_files(&world);
    put(&world, "d.txt", "d");
    let text = told(&world, &format!("{three}\nATTACH: d.txt"));
    // Three of the four are named.
    let lines = "- `a.txt`: too_many\n- `b.txt`: too_many\n- `c.txt`: too_many\n- and 1 more";
    assert_eq!(text, format!("Three.\n\nAttachments not sent:\n{lines}"));
    put(&world, "large.txt", vec![b'x'; LARGEST as usize + 1]);
    let text = told(&world, "ATTACH: large.txt\nATTACH: a.txt");
    assert_eq!(text, "Attachments not sent:\n- `large.txt`: too_large\n- `a.txt`: set_not_sent");
    world.hooks.always("getInstance", Fault::Refuse(Problem::new(503, code::UNAVAILABLE), None));
    let text = told(&world, "ATTACH: a.txt");
    assert_eq!(text, "Attachments not sent:\n- `a.txt`: limits_unavailable");
    assert!(uploads(&world).is_empty());
    nothing_leaked(&world, false);
}

#[test]
fn acting_for_insufficient_refuses_upload() {
    let world = world();
    put(&world, "a.txt", bytes(1, 10));
    let problem = Problem::new(403, code::FORBIDDEN).because("acting_for_insufficient");
    world.hooks.always("createUpload", Fault::Refuse(problem, None));
    let text = told(&world, "ATTACH: a.txt");
    let line = "- `a.txt`: upload_refused (forbidden, acting_for_insufficient)";
    assert_eq!(text, format!("Attachments not sent:\n{line}"));
    nothing_leaked(&world, false);
}

#[test]
fn message_refused_falls_back_without_attachments() {
    let mut pointed = Problem::new(400, code::VALIDATION_FAILED);
    pointed.errors =
        vec![FieldError { pointer: "/attachment_file_ids/0".into(), code: "wrong_value".into() }];
    let rows = [
        (Problem::new(403, code::FEATURE_DISABLED), "feature_disabled"),
        (Problem::new(403, code::FORBIDDEN).because("capability_missing"), "forbidden, capability_missing"),
        (Problem::new(409, code::CONFLICT).because("file_not_attachable"), "conflict, file_not_attachable"),
        (pointed, "validation_failed"),
    ];
    for (problem, words) in rows {
        let world = world();
        put(&world, "a.txt", bytes(1, REPORT_BYTES));
        answer_is(&world, Fault::Refuse(problem, None));
        let text = told(&world, "Done.\nATTACH: a.txt");
        assert_eq!(text, format!("Done.\n\nAttachments not sent:\n- `a.txt`: not_attached ({words})"));
        let bodies = messages(&world);
        assert_eq!(bodies.len(), 2, "{words}");
        assert_ne!(bodies[0]["client_msg_id"], bodies[1]["client_msg_id"]);
        assert_eq!(bodies[0]["content_md"], json!("Done."));
        assert!(bodies[0].get("attachment_file_ids").is_some());
        assert!(bodies[1].get("attachment_file_ids").is_none());
        nothing_leaked(&world, true);
    }
}

/// Any other final refusal of an answer ends its run.
#[test]
fn another_refusal_of_the_message_ends_the_run() {
    let world = world();
    put(&world, "a.txt", bytes(1, 10));
    let mut problem = Problem::new(400, code::VALIDATION_FAILED);
    problem.errors = vec![FieldError { pointer: "/content_md".into(), code: "too_long".into() }];
    answer_is(&world, Fault::Refuse(problem, None));
    answers(&world, "Done.\nATTACH: a.txt");
    let (thread, run) = world.asks("Send it");
    world.ends_as(run, RunState::Failed, Some("adapter_error"));
    assert!(world.answers(thread).iter().all(|message| message.attachments.is_empty()));
    nothing_leaked(&world, true);
}
