//! Replays a recording: reader, messages, progress, usage and live document together, as a turn does, without a run.
//!
//! For golden files and for measuring.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde_json::Value;
use uuid::Uuid;

use super::{Document, LiveBox, Sink};
use crate::claude::message::{Message, parse};
use crate::claude::progress::{Effect, Progress, Purpose};
use crate::claude::stream::{Line, LineReader};
use crate::claude::usage::Usage;
use crate::sdk::wire::run::StepStatus;

/// What a recording gave.
#[derive(Default)]
pub struct Replay {
    /// What the caller of `Progress` would have had to act on.
    pub effects: Vec<Effect>,
    /// How far the turns were at the end.
    pub progress: Progress,
    /// What they used.
    pub usage: Usage,
    /// Lines that are JSON objects.
    pub lines: u64,
    /// Lines that are not.
    pub noise: u64,
    /// Lines beyond the limit.
    pub too_long: u64,
}

impl Replay {
    fn take(&mut self, live: &mut LiveBox, line: Line<'_>, sink: &mut Sink<'_>) {
        let Line::Record(record) = line else {
            self.too_long += 1;
            return;
        };
        let Some(message) = parse(record) else {
            self.noise += 1;
            return;
        };
        self.lines += 1;
        live.on(&message, sink);
        self.usage.on(&message);
        live.used(self.usage.so_far(), sink);
        // The first line that the process takes is the run's message, each other one a follow-up.
        if let Message::Lifecycle { uuid, .. } = &message {
            let first = self.progress.lines_sent() == 0;
            let purpose = if first { Purpose::First } else { Purpose::Followup(uuid.clone()) };
            self.progress.sent(uuid, purpose);
        }
        self.effects.extend(self.progress.on(message));
    }
}

/// Keeps the newest value of each path.
impl Document for BTreeMap<String, Value> {
    fn set(&mut self, path: &str, value: Value) {
        self.insert(path.to_owned(), value);
    }

    fn remove(&mut self, path: &str) {
        BTreeMap::remove(self, path);
    }
}

/// Replays a recording of one process to its end into the document of `sink`; `sink.now` stands for the time of lines
/// without one. `limit` is the longest line, bytes.
///
/// # Errors
/// What reading the file gives.
pub fn replay(file: &mut impl Read, limit: u64, run_id: Uuid, sink: &mut Sink<'_>) -> io::Result<Replay> {
    let mut replay = Replay::default();
    let mut live = LiveBox::new(run_id, true);
    let mut reader = LineReader::new(limit);
    while reader.fill(file)? > 0 {
        while let Some(line) = reader.next_line() {
            replay.take(&mut live, line, sink);
        }
    }
    reader.finish(|line| replay.take(&mut live, line, sink));
    let ended = replay.progress.process_ended();
    replay.effects.extend(ended);
    live.end(StepStatus::Cancelled, sink);
    Ok(replay)
}
