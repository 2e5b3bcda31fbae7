//! The stand-in CLI of one scenario: a directory with the program, its scenario and its captures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The program and the files beside it.
pub struct StandIn {
    dir: PathBuf,
}

impl StandIn {
    /// Installs the stand-in into `dir` as `claude`, with a scenario that answers every message `an answer`.
    pub fn install(dir: &Path) -> StandIn {
        std::fs::create_dir_all(dir).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake-claude"), dir.join("claude")).unwrap();
        let stand_in = StandIn { dir: dir.to_owned() };
        stand_in.answers("an answer");
        stand_in
    }

    /// Path of the program.
    pub fn program(&self) -> PathBuf {
        self.dir.join("claude")
    }

    /// Replaces the program by the same one as another file, as an update does.
    pub fn replace(&self) {
        let fresh = self.dir.join("claude.new");
        // By a program of its own: a file that this process has open for writing cannot be started meanwhile.
        let copied =
            std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_fake-claude")).arg(&fresh).status();
        assert!(copied.unwrap().success());
        std::fs::rename(fresh, self.program()).unwrap();
    }

    /// Plays `scenario` from now on.
    pub fn plays(&self, scenario: &Value) {
        let path = self.dir.join("claude.scenario.json");
        let fresh = self.dir.join("scenario.new");
        std::fs::write(&fresh, scenario.to_string()).unwrap();
        std::fs::rename(fresh, path).unwrap();
    }

    /// Answers every message with `text`.
    pub fn answers(&self, text: &str) {
        self.plays(&json!({"turns": [{"steps": [{"text": text}]}]}));
    }

    /// Plays these steps at every message.
    pub fn steps(&self, steps: Value) {
        self.plays(&json!({"turns": [{"steps": steps}]}));
    }

    /// Makes the marker file that a `hold` waits for.
    pub fn release(&self, marker: &str) {
        std::fs::write(self.dir.join(marker), "").unwrap();
    }

    /// Whether a `mark` was reached.
    pub fn reached(&self, marker: &str) -> bool {
        self.dir.join(marker).exists()
    }

    /// Every captured call, in order.
    pub fn captures(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.join("claude.capture.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The captures of one kind: `version`, `auth`, `turn`, `stdin`, `signal`, `end`.
    pub fn captured(&self, kind: &str) -> Vec<Value> {
        self.captures().into_iter().filter(|capture| capture["kind"] == kind).collect()
    }

    /// The turns that were started: their arguments.
    pub fn argvs(&self) -> Vec<Vec<String>> {
        let strings = |value: &Value| {
            value.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().into()).collect()
        };
        self.captured("turn").iter().map(|turn| strings(&turn["argv"])).collect()
    }

    /// The environment of turn number `nth` (from 0).
    pub fn environment(&self, nth: usize) -> BTreeMap<String, String> {
        serde_json::from_value(self.captured("turn")[nth]["env"].clone()).unwrap()
    }

    /// The text items of every line that reached a turn's stdin.
    pub fn lines(&self) -> Vec<Vec<String>> {
        let texts = |line: &Value| {
            let items =
                line.pointer("/message/content").and_then(Value::as_array).cloned().unwrap_or_default();
            items.iter().filter_map(|item| Some(item["text"].as_str()?.to_owned())).collect()
        };
        let stdin = self.captured("stdin");
        let parsed = stdin.iter().filter_map(|line| serde_json::from_str(line["line"].as_str()?).ok());
        parsed.map(|line: Value| texts(&line)).collect()
    }
}
