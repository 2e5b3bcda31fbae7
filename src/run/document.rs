//! The run document as this run thread writes it: what is to be said, how often, and from which version.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::live_box;
use crate::sdk::bound::{Bound, RunError, current_version};
use crate::sdk::patch::{PatchFault, RunPatcher};
use crate::sdk::wire::problem::code;

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

    /// Sends what is due. Once, and once more from the version the server names.
    pub fn flush(&mut self, bound: &Bound, now: Instant) {
        for _ in 0..2 {
            let Some(patch) = self.patcher.due(now) else { return };
            match bound.patch_run(&patch) {
                Ok(answer) => return self.patcher.sent(answer.version),
                Err(RunError::Problem(problem)) if problem.is(code::BASE_VERSION_CONFLICT) => {
                    self.patcher.conflict(current_version(&problem).unwrap_or_default());
                }
                Err(error) => {
                    self.ended |= matches!(error, RunError::Ended);
                    log::debug!("code=patch_failed error={}", error.code());
                    return self.patcher.failed();
                }
            }
        }
    }

    /// Sends everything now, whatever the interval, before the run ends.
    pub fn flush_all(&mut self, bound: &Bound) {
        let later = self.next_due();
        self.flush(bound, later.unwrap_or_else(Instant::now));
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
