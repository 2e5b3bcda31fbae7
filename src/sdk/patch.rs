//! The live run document: what shall be in it, and which patch to send next.
//!
//! Pure state: no thread, no clock, no HTTP. The caller sends what [`RunPatcher::due`] gives and tells how it
//! ended. Must not know what a step or a status line means.
//!
//! Set semantics carry it: an operation says what a path shall hold, whatever it held before, so a patch whose
//! answer was lost is repeated, and after a conflict the same operations go on top of the newer version.

mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

use super::wire::run::{PatchKind, PatchOp, RunPatch};
use waiting::{Taken, Waiting};

/// The most operations in one patch: keeps a request small after a long outage; the rest goes with the next.
pub const MAX_OPS_PER_PATCH: usize = 100;
/// The longest name of a metric; the contract's are shorter.
const METRIC_NAME_MAX: usize = 64;
/// Where the steps are.
const STEPS: &str = "/steps/";
/// Paths that are complete as they are.
const FIXED_PATHS: &[&str] = &["/model", "/grant_revision", "/status_line", "/last_text_excerpt"];

/// Why an operation is none on a run document; a fault of this program, never of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFault {
    /// The path is not in the contract.
    Path,
    /// A member of the value is `null` (contract, "Common rules").
    Null,
    /// `add` or `replace` without a value, or `remove` with one.
    Shape,
}

impl PatchFault {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Path => "patch_path_unknown",
            Self::Null => "patch_value_null",
            Self::Shape => "patch_shape_wrong",
        }
    }
}

impl fmt::Display for PatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => write!(f, "the run document has no such path"),
            Self::Null => write!(f, "a value of the run document is never null"),
            Self::Shape => write!(f, "an operation has a value exactly when it sets one"),
        }
    }
}

impl std::error::Error for PatchFault {}

/// What a path shall hold: a value, or nothing.
#[derive(Clone, Debug, PartialEq)]
struct Write {
    path: String,
    value: Option<Value>,
}

/// The patches of one run, one at a time.
#[derive(Debug)]
pub struct RunPatcher {
    base_version: i64,
    min_interval: Duration,
    last_attempt: Option<Instant>,
    /// Not yet sent.
    pending: Waiting,
    /// Sent, the answer is not known.
    in_flight: Option<Taken>,
    /// What the server confirmed of the paths that every document has, to send nothing that it has; forgotten when
    /// somebody else wrote. Steps come and go without end and each says a thing once, so they are not kept.
    confirmed: BTreeMap<String, Option<Value>>,
}

impl RunPatcher {
    /// Patches on top of `base_version`, at most one per `min_interval` (`agent.run_update_min_interval`).
    pub fn new(base_version: i64, min_interval: Duration) -> RunPatcher {
        RunPatcher {
            base_version,
            min_interval,
            last_attempt: None,
            pending: Waiting::default(),
            in_flight: None,
            confirmed: BTreeMap::new(),
        }
    }

    /// `path` shall hold `value`; the last call for a path wins.
    ///
    /// # Errors
    /// [`PatchFault`], and nothing changed, for a path that the run document does not have or a `null`.
    pub fn set(&mut self, path: &str, value: Value) -> Result<(), PatchFault> {
        if has_null(&value) {
            return Err(PatchFault::Null);
        }
        self.write(path, Some(value))
    }

    /// `path` shall hold nothing.
    ///
    /// # Errors
    /// [`PatchFault::Path`], and nothing changed, for a path that the run document does not have.
    pub fn remove(&mut self, path: &str) -> Result<(), PatchFault> {
        self.write(path, None)
    }

    /// The same by an operation of the wire.
    ///
    /// # Errors
    /// Those of [`RunPatcher::set`], and [`PatchFault::Shape`].
    pub fn apply(&mut self, op: &PatchOp) -> Result<(), PatchFault> {
        match (op.op, &op.value) {
            (PatchKind::Add | PatchKind::Replace, Some(value)) => self.set(&op.path, value.clone()),
            (PatchKind::Remove, None) => self.remove(&op.path),
            _ => Err(PatchFault::Shape),
        }
    }

    /// The next patch to send at `now`, if there is one and the interval has passed. Until its end is told
    /// by [`RunPatcher::sent`], [`RunPatcher::conflict`] or [`RunPatcher::failed`] there is no other.
    pub fn due(&mut self, now: Instant) -> Option<RunPatch> {
        if self.next_due(now)? > now { None } else { self.take(now) }
    }

    /// The next patch without regard to the interval: for the end of a run, until it gives nothing.
    pub fn flush(&mut self, now: Instant) -> Option<RunPatch> {
        if self.in_flight.is_some() { None } else { self.take(now) }
    }

    /// When [`RunPatcher::due`] will give a patch, `now` or later; nothing while there is none or one is on
    /// its way.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        if self.in_flight.is_some() || self.pending.is_empty() {
            return None;
        }
        match self.last_attempt {
            Some(last) => last.checked_add(self.min_interval).map(|due| due.max(now)),
            None => Some(now),
        }
    }

    /// Whether everything written has reached the server.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_none() && self.pending.is_empty()
    }

    /// The server took the patch; the document has `version` now.
    pub fn sent(&mut self, version: i64) {
        self.base_version = version;
        for (_, write) in self.in_flight.take().unwrap_or_default() {
            // Written again while the patch was on its way, to what it has brought.
            self.pending.forget_if(&write);
            if !write.path.starts_with(STEPS) {
                self.confirmed.insert(write.path, write.value);
            }
        }
    }

    /// The server answered `base_version_conflict` with its `current` version: the operations are kept and
    /// go on top of that one.
    pub fn conflict(&mut self, current: i64) {
        self.base_version = current;
        self.confirmed.clear();
        self.take_back();
    }

    /// The patch did not get through, or nobody knows: its operations are kept.
    pub fn failed(&mut self) {
        self.take_back();
    }

    fn write(&mut self, path: &str, value: Option<Value>) -> Result<(), PatchFault> {
        if !is_document_path(path) {
            return Err(PatchFault::Path);
        }
        if let Some(write) = self.pending.get_mut(path) {
            write.value = value;
        } else if self.expected(path) != Some(&value) {
            self.pending.push(Write { path: path.to_owned(), value });
        }
        Ok(())
    }

    /// What the server will hold at `path` if nothing more is sent, as far as that is known.
    fn expected(&self, path: &str) -> Option<&Option<Value>> {
        let flying = self.in_flight.iter().flatten().find(|(_, write)| write.path == path);
        flying.map(|(_, write)| &write.value).or_else(|| self.confirmed.get(path))
    }

    fn take(&mut self, now: Instant) -> Option<RunPatch> {
        if self.pending.is_empty() {
            return None;
        }
        let writes = self.pending.take(MAX_OPS_PER_PATCH);
        let ops = writes.iter().map(|(_, write)| operation(write)).collect();
        self.in_flight = Some(writes);
        self.last_attempt = Some(now);
        Some(RunPatch { base_version: self.base_version, ops })
    }

    /// Puts what was on its way back in front, except where a path was written again meanwhile.
    fn take_back(&mut self) {
        let writes = self.in_flight.take().unwrap_or_default();
        // Nobody knows what the server has there now.
        for (_, write) in &writes {
            self.confirmed.remove(&write.path);
        }
        self.pending.put_back(writes);
    }
}

fn operation(write: &Write) -> PatchOp {
    let op = if write.value.is_some() { PatchKind::Add } else { PatchKind::Remove };
    PatchOp { op, path: write.path.clone(), value: write.value.clone() }
}

/// Whether the run document of the contract has `path`.
pub fn is_document_path(path: &str) -> bool {
    if FIXED_PATHS.contains(&path) {
        return true;
    }
    if let Some(id) = path.strip_prefix(STEPS) {
        // Only the printed form: two spellings of one id would be two paths.
        return Uuid::parse_str(id).is_ok_and(|parsed| parsed.to_string() == id);
    }
    path.strip_prefix("/metrics/").is_some_and(is_metric_name)
}

fn is_metric_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= METRIC_NAME_MAX && name.bytes().all(known)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
