//! Golden files: recordings replayed to their final live document.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::*;
use super::plain;
use crate::claude::progress::{Effect, Outcome};

const LIMIT: u64 = 64 * 1024 * 1024;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude").join(name)
}

fn replay_file(path: &Path) -> (Replay, BTreeMap<String, Value>) {
    let mut file = fs::File::open(path).unwrap();
    let mut document = BTreeMap::new();
    let mut sink = Sink { document: &mut document, mask: &plain, now: Time::from_millis(0) };
    let got = replay(&mut file, LIMIT, Uuid::nil(), &mut sink).unwrap();
    (got, document)
}

fn recordings() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder("recordings")).unwrap().map(|one| one.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn every_recording_is_read_without_a_lost_line() {
    let all = recordings();
    assert!(all.len() >= 150, "{}", all.len());
    for path in all {
        let (got, document) = replay_file(&path);
        let lines = fs::read(&path).unwrap().iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!((got.lines, got.noise, got.too_long), (lines, 0, 0), "{}", path.display());
        assert!(!document.values().any(|value| value["status"] == "running"), "{}", path.display());
        let again = replay_file(&path);
        assert_eq!((document, got.effects), (again.1, again.0.effects), "{}", path.display());
    }
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::Init(init) => json!({"init": init.api_key_source, "model": init.model}),
        Effect::Answer(answer) => {
            json!({"answer": answer.position, "text": answer.text, "lines": answer.uuids.len()})
        }
        Effect::Failed(turn) => json!({
            "failed": turn.failure.reason.as_str(), "code": turn.failure.code, "sentence": turn.failure.sentence,
            "lines": turn.uuids.len(),
        }),
        Effect::CompactDone { ok } => json!({"compact_done": ok}),
        Effect::Followup { id, fate } => json!({"followup": id, "fate": format!("{fate:?}")}),
        Effect::ControlRequest { request_id } => json!({"control_request": request_id}),
        Effect::NotAuthenticated => json!("not_authenticated"),
        Effect::ForeignResult => json!("foreign_result"),
    }
}

/// The document as one JSON object.
fn nested(document: &BTreeMap<String, Value>) -> Value {
    let mut root = json!({});
    for (path, value) in document {
        let mut at = &mut root;
        for name in path.trim_start_matches('/').split('/') {
            at = &mut at[name];
        }
        *at = value.clone();
    }
    root
}

fn golden(replay: &Replay, document: &BTreeMap<String, Value>) -> String {
    let costs = replay.usage.costs().map(|costs| {
        let cost = |cost: &crate::claude::usage::ModelCost| {
            let tokens =
                [cost.tokens.input, cost.tokens.output, cost.tokens.cache_read, cost.tokens.cache_write];
            json!({"model": cost.model, "tokens": tokens, "amount_micros": cost.amount_micros})
        };
        costs.iter().map(cost).collect::<Vec<_>>()
    });
    let outcome = match replay.progress.outcome() {
        None => "none",
        Some(Outcome::Success) => "success",
        Some(Outcome::Failed(failure)) => failure.code,
    };
    let all = json!({
        "document": nested(document),
        "effects": replay.effects.iter().map(effect).collect::<Vec<_>>(),
        "costs": costs,
        "outcome": outcome,
        "finished": replay.progress.finished(),
    });
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

/// The recordings with a golden file; `UPDATE_GOLDEN=1` writes them anew.
const GOLDEN: [&str; 26] = [
    "03-basic-text",
    "03-basic-text-2.1.259",
    "04-scoped-allowedTools",
    "04-thinking-text-two-tools",
    "05-api-retry-529-twice-then-ok",
    "05-background-bash",
    "05-background-bash-2.1.259",
    "05-subagent-forward-text",
    "05-subagent-task",
    "05-tool-progress-foreground-bash",
    "06-resume-same-uuid-killed-in-tool",
    "06-resume-unknown-session",
    "07-followup-after-result",
    "07-followup-during-tool",
    "07-two-lines-at-once",
    "08-sigint-group-during-bash",
    "08-sigint-mid-stream",
    "08-sigkill-group-during-bash",
    "08-control-request-interrupt",
    "09-429-retry-after-3600",
    "09-api-401-max-retries-2",
    "09-max-budget",
    "09-refusal",
    "09-weird-characters",
    "10-compact-command",
    "10-prompt-too-long-compaction-fails",
];

/// Recordings that `scripts/real-cli --refresh` makes; each has a golden file.
const OF_THE_SUITE: &str = "real-";

#[test]
fn golden_documents() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let all = recordings();
    let names = all.iter().filter_map(|path| path.file_stem()?.to_str());
    let of_the_suite: Vec<_> = names.filter(|name| name.starts_with(OF_THE_SUITE)).collect();
    assert!(of_the_suite.len() >= 10, "{of_the_suite:?}");
    for name in GOLDEN.into_iter().chain(of_the_suite) {
        let (replay, document) = replay_file(&folder("recordings").join(format!("{name}.jsonl")));
        let got = golden(&replay, &document);
        let file = folder("golden").join(format!("{name}.json"));
        if update {
            fs::write(&file, &got).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), got, "{name}");
    }
}
