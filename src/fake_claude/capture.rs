//! The capture file: what the program was given, for tests to read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Appends records to a file, or drops them when the program plays its built-in scenario.
pub(super) struct Capture {
    path: Option<PathBuf>,
}

impl Capture {
    /// The capture file of `program`.
    pub(super) fn beside(program: &Path, wanted: bool) -> Capture {
        let mut path = program.as_os_str().to_owned();
        path.push(".capture.jsonl");
        Capture { path: wanted.then(|| PathBuf::from(path)) }
    }

    /// Records a call and tells its number among the calls of its kind, from 1.
    pub(super) fn call(&self, kind: &str, arguments: &[String], system_prompt: Option<&str>) -> usize {
        let environment: Map<String, Value> = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), json!(value.to_string_lossy())))
            .collect();
        let id = uuid::Uuid::new_v4().to_string();
        self.add(&json!({
            "kind": kind,
            "id": id,
            "pid": std::process::id(),
            "argv": arguments,
            "cwd": std::env::current_dir().unwrap_or_default().to_string_lossy(),
            "env": environment,
            "system_prompt": system_prompt,
        }));
        self.number_of(kind, &id)
    }

    /// Appends one record.
    pub(super) fn add(&self, record: &Value) {
        let Some(mut file) = self.path.as_ref().and_then(|path| open(path).ok()) else { return };
        // One write, so that records of programs that run at the same time do not mix.
        let _ = file.write_all(format!("{record}\n").as_bytes());
    }

    fn number_of(&self, kind: &str, id: &str) -> usize {
        let text = self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_kind = records.filter(|record| record["kind"] == kind);
        of_kind.enumerate().find(|(_, record)| record["id"] == id).map_or(1, |(index, _)| index + 1)
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
