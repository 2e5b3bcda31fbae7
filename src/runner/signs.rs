//! What the runner shows of itself on its own machine: the status file, and the words for the service manager.
//!
//! Every sign comes from the main thread between two events, so that a main thread that is stuck gives none: that
//! is what a watchdog is for. No sign can stop the runner; one that cannot be given is logged once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Runner;
use super::status::{Facts, RunStatus, STATUS_VERSION, Status, Step};
use crate::sdk::wire::Time;
use crate::sys::atomic_file;
use crate::sys::service_manager::ServiceManager;

/// What was shown last, and where.
pub(super) struct Signs {
    file: PathBuf,
    manager: ServiceManager,
    started_at: Time,
    last_contact_at: Option<Time>,
    degraded_reasons: Vec<String>,
    shown: Option<Status>,
    /// Something is to be shown although no fact has changed.
    fresh: bool,
    failed: bool,
}

impl Signs {
    /// For the status file `file` and this service manager.
    pub fn new(file: PathBuf, manager: ServiceManager) -> Signs {
        Signs {
            file,
            manager,
            started_at: Time::now(),
            last_contact_at: None,
            degraded_reasons: Vec::new(),
            shown: None,
            fresh: false,
            failed: false,
        }
    }

    /// Says `state` to the service manager.
    pub fn tell(&self, state: &str) {
        self.manager.tell(state);
    }

    /// The server has answered.
    pub fn contact(&mut self) {
        self.last_contact_at = Some(Time::now());
        self.fresh = true;
    }

    /// What the newest heartbeat complains of.
    pub fn degraded(&mut self, reasons: &[String]) {
        self.degraded_reasons = reasons.to_vec();
    }

    /// Shows `facts` where they have changed, after an answer of the server, and at the latest every `interval`.
    fn show(&mut self, facts: Facts, interval: Duration) {
        let now = Time::now();
        let known = self.shown.as_ref();
        let changed = known.is_none_or(|shown| shown.facts != facts);
        if !changed && !self.fresh && known.is_some_and(|shown| now < shown.next_by) {
            return;
        }
        if changed {
            self.manager.tell(&format!("STATUS={}", facts.line()));
        }
        let next_by = now.as_millis().saturating_add(i64::try_from(interval.as_millis()).unwrap_or(i64::MAX));
        let status = Status {
            facts,
            written_at: now,
            next_by: Time::from_millis(next_by),
            last_contact_at: self.last_contact_at,
        };
        self.write(&status);
        self.fresh = false;
        self.shown = Some(status);
    }

    fn write(&mut self, status: &Status) {
        let bytes = serde_json::to_vec(status).unwrap_or_default();
        let written = atomic_file::show(&self.file, &bytes);
        if let (Err(fault), false) = (&written, self.failed) {
            log::warn!("code=status_not_written error={:?}", fault.kind());
        }
        self.failed = written.is_err();
    }
}

impl Runner {
    /// Gives every sign that is due. Called once for each turn of the main loop and nowhere else.
    pub(super) fn give_signs(&mut self) {
        let facts = self.facts();
        self.signs.show(facts, self.heartbeat_interval);
        let Some(interval) = self.signs.manager.life_interval() else { return };
        let now = Instant::now();
        if self.due.life.take_if_due(now) || self.due.life.is_unset() {
            self.signs.tell("WATCHDOG=1");
            self.due.life.set(now + interval);
        }
    }

    fn facts(&self) -> Facts {
        let probed = self.shared.runtime.last().and_then(|probed| probed.version);
        Facts {
            status_version: STATUS_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: self.signs.started_at,
            phase: self.phase,
            runtime_version: probed.map(|version| version.to_string()),
            degraded_reasons: self.signs.degraded_reasons.clone(),
            slots: self.slots.limit(),
            parked: self.parked.len(),
            runs: self.runs(),
        }
    }

    fn runs(&self) -> Vec<RunStatus> {
        let ahead: std::collections::HashMap<_, _> = self.slots.ahead().collect();
        let row = |(run_id, handle): (&uuid::Uuid, &super::table::RunHandle)| {
            let ahead = ahead.get(run_id).copied();
            let step = match (handle.turn_lives, ahead) {
                (true, _) => Step::Turn,
                (false, Some(_)) => Step::Queued,
                (false, None) => Step::AtWork,
            };
            RunStatus { run_id: *run_id, step, since: handle.since, ahead }
        };
        self.table.iter().map(row).collect()
    }
}
