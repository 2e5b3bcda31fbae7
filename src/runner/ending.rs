//! How a runner ends: a signal stops it, another runner with the same consumer or the loss of its state directory
//! makes it give up.

use std::time::{Duration, Instant};

use super::status::Phase;
use super::{Runner, RunnerFault};
use crate::sys::signals::SignalSeen;

/// Time without a superseded poll after which there is no other runner: longer than one that waits with its retries
/// stays away.
const PEACE_AFTER: Duration = Duration::from_secs(60);

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

    /// Without its state directory a runner can keep no promise, and another one could take the directory's name.
    pub(super) fn check_state_dir(&self) -> Result<(), RunnerFault> {
        if self.state_lock.is_lost(&self.shared.state.runner_lock()) {
            return Err(RunnerFault::StateDirLost);
        }
        Ok(())
    }

    pub(super) fn on_superseded(&mut self) {
        let now = Instant::now();
        match self.duel.superseded(now) {
            None => self.beat(),
            Some(long) if long >= self.superseded_limit => self.due.superseded.set(now),
            Some(_) => {}
        }
    }

    pub(super) fn check_superseded(&mut self, now: Instant) -> Result<(), RunnerFault> {
        if self.due.superseded.take_if_due(now) && self.table.turns() == 0 {
            return Err(RunnerFault::Superseded);
        }
        Ok(())
    }
}

/// Two runners that take the poll from each other by turns. An answer in between is no peace, because each gets some.
///
/// Only a poll that was superseded makes a runner give up, so that of the two one stays.
#[derive(Debug, Default)]
pub(super) struct Duel {
    /// When a poll was first superseded, and when last.
    superseded: Option<(Instant, Instant)>,
}

impl Duel {
    /// Whether another runner polls.
    pub(super) fn is_on(&self) -> bool {
        self.superseded.is_some()
    }

    /// A poll was superseded: for how long that has been going on, nothing for the first one.
    fn superseded(&mut self, now: Instant) -> Option<Duration> {
        let first = self.superseded.map(|(first, _)| first);
        self.superseded = Some((first.unwrap_or(now), now));
        first.map(|first| now.duration_since(first))
    }

    /// A poll was answered: whether that ends the duel.
    pub(super) fn answered(&mut self, now: Instant) -> bool {
        let ends = self.superseded.is_some_and(|(_, last)| now.duration_since(last) >= PEACE_AFTER);
        if ends {
            self.superseded = None;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_without_a_superseded_poll_ends_a_duel() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut duel = Duel::default();
        assert!(!duel.answered(begin) && !duel.is_on());
        assert_eq!(duel.superseded(at(1)), None);
        assert!(!duel.answered(at(26)));
        assert_eq!(duel.superseded(at(50)), Some(Duration::from_secs(49)));
        assert!(!duel.answered(at(75)) && duel.is_on());
        assert!(duel.answered(at(110)) && !duel.is_on());
        assert_eq!(duel.superseded(at(111)), None, "a new one");
    }
}
