//! Replays a recording: reader, messages, progress, usage and live document together, as a turn does, without a run.
//!
//! For golden files and for measuring.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Document, LiveBox, Mask, Sink};
use crate::claude::message::{Message, parse};
use crate::claude::progress::{Effect, Progress, Purpose};
use crate::claude::stream::{Line, LineReader};
use crate::claude::usage::Usage;
use crate::sdk::wire::Time;
use crate::sdk::wire::run::StepStatus;

/// What a recording gave.
#[derive(Default)]
pub struct Replay {
    /// The final values of the run document, by path.
    pub document: BTreeMap<String, Value>,
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
    /// Operations on the document.
    pub operations: u64,
}

impl Replay {
    /// The document as one JSON object.
    pub fn document_json(&self) -> Value {
        let mut root = Map::new();
        for (path, value) in &self.document {
            let mut names = path.trim_start_matches('/').splitn(2, '/');
            let (first, second) = (names.next().unwrap_or_default(), names.next());
            match second {
                None => root.insert(first.to_owned(), value.clone()),
                Some(second) => match root.entry(first).or_insert_with(|| Map::new().into()) {
                    Value::Object(members) => members.insert(second.to_owned(), value.clone()),
                    _ => None,
                },
            };
        }
        root.into()
    }

    fn take(&mut self, live: &mut LiveBox, line: Line<'_>, now: Time, mask: Mask<'_>) {
        let Line::Record(record) = line else {
            self.too_long += 1;
            return;
        };
        let Some(message) = parse(record) else {
            self.noise += 1;
            return;
        };
        self.lines += 1;
        live.on(&message, &mut Sink { document: self, mask, now });
        self.usage.on(&message);
        // The first line that the process takes is the run's message, each other one a follow-up.
        if let Message::Lifecycle { uuid, .. } = &message {
            let first = self.progress.lines_sent() == 0;
            let purpose = if first { Purpose::First } else { Purpose::Followup(uuid.clone()) };
            self.progress.sent(uuid, purpose);
        }
        self.effects.extend(self.progress.on(message));
    }
}

impl Document for Replay {
    fn set(&mut self, path: &str, value: Value) {
        self.operations += 1;
        self.document.insert(path.to_owned(), value);
    }

    fn remove(&mut self, path: &str) {
        self.operations += 1;
        self.document.remove(path);
    }
}

/// Replays a recording of one process to its end. `now` stands for the time of lines without one.
///
/// # Errors
/// What reading the file gives.
pub fn replay(
    file: &mut impl Read,
    limit: u64,
    run_id: Uuid,
    now: Time,
    mask: Mask<'_>,
) -> io::Result<Replay> {
    let mut replay = Replay::default();
    let mut live = LiveBox::new(run_id, true);
    let mut reader = LineReader::new(limit);
    while reader.fill(file)? > 0 {
        while let Some(line) = reader.next_line() {
            replay.take(&mut live, line, now, mask);
        }
    }
    reader.finish(|line| replay.take(&mut live, line, now, mask));
    let ended = replay.progress.process_ended();
    replay.effects.extend(ended);
    live.end(StepStatus::Cancelled, &mut Sink { document: &mut replay, mask, now });
    Ok(replay)
}
