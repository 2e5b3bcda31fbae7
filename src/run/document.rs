//! The run document as this run thread writes it: what is to be said, how often, and from which version.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use serde_json::Value;

use super::live_box;
use crate::sdk::bound::{Bound, RunError, current_version};
use crate::sdk::patch::{PatchFault, RunPatcher};
use crate::sdk::wire::problem::code;
use crate::sdk::wire::run::{RunPatch, Versioned};

/// How often the last patches of a run are made again on top of another version: somebody who writes all the time
/// must not keep a run from ending.
const MOST_CONFLICTS: u32 = 3;

/// How a patch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The server has it.
    Taken,
    /// The document has another version than the patch; the next one is made for that.
    OtherVersion,
    /// It did not get through, or nobody knows; it is kept.
    Failed,
}

/// The run document. A patch that cannot be sent is kept and sent later; it never ends a run.
pub struct Document {
    patcher: RunPatcher,
    ended: bool,
}

impl Document {
    /// A document of unknown version, patched at most every `min_interval`. The first patch of an unknown
    /// version is answered with the version there is.
    pub fn new(min_interval: Duration) -> Document {
        Document { patcher: RunPatcher::new(0, min_interval), ended: false }
    }

    /// Says that the document has this version.
    pub fn at_version(&mut self, version: i64) {
        self.patcher.conflict(version);
    }

    /// Sets a path.
    pub fn set(&mut self, path: &str, value: Value) {
        report(self.patcher.set(path, value));
    }

    /// Takes a path away.
    pub fn remove(&mut self, path: &str) {
        report(self.patcher.remove(path));
    }

    /// When the next patch may go, if there is one.
    pub fn next_due(&self) -> Option<Instant> {
        self.patcher.next_due(Instant::now())
    }

    /// Whether the server said that the run has ended.
    pub fn run_ended(&self) -> bool {
        self.ended
    }

    /// The patch that is due at `now`, if there is one. Until its end is told by [`Document::answered`] there
    /// is no other.
    pub fn due(&mut self, now: Instant) -> Option<RunPatch> {
        self.patcher.due(now)
    }

    /// How the patch ended.
    pub fn answered(&mut self, result: Result<Versioned, RunError>) -> Answered {
        match result {
            Ok(answer) => {
                self.patcher.sent(answer.version);
                Answered::Taken
            }
            Err(RunError::Problem(problem)) if problem.is(code::BASE_VERSION_CONFLICT) => {
                self.patcher.conflict(current_version(&problem).unwrap_or_default());
                Answered::OtherVersion
            }
            Err(error) => {
                self.ended |= matches!(error, RunError::Ended);
                log::debug!("code=patch_failed error={}", error.code());
                self.patcher.failed();
                Answered::Failed
            }
        }
    }

    /// Sends what is due, and waits for the answer.
    pub fn flush(&mut self, bound: &Bound, now: Instant) {
        if let Some(patch) = self.due(now) {
            self.answered(bound.patch_run(&patch));
        }
    }

    /// Does `work`, which does not touch the document, while a thread beside it sends what becomes due: people see what
    /// a run does also while the server takes its time for another request.
    pub fn sent_beside<T>(&mut self, bound: &Bound, work: impl FnOnce() -> T) -> T {
        let (end, ended) = bounded(0);
        std::thread::scope(|scope| {
            let name = format!("patch-{}", std::thread::current().name().unwrap_or_default());
            let send = || self.send_until(bound, &ended);
            // Where the system gives no thread, the patches go after the work.
            let _beside = std::thread::Builder::new().name(name).spawn_scoped(scope, send);
            let done = work();
            drop(end);
            done
        })
    }

    /// Sends what is due and what becomes due, until nothing is left or the sender of `ended` is gone.
    fn send_until(&mut self, bound: &Bound, ended: &Receiver<()>) {
        loop {
            self.flush(bound, Instant::now());
            let Some(due) = self.next_due() else { return };
            if ended.recv_deadline(due) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Sends everything now, whatever the interval, before the run ends; once more from each version that the
    /// server names, but not for ever.
    pub fn flush_all(&mut self, bound: &Bound) {
        let mut conflicts = 0;
        while let Some(patch) = self.patcher.flush(Instant::now()) {
            match self.answered(bound.patch_run(&patch)) {
                Answered::Taken => {}
                Answered::OtherVersion if conflicts < MOST_CONFLICTS => conflicts += 1,
                Answered::OtherVersion | Answered::Failed => return,
            }
        }
    }
}

/// A path that is none of the document's is a fault of the caller and of no consequence for the run.
fn report(result: Result<(), PatchFault>) {
    if let Err(fault) = result {
        log::error!("code=patch_path_refused fault={}", fault.code());
    }
}

impl live_box::Document for Document {
    fn set(&mut self, path: &str, value: Value) {
        Document::set(self, path, value);
    }

    fn remove(&mut self, path: &str) {
        Document::remove(self, path);
    }
}
