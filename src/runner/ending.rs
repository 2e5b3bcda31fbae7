//! How a runner ends: a signal stops it, another runner with the same consumer makes it give up.

use std::time::Instant;

use super::status::Phase;
use super::{Runner, RunnerFault};
use crate::sys::signals::SignalSeen;

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
