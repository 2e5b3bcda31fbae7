//! How a runner begins and how it ends: the state directory is its own, a signal stops it, another runner with
//! the same consumer makes it give up.

use std::time::{Duration, Instant};

use super::status::Phase;
use super::{Runner, RunnerFault};
use crate::run::state_dir::StateDir;
use crate::sys::lock::FileLock;
use crate::sys::signals::SignalSeen;

/// Longest wait for the lock of the state directory: far longer than a fork takes to become a program.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// How often the lock is looked at meanwhile.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// Takes the state directory. A former runner that has just gone may live on for a moment in a child that it
/// was about to start, which holds the lock until its exec.
pub(super) fn own(state: &StateDir) -> std::io::Result<Option<FileLock>> {
    let begin = Instant::now();
    loop {
        let lock = FileLock::try_acquire(&state.runner_lock())?;
        if lock.is_some() || begin.elapsed() >= LOCK_PATIENCE {
            return Ok(lock);
        }
        std::thread::park_timeout(LOCK_LOOK);
    }
}

impl Runner {
    pub(super) fn on_signal(&mut self, seen: SignalSeen) {
        match seen {
            SignalSeen::Terminate | SignalSeen::Interrupt if self.phase == Phase::Stopping => {
                log::warn!("code=stopped_at_once");
                self.due.stop.set(Instant::now());
            }
            SignalSeen::Terminate | SignalSeen::Interrupt => self.begin_stop(),
            SignalSeen::Hangup => log::info!("code=hangup_ignored"),
        }
    }

    fn begin_stop(&mut self) {
        log::info!("code=runner_stopping runs={}", self.table.len());
        self.signs.tell("STOPPING=1");
        self.phase = Phase::Stopping;
        self.goodbye_said = self.heartbeats.is_none();
        self.beat();
        if let Some(gateway) = self.gateway.take() {
            gateway.stop();
        }
        for (_, handle) in self.table.iter() {
            handle.cancel.detach();
        }
        self.due.stop.set(Instant::now() + self.shared.config.runner.stop_grace);
    }

    pub(super) fn has_stopped(&self) -> bool {
        let done = self.table.is_empty() && self.goodbye_said;
        self.phase == Phase::Stopping && (done || self.due.stop.is_due(Instant::now()))
    }

    pub(super) fn on_superseded(&mut self) {
        let now = Instant::now();
        if self.superseded_since.is_none() {
            self.superseded_since = Some(now);
            self.due.superseded.set(now + self.superseded_limit);
            self.beat();
        }
    }

    pub(super) fn check_superseded(&mut self, now: Instant) -> Result<(), RunnerFault> {
        let limit = self.superseded_limit;
        let long = self.superseded_since.is_some_and(|since| now.duration_since(since) >= limit);
        if long && self.table.turns() == 0 {
            return Err(RunnerFault::Superseded);
        }
        Ok(())
    }
}
