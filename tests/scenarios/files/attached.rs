//! Answers whose files arrive: order, requests, roots, crossing results.

use std::os::unix::fs::MetadataExt;

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::{Problem, code};
use claude_code_runner::sdk::wire::run::FollowupState;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::world::{
    CANARY, MOST_FILES, PART, REPORT_BYTES, answer, answer_is, answers, bytes, completes, every_file,
    messages, names, nothing_leaked, of_agent, put, uploads, with, works, world,
};
use crate::support::logs;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(bytes: &[u8]) -> String {
    use base64::Engine;
    format!("sha-256=:{}:", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes)))
}

#[test]
fn reply_with_attachments_uploaded_and_attached() {
    let world = world();
    let report = bytes(1, REPORT_BYTES);
    let summary = format!("{CANARY} summary");
    put(&world, "dist/report.md", &report);
    let write = json!([{"write": {"path": "{{tmpdir}}/summary.txt", "content": &summary}}]);
    works(&world, write, "Done.\nATTACH: dist/report.md\nATTACH: {{tmpdir}}/summary.txt\n");
    let gate = world.hooks.hold_next("completeUpload");
    let (thread, run) = world.asks("Make a report");
    assert!(gate.reached(DEADLINE));
    eventually("the status line shows the upload", || {
        (world.person.run(run).document["status_line"] == "uploading_attachments").then_some(())
    });
    gate.open();
    let found = completes(&world, run);
    assert_eq!(found.document.get("status_line"), None);

    let answer = answer(&world, thread);
    assert_eq!((answer.content_md.as_str(), names(&answer)), ("Done.", vec!["report.md", "summary.txt"]));
    for (file, sent) in answer.attachments.iter().zip([report.as_slice(), summary.as_bytes()]) {
        assert_eq!(world.person.downloads(file.file_id), sent);
        assert_eq!(file.sha256, hex(sent));
    }
    check_requests(&world, [("report.md", &report), ("summary.txt", summary.as_bytes())]);
    let turn_temp = world.claude.environment(0)["TMPDIR"].clone();
    assert_eq!(std::path::PathBuf::from(&turn_temp), world.state().join("tmp").join(run.to_string()));
    eventually("the temporary directory is gone", || {
        (!std::path::Path::new(&turn_temp).exists()).then_some(())
    });
    nothing_leaked(&world, true);
}

/// People see that files are on their way also while the server takes its time for a request.
#[test]
fn an_upload_shows_while_its_first_request_hangs() {
    let world = world();
    put(&world, "dist/report.md", b"report");
    works(&world, json!([]), "Done.\nATTACH: dist/report.md\n");
    let gate = world.hooks.hold_next("createUpload");
    let (thread, run) = world.asks("Make a report");
    assert!(gate.reached(DEADLINE));
    eventually("the status line shows the upload", || {
        (world.person.run(run).document["status_line"] == "uploading_attachments").then_some(())
    });
    assert_eq!(world.hooks.count("createUpload"), 1, "it shows before the request is made again");
    gate.open();
    let found = completes(&world, run);
    assert_eq!(found.document.get("status_line"), None);
    assert_eq!(names(&answer(&world, thread)), ["report.md"]);
}

fn check_requests(world: &World, files: [(&str, &[u8]); 2]) {
    assert_eq!(of_agent(world, "getInstance").len(), 1);
    let creates = of_agent(world, "createUpload");
    let mut keys: Vec<String> = Vec::new();
    for (create, (name, bytes)) in creates.iter().zip(files) {
        let expected = json!({"name": name, "size_bytes": bytes.len(), "sha256": hex(bytes)});
        assert_eq!(create.json().unwrap(), expected);
        keys.push(create.header("Idempotency-Key").unwrap().to_owned());
    }
    let parts = of_agent(world, "uploadPart");
    let slices = files.iter().flat_map(|(_, bytes)| bytes.chunks(PART as usize));
    let expected: Vec<(Vec<u8>, Option<String>)> =
        slices.map(|slice| (slice.to_vec(), Some(digest(slice)))).collect();
    let sent: Vec<(Vec<u8>, Option<String>)> = parts
        .iter()
        .map(|part| (part.body.clone(), part.header("Content-Digest").map(str::to_owned)))
        .collect();
    assert_eq!(sent, expected);
    let completes = of_agent(world, "completeUpload");
    for (complete, count) in completes.iter().zip([3, 1]) {
        let named = complete.json().unwrap()["parts"].as_array().unwrap().clone();
        assert_eq!(named.len(), count);
        assert!(named.iter().all(|part| part["etag"].is_string()));
        keys.push(complete.header("Idempotency-Key").unwrap().to_owned());
    }
    assert_eq!((creates.len(), completes.len()), (2, 2));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "each request has a key of its own");
    let sent = messages(world);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0]["content_md"], sent[0]["run_id"].is_string()), (&json!("Done."), true));
    assert_eq!(sent[0]["attachment_file_ids"].as_array().unwrap().len(), 2);
    // One token serves the whole answer.
    let of_answer = creates.iter().chain(&parts).chain(&completes);
    let tokens: std::collections::BTreeSet<_> =
        of_answer.map(|seen| seen.header("Invocation-Token").unwrap().to_owned()).collect();
    assert_eq!(tokens.len(), 1);
}

#[test]
fn attach_only_answer_sends_empty_text() {
    let world = world();
    put(&world, "dist/report.md", bytes(1, 10));
    answers(&world, "ATTACH: dist/report.md");
    let (thread, run) = world.asks("Only the file");
    completes(&world, run);
    let answer = answer(&world, thread);
    assert_eq!((answer.content_md.as_str(), names(&answer)), ("", vec!["report.md"]));

    answers(&world, "");
    let (empty, run) = world.asks("Say nothing");
    completes(&world, run);
    assert!(world.answers(empty).is_empty());
    nothing_leaked(&world, true);
}

#[test]
fn attach_lines_in_code_block_stay_text() {
    let world = world();
    let rows = [
        "Write it so:\n\n```\nATTACH: example.txt\n```",
        "~~~text\nATTACH: example.txt\n~~~\nas shown",
        "````\n```\nATTACH: example.txt\n```\n````",
        "Unclosed:\n```\nATTACH: example.txt",
        " ATTACH: example.txt",
        "attach: example.txt",
        "ATTACH:example.txt",
    ];
    for row in rows {
        answers(&world, row);
        let (thread, run) = world.asks("How do I attach?");
        completes(&world, run);
        let answer = answer(&world, thread);
        assert_eq!((answer.content_md.as_str(), answer.attachments.len()), (row, 0));
    }
    assert!(uploads(&world).is_empty() && of_agent(&world, "getInstance").is_empty());
}

#[test]
fn thread_inbox_file_reattached() {
    let world = world();
    let sent = bytes(4, 40);
    let file = world.person.uploads(world.channel(), "data.csv", &sent);
    let find = json!([{"find": {"name": "data.csv", "below": "{{add_dir}}", "as": "data"}}]);
    works(&world, find, "Here again.\nATTACH: {{out.data}}");
    let thread = world.thread();
    let run = world.person.says_with(thread, "Send it back", &[file]).run_id.unwrap();
    completes(&world, run);
    let back = answer(&world, thread);
    assert_eq!(names(&back), ["data.csv"]);
    assert_ne!(back.attachments[0].file_id, file, "a file of its own");
    assert_eq!(world.person.downloads(back.attachments[0].file_id), sent);
    assert_eq!(world.person.downloads(file), sent);

    let inbox = world.state().join("files").join(thread.to_string());
    let stored = every_file(&inbox).remove(0);
    answers(&world, &format!("ATTACH: {}", stored.display()));
    let (other, run) = world.asks("And from here?");
    completes(&world, run);
    let refused = answer(&world, other);
    assert_eq!(refused.content_md, "Attachments not sent:\n- `data.csv`: outside_allowed_roots");
}

#[test]
fn followup_results_each_answer_own_attachments() {
    // Long enough for the follow-up to arrive while the first answer's files are held.
    let setup = Setup { runner: vec!["followup_grace = \"3s\"".into()], ..Setup::default() };
    let world = with(setup);
    put(&world, "a.txt", bytes(1, 10));
    put(&world, "b.txt", bytes(2, 20));
    world.claude.plays(&json!({"turns": [
        {"when": {"line": 1}, "steps": [
            {"tool": {"name": "Read", "input": {}, "do": [{"mark": "first"}, {"hold": "go"}]}},
            {"text": "One.\nATTACH: a.txt"}]},
        {"when": {"line": 2}, "steps": [{"text": "Two.\nATTACH: b.txt"}]}
    ]}));
    // The first answer is not delivered before the follow-up is in, so both are of one turn.
    let gate = world.hooks.hold_next("completeUpload");
    let (thread, run) = world.asks("First");
    eventually("the turn works", || world.claude.reached("first").then_some(()));
    world.claude.release("go");
    assert!(gate.reached(DEADLINE));
    let followed = world.person.says(thread, "Second");
    assert!(followed.followup_id.is_some());
    let records = || {
        let all = every_file(&world.state().join("sessions"));
        let names = all.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        names.filter(|name| name.contains(".attach-")).collect::<Vec<_>>()
    };
    assert_eq!(records(), [format!("{run}.attach-1.json")]);
    gate.open();
    let found = completes(&world, run);
    assert_eq!(found.followups[0].state, Some(FollowupState::Answered));
    let answers = world.answers(thread);
    let told: Vec<(&str, Vec<&str>)> =
        answers.iter().map(|message| (message.content_md.as_str(), names(message))).collect();
    assert_eq!(told, [("One.", vec!["a.txt"]), ("Two.", vec!["b.txt"])]);
    assert_eq!(of_agent(&world, "getInstance").len(), 2);
    nothing_leaked(&world, true);
}

#[test]
fn message_stored_then_502_is_sent_once_with_its_attachments() {
    let world = world();
    put(&world, "a.txt", bytes(1, 10));
    answers(&world, "Here.\nATTACH: a.txt");
    answer_is(&world, Fault::DoneThenRefuse(Problem::new(502, code::UNAVAILABLE)));
    let (thread, run) = world.asks("Send it");
    completes(&world, run);
    let bodies = messages(&world);
    assert_eq!(bodies.len(), 2, "repeated once");
    assert_eq!(bodies[0], bodies[1]);
    assert_eq!(names(&answer(&world, thread)), ["a.txt"]);
    nothing_leaked(&world, true);
}

#[test]
fn heartbeat_reports_files_out() {
    let world = world();
    answers(&world, "x");
    let (_, run) = world.asks("Hello");
    world.ends(run);
    let beats = world.hooks.requests_of("sendHeartbeat");
    assert!(!beats.is_empty());
    for beat in beats {
        assert_eq!(beat.json().unwrap().pointer("/details/capabilities/files_out"), Some(&json!(true)));
    }
}

#[test]
fn no_names_paths_or_content_in_logs() {
    let world = world();
    let (name, dir) = ("canary-name-0003.txt", "canary-directory-0004");
    put(&world, &format!("{dir}/{name}"), bytes(1, 30));
    put(&world, &format!("{dir}/.env"), "x");
    for text in [format!("ATTACH: {dir}/{name}"), format!("ATTACH: {dir}/{name}\nATTACH: {dir}/.env")] {
        answers(&world, &text);
        let (_, run) = world.asks("Send it");
        completes(&world, run);
    }
    for line in logs::all() {
        assert!(!line.contains(name) && !line.contains(dir), "{line}");
    }
    for seen in world.hooks.requests() {
        let text = String::from_utf8_lossy(&seen.body).into_owned();
        let may = ["createUpload", "createMessage"].contains(&seen.operation.as_str());
        assert!(may || !text.contains(name), "{}", seen.operation);
        assert!(!text.contains(dir), "{}", seen.operation);
    }
    nothing_leaked(&world, true);
}

/// More than one file has the limit of the instance exactly.
#[test]
fn a_full_set_keeps_its_order() {
    let world = world();
    let paths = ["c.txt", "a.txt", "b.txt"];
    assert_eq!(paths.len() as u64, MOST_FILES);
    for (at, path) in paths.iter().enumerate() {
        put(&world, path, bytes(at as u8, 5 + at));
    }
    let lines: Vec<String> = paths.iter().map(|path| format!("ATTACH: {path}")).collect();
    // The same file again, under another spelling, counts once and at its first line.
    answers(&world, &format!("{}\nATTACH: ./c.txt", lines.join("\n")));
    let (thread, run) = world.asks("All three");
    completes(&world, run);
    assert_eq!(names(&answer(&world, thread)), paths);
    let ids: Vec<Value> = answer(&world, thread).attachments.iter().map(|file| json!(file.file_id)).collect();
    assert_eq!(messages(&world)[0]["attachment_file_ids"], json!(ids));
}

/// Copies and records are private while they exist and gone once the answer is settled.
#[test]
fn state_files_private_and_retention() {
    let world = world();
    put(&world, "a.txt", bytes(1, 10));
    answers(&world, "ATTACH: a.txt");
    let gate = world.hooks.hold_next("completeUpload");
    let (_, run) = world.asks("Send it");
    assert!(gate.reached(DEADLINE));
    let copy = world.state().join(format!("outgoing/{run}/1/1"));
    let records = every_file(&world.state().join("sessions"));
    let record = records.into_iter().find(|path| path.to_string_lossy().contains(".attach-1.json")).unwrap();
    for file in [&copy, &record] {
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600, "{}", file.display());
        for dir in file.ancestors().skip(1).take_while(|dir| dir.starts_with(world.state())) {
            assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o700, "{}", dir.display());
        }
    }
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(!text.contains(CANARY) && !text.contains("ATTACH"), "{text}");
    assert_eq!(std::fs::read(&copy).unwrap(), bytes(1, 10));
    gate.open();
    completes(&world, run);
    nothing_leaked(&world, true);
    eventually("the run's directories are gone", || {
        let left = ["outgoing", "tmp"].map(|name| world.state().join(name).join(run.to_string()));
        left.iter().all(|dir| !dir.exists()).then_some(())
    });
}
