//! Prepares a recorded stream for playing: other ids in the places of the recorded ones.

use std::collections::VecDeque;

use serde_json::Value;

/// What to do with the next record of a recording.
pub(super) enum Next {
    /// Print it.
    Print(String),
    /// A recorded stdin line was taken here; give the id of the line that stands for it.
    NeedLine(String),
    /// Nothing is left; whether the last result was an error.
    End { last_error: bool },
}

/// A recorded stream on its way out.
pub(super) struct Recording {
    lines: VecDeque<String>,
    replacements: Vec<(String, String)>,
    last_error: bool,
}

impl Recording {
    /// The recording `text`, played for `session`.
    pub(super) fn new(text: &str, session: &str) -> Recording {
        let lines: VecDeque<String> = text.lines().filter(|line| !is_meta(line)).map(str::to_owned).collect();
        let recorded = lines.iter().find_map(|line| member(line, "session_id"));
        let replacements = recorded.into_iter().map(|old| (old, session.to_owned())).collect();
        Recording { lines, replacements, last_error: false }
    }

    /// Names the line that stands for the recorded one.
    pub(super) fn stand_in(&mut self, recorded: String, uuid: String) {
        self.replacements.push((recorded, uuid));
    }

    /// The next thing to do.
    pub(super) fn next(&mut self) -> Next {
        let Some(line) = self.lines.pop_front() else { return Next::End { last_error: self.last_error } };
        let record: Value = serde_json::from_str(&line).unwrap_or_default();
        let taken = record["type"] == "command_lifecycle" && record["state"] == "queued";
        if let Some(uuid) = record["command_uuid"].as_str().filter(|_| taken) {
            // The record itself was printed when the line came in.
            return Next::NeedLine(uuid.to_owned());
        }
        if record["type"] == "result" {
            self.last_error = record["is_error"] == true && record["subtype"] != "error_during_execution";
        }
        Next::Print(self.replaced(&line))
    }

    fn replaced(&self, line: &str) -> String {
        self.replacements.iter().fold(line.to_owned(), |line, (old, new)| line.replace(old, new))
    }
}

fn is_meta(line: &str) -> bool {
    member(line, "type").is_some_and(|kind| kind == "fixture_meta")
}

fn member(line: &str, name: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    record[name].as_str().map(str::to_owned)
}
