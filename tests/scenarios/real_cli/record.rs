//! Keeps the stream of a run as a fixture, when `scripts/real-cli --refresh` asks for it.
//!
//! What differs from run to run and means nothing (ids, times, paths, ports) is replaced, so that a second refresh
//! changes nothing. The golden documents of the fixtures are made by the library's own test.

use std::collections::HashMap;
use std::path::PathBuf;

use claude_code_runner::claude::version::PINNED_CLAUDE_CODE_VERSION;
use serde_json::{Value, json};
use uuid::Uuid;

use super::SWITCH;
use crate::support::source;
use crate::support::world::World;

/// Asks for the fixtures.
const REFRESH: &str = "CLAUDE_CODE_RUNNER_REFRESH";

/// Shortest run of hexadecimal digits that is an id and no word or number.
const ID_DIGITS: usize = 16;

/// Characters of a UUID.
const UUID_LENGTH: usize = 36;

/// Members with an id that is no UUID and no hexadecimal number.
const SHORT_IDS: &[&str] = &["task_id", "agent_id", "run_id", "runId", "backgroundTaskId"];

/// Members that say when, how long, or in which process.
const TIMES: &[&str] = &["timestamp", "pid", "elapsed_time_seconds", "start_time", "end_time"];

/// A moment that stands for every other.
const MOMENT: &str = "2026-01-02T03:04:05.000Z";

/// Lines that come or stay away with the load of the machine.
const BY_CHANCE: &[&str] = &["tool_progress"];

/// Keeps the stream of `run` as `fixtures/claude/recordings/real-<name>.jsonl`.
pub fn keep(world: &World, run: Uuid, name: &str) {
    if std::env::var_os(REFRESH).is_none() {
        return;
    }
    let text = std::fs::read_to_string(stream(world, run)).unwrap();
    let meta =
        json!({"type": "fixture_meta", "origin": "recorded", "cli_version": PINNED_CLAUDE_CODE_VERSION});
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut names = Names::new(world, &lines);
    let mut kept = vec![meta.to_string()];
    for mut line in lines {
        if !BY_CHANCE.iter().any(|kind| line["type"] == *kind) {
            names.settle(&mut line);
            // The house allows no dashes in a file; escaped they are the same text.
            kept.push(line.to_string().replace('\u{2013}', "\\u2013").replace('\u{2014}', "\\u2014"));
        }
    }
    let path = source::root().join(format!("fixtures/claude/recordings/real-{name}.jsonl"));
    std::fs::write(path, kept.join("\n") + "\n").unwrap();
}

/// The recording of a run's first process.
fn stream(world: &World, run: Uuid) -> PathBuf {
    let sessions = std::fs::read_dir(world.state().join("sessions")).unwrap().flatten();
    let mut all = sessions.map(|session| session.path().join(format!("{run}.stream.jsonl")));
    all.find(|path| path.exists()).unwrap()
}

/// Fixed names for what differs from run to run, given in the order of appearance.
struct Names {
    ids: HashMap<String, String>,
    texts: Vec<(String, String)>,
}

impl Names {
    fn new(world: &World, lines: &[Value]) -> Names {
        let directory =
            |path: &str| path.rsplit_once("/node_modules/").map_or(path.to_owned(), |it| it.0.to_owned());
        let slug = |path: &str| path.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let top = world.dir.path().display().to_string();
        let mut texts = vec![
            (format!("{top}/projects"), "/srv/projects".to_owned()),
            (slug(&format!("{top}/projects")), "-srv-projects".to_owned()),
            (format!("{top}/s"), "/var/lib/ccr".to_owned()),
            (top, "/srv".to_owned()),
            (directory(&std::env::var(SWITCH).unwrap()), "/usr/local/lib".to_owned()),
            (format!("claude-{}/", nix::unistd::geteuid()), "claude-1000/".to_owned()),
        ];
        for line in lines {
            let mut found = Vec::new();
            short_ids(line, &mut found);
            for id in found {
                if !texts.iter().any(|(old, _)| *old == id) {
                    let number = texts.len();
                    texts.push((id, format!("task{number}")));
                }
            }
        }
        Names { ids: HashMap::new(), texts }
    }

    fn settle(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.settle(item)),
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    if (name.ends_with("_ms") || name.ends_with("Ms")) && member.is_number() {
                        *member = json!(0);
                    } else if TIMES.contains(&name.as_str()) {
                        *member = if member.is_string() { json!(MOMENT) } else { json!(0) };
                    } else {
                        self.settle(member);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (old, new) in &self.texts {
            text = text.replace(old, new);
        }
        self.numbers(&moments(&port(&text)))
    }

    /// Replaces every UUID and every long hexadecimal number.
    fn numbers(&mut self, text: &str) -> String {
        let (mut kept, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
            let whole = rest.get(..UUID_LENGTH).filter(|it| Uuid::parse_str(it).is_ok());
            let id = whole.or_else(|| rest.get(..digits).filter(|_| digits >= ID_DIGITS));
            let step = match id {
                Some(id) => {
                    let number = self.ids.len() + 1;
                    let fresh = || match whole {
                        Some(_) => format!("00000000-0000-4000-8000-{number:012}"),
                        None => format!("{number:032}"),
                    };
                    kept += self.ids.entry(id.to_owned()).or_insert_with(fresh);
                    id.len()
                }
                None => {
                    let plain = digits.max(first.len_utf8());
                    kept += &rest[..plain];
                    plain
                }
            };
            rest = &rest[step..];
        }
        kept
    }
}

fn short_ids(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(id) if SHORT_IDS.contains(&name.as_str()) => found.push(id.clone()),
                    other => short_ids(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| short_ids(item, found)),
        _ => {}
    }
}

/// The port of a loopback address becomes a fixed one.
fn port(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += "127.0.0.1:9";
        kept += part.trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    kept
}

/// Every moment in a text becomes the fixed one.
fn moments(text: &str) -> String {
    let form = |at: &str| {
        let same = |(letter, wanted): (u8, u8)| {
            letter == wanted || (wanted.is_ascii_digit() && letter.is_ascii_digit())
        };
        at.len() == MOMENT.len() && at.bytes().zip(MOMENT.bytes()).all(same)
    };
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let moment = rest.get(..MOMENT.len()).is_some_and(form);
        let step = if moment { MOMENT.len() } else { first.len_utf8() };
        kept += if moment { MOMENT } else { &rest[..step] };
        rest = &rest[step..];
    }
    kept
}
