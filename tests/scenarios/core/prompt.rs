//! What the CLI reads: the words of the person, the context with its trust, files as data (AG-20).

use claude_code_runner::local::Behavior;
use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::context::{NOTICE, QUOTE};
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::*;
use crate::support::world::World;

/// The text outside of data blocks, and every block's content. The boundary is random per run: it is read from
/// the first marker.
pub(super) fn split(text: &str) -> (String, Vec<String>) {
    let marker = text.lines().find_map(|line| line.strip_prefix("===== BEGIN DATA ")).unwrap_or("none =====");
    let (begin, end) = (format!("===== BEGIN DATA {marker}"), format!("===== END DATA {marker}"));
    let (mut outside, mut blocks) = (Vec::new(), Vec::new());
    let mut inside: Option<Vec<&str>> = None;
    for line in text.lines() {
        if line == begin {
            assert!(inside.is_none(), "a block inside a block");
            assert_eq!(outside.last(), Some(&NOTICE), "a block without its notice");
            inside = Some(Vec::new());
        } else if line == end {
            blocks.push(inside.take().expect("an end without a beginning").join("\n"));
        } else {
            inside.as_mut().unwrap_or(&mut outside).push(line);
        }
    }
    assert!(inside.is_none(), "a block that does not end");
    (outside.join("\n"), blocks)
}

fn author(name: &str) -> Value {
    json!({"principal_id": Uuid::now_v7(), "display_name": name})
}

fn message(seq: i64, name: &str, role: &str, trust: &str, text: &str) -> Value {
    json!({
        "message_id": Uuid::now_v7(), "seq": seq, "author": author(name), "role": role, "trust": trust,
        "origin": if role == "import" { "import" } else { "chat" }, "kind": "text",
        "created_at": "2026-01-02T03:04:05.678Z", "content_md": text, "already_delivered": false,
        "truncated": false, "attachments": [],
    })
}

fn attachment(id: Uuid, name: &str, bytes: &[u8]) -> Value {
    let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "file_id": id, "name": name, "mime_type": "text/plain", "size_bytes": bytes.len(), "sha256": sha256,
        "scan_status": "clean",
    })
}

#[test]
fn ag_20_trust_marks_in_prompt() {
    let world = World::new();
    let behavior = Behavior { prompt: Some("canary of the channel".into()), ..Behavior::default() };
    world.server.operator().set_behavior(world.channel(), behavior).unwrap();
    let (content, sound) = (b"canary inside the file".as_slice(), b"canary inside the sound".as_slice());
    let file = world.person.uploads(world.channel(), "plan.txt", content);
    let voice = world.person.uploads(world.channel(), "voice.ogg", sound);
    let gate = world.hooks.hold_next("getRunContext");
    let thread = world.thread();
    let run = world.person.says_with(thread, "canary of Alex", &[file, voice]).run_id.unwrap();
    assert!(gate.reached(crate::support::wait::DEADLINE));

    let mut trigger = message(9, "Alex", "person", "trigger", "canary of Alex");
    let mut spoken = attachment(voice, "voice.ogg", sound);
    spoken["transcript"] = json!({"text": "canary spoken by Alex", "language": "en"});
    trigger["attachments"] = json!([attachment(file, "plan.txt", content), spoken]);
    let context = json!({
        "run_id": run,
        "thread": {"id": thread, "title": "canary of the title", "title_source": "auto", "version": 1},
        "channel": {"id": world.channel(), "name": "Projekt-A", "kind": "forum"},
        "channel_context": [message(1, "Sam", "person", "unverified", "canary of Sam")],
        "thread_context": [
            message(5, "Robin", "person", "authorized", "canary of Robin"),
            message(3, "Lotse", "other", "unverified", "canary of Lotse"),
            message(4, "Archive", "import", "unverified", "canary of the import"),
            message(6, "Runner", "self", "self", "canary of Runner"),
        ],
        "trigger_message": trigger, "truncated_before_seq": 1, "context_floor_seq": 0,
    });
    world.hooks.nth("getRunContext", 1, Fault::DoneThenBody(context.to_string()));
    gate.open();
    world.ends_as(run, RunState::Completed, None);

    let lines = world.claude.lines();
    assert_eq!((lines.len(), lines[0].len()), (1, 3), "context, words, the closing item (R-2)");
    let (system, words, closing) = (&lines[0][0], &lines[0][1], &lines[0][2]);
    let prompt = world.claude.captured("turn")[0]["system_prompt"].as_str().unwrap().to_owned();
    let (outside, blocks) = split(system);
    let local = world.state().join("files").join(thread.to_string());
    let paths = [file, voice].map(|id| local.join(id.to_string()));
    for (id, path) in [(file, &paths[0]), (voice, &paths[1])] {
        let stored = std::fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
        let own = format!("local file: {}", stored.display());
        let holds: Vec<&String> = blocks.iter().filter(|block| block.contains(&own)).collect();
        assert_eq!(holds.len(), 1, "the path stands in its own block");
        assert!(holds[0].contains(&id.to_string()));
    }
    for canary in ["canary of Sam", "canary of Lotse", "canary of the import", "canary of the title"] {
        assert_eq!(blocks.iter().filter(|block| block.contains(canary)).count(), 1, "{canary}");
    }
    let material = [
        "canary of Sam",
        "canary of Lotse",
        "canary of the import",
        "canary of the title",
        "plan.txt",
        &local.display().to_string(),
    ];
    for text in [&outside, words, closing, &prompt] {
        for canary in material {
            assert!(!text.contains(canary), "{canary} outside of data");
        }
    }
    for canary in ["canary of Robin", "canary of Runner"] {
        assert!(outside.contains(&format!("{QUOTE}{canary}")), "{canary}");
    }
    assert!(
        outside.contains("trust=unverified")
            && outside.contains("trust=authorized")
            && outside.contains("trust=self")
    );
    assert!(words.starts_with("canary of Alex"));
    let (spoken, in_blocks) = split(words);
    assert!(
        spoken.contains("canary spoken by Alex") && spoken.contains("trust=trigger") && in_blocks.is_empty()
    );
    assert!(prompt.contains("# Instructions of this channel\n\ncanary of the channel"));
    assert!(!prompt.contains("canary of Alex") && !prompt.contains("Projekt-A"));
    let everything = world.claude.captures().iter().map(Value::to_string).collect::<String>();
    assert!(!everything.contains("canary inside"), "no file content in any input");
    let order = ["canary of Lotse", "canary of the import", "canary of Robin", "canary of Runner"];
    let places: Vec<usize> = order.iter().map(|canary| system.find(canary).unwrap()).collect();
    assert!(places.is_sorted(), "ascending, whatever the server's order");
}

/// The title is asked for in a new session only, and the stored line is the line that was sent.
#[test]
fn the_title_is_asked_for_once_and_the_line_is_stored() {
    let world = World::new();
    let thread = world.thread();
    for (text, asked) in [("first words", true), ("second words", false)] {
        let run = world.person.says(thread, text).run_id.unwrap();
        world.ends_as(run, RunState::Completed, None);
        let turn = world.claude.captured("turn").pop().unwrap();
        assert_eq!(turn["system_prompt"].as_str().unwrap().contains("TITLE:"), asked, "{text}");
        let session = start_body(&world, run)["external_session_ref"].as_str().unwrap().to_owned();
        let stored = world.state().join("sessions").join(session).join(format!("{run}.input.jsonl"));
        let sent = world.claude.captured("stdin").pop().unwrap();
        assert_eq!(std::fs::read_to_string(stored).unwrap().trim_end(), sent["line"].as_str().unwrap());
    }
}
