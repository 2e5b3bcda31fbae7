//! The lines that were sent to the process and what became of each.

use crate::claude::message::LifecycleState;

/// What a sent line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The message that started the run.
    First,
    /// The follow-up with this id.
    Followup(String),
    /// The one `/compact`.
    Compact,
}

/// The states of a follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The process has the line; not final.
    Delivered,
    /// It has a result of its own.
    Answered,
    /// It became part of another result, or of none.
    Absorbed,
    /// The process never read it.
    Refused,
}

#[derive(Debug)]
struct Line {
    uuid: String,
    purpose: Purpose,
    queued: bool,
    started: bool,
    ended: bool,
    /// Whether a result named it.
    named: bool,
    /// Whether its follow-up has its final state.
    settled: bool,
    /// Whether it was sent again under another uuid.
    replaced: bool,
}

impl Line {
    fn followup(&self) -> Option<&str> {
        match &self.purpose {
            Purpose::Followup(id) if !self.settled && !self.replaced => Some(id),
            _ => None,
        }
    }

    fn settle(&mut self, fate: Fate) -> Option<(String, Fate)> {
        let id = self.followup()?.to_owned();
        self.settled = true;
        Some((id, fate))
    }
}

/// All of them, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    pub(super) fn add(&mut self, uuid: &str, purpose: Purpose) {
        if !self.knows(uuid) {
            self.0.push(Line {
                uuid: uuid.to_owned(),
                purpose,
                queued: false,
                started: false,
                ended: false,
                named: false,
                settled: false,
                replaced: false,
            });
        }
    }

    pub(super) fn replace(&mut self, old: &str, new: &str) {
        let Some(line) = self.find(old) else { return };
        line.replaced = true;
        line.ended = true;
        let (purpose, queued, settled) = (line.purpose.clone(), line.queued, line.settled);
        self.add(new, purpose);
        if let Some(line) = self.find(new) {
            // What was said about the follow-up is not said twice.
            line.queued = queued;
            line.settled = settled;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn knows(&self, uuid: &str) -> bool {
        self.0.iter().any(|line| line.uuid == uuid)
    }

    fn find(&mut self, uuid: &str) -> Option<&mut Line> {
        self.0.iter_mut().find(|line| line.uuid == uuid)
    }

    /// Whether these are the `/compact` and nothing else.
    pub(super) fn is_compact(&self, uuids: &[String]) -> bool {
        !uuids.is_empty()
            && uuids
                .iter()
                .all(|uuid| self.0.iter().any(|line| line.uuid == *uuid && line.purpose == Purpose::Compact))
    }

    pub(super) fn any_started(&self) -> bool {
        self.0.iter().any(|line| line.started || line.ended)
    }

    pub(super) fn all_ended(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|line| line.ended)
    }

    pub(super) fn on_lifecycle(&mut self, uuid: &str, state: LifecycleState) -> Option<(String, Fate)> {
        let line = self.find(uuid)?;
        match state {
            LifecycleState::Queued => {
                let new = !std::mem::replace(&mut line.queued, true);
                line.followup().filter(|_| new).map(|id| (id.to_owned(), Fate::Delivered))
            }
            LifecycleState::Started => {
                line.started = true;
                None
            }
            LifecycleState::Completed => {
                line.ended = true;
                if line.named { None } else { line.settle(Fate::Absorbed) }
            }
            // A result can still come; the end of the process decides.
            LifecycleState::Cancelled => {
                line.started = true;
                line.ended = true;
                None
            }
        }
    }

    /// A result names these lines; `settle` says whether their follow-ups get their final state.
    pub(super) fn on_result(&mut self, uuids: &[String], settle: bool) -> Vec<(String, Fate)> {
        let fate = if uuids.len() == 1 { Fate::Answered } else { Fate::Absorbed };
        let mut fates = Vec::new();
        for line in self.0.iter_mut().filter(|line| uuids.contains(&line.uuid)) {
            line.named = true;
            if settle {
                fates.extend(line.settle(fate));
            }
        }
        fates
    }

    /// No further message comes; `stopped` says whether the runner stopped the run.
    pub(super) fn end(&mut self, stopped: bool) -> Vec<(String, Fate)> {
        let fate =
            |line: &Line| if stopped || line.started || line.named { Fate::Absorbed } else { Fate::Refused };
        self.0
            .iter_mut()
            .filter_map(|line| {
                let fate = fate(line);
                line.settle(fate)
            })
            .collect()
    }
}
