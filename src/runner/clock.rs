//! What the main thread has to do at a certain time.

use std::time::{Duration, Instant};

/// First wait of a series that grows.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Longest wait of a series: short enough that a server that is back is noticed soon.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How often runs that wait for a newer token are looked at.
pub const PARKED_LOOK: Duration = Duration::from_secs(60);

/// Longest sleep of the main thread when nothing is due.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// One moment, or none, with a wait that grows from failure to failure.
#[derive(Default)]
pub struct Moment {
    at: Option<Instant>,
    failures: u32,
}

impl Moment {
    /// Sets the moment.
    pub fn set(&mut self, at: Instant) {
        self.at = Some(at);
    }

    /// Sets the moment unless there is an earlier one.
    pub fn set_no_later(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |set| set.min(at)));
    }

    /// Whether the moment has come.
    pub fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// Whether there is no moment.
    pub fn is_unset(&self) -> bool {
        self.at.is_none()
    }

    /// Whether the moment has come; it is then taken away.
    pub fn take_if_due(&mut self, now: Instant) -> bool {
        let due = self.is_due(now);
        if due {
            self.at = None;
        }
        due
    }

    /// Sets the moment after one more failure and says how long the wait is.
    pub fn grow(&mut self) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let wait = doubled.min(LONGEST_WAIT);
        self.set(Instant::now() + wait);
        wait
    }

    /// Forgets the failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Every moment the main thread waits for.
#[derive(Default)]
pub struct Due {
    /// Connect again.
    pub connect: Moment,
    /// Send a heartbeat.
    pub heartbeat: Moment,
    /// Poll once without a position, to see unacknowledged events again.
    pub poll_anew: Moment,
    /// Poll after an answer that a poll at once would only bring again.
    pub poll: Moment,
    /// Try refusals again.
    pub refusals: Moment,
    /// Load channels again whose load failed.
    pub channels: Moment,
    /// Ask again for the state of open runs.
    pub lost: Moment,
    /// Look at runs that have no thread for now.
    pub parked: Moment,
    /// Give up because of another runner.
    pub superseded: Moment,
    /// Stop waiting for run threads.
    pub stop: Moment,
    /// Tell the service manager that this thread gets on.
    pub life: Moment,
}

impl Due {
    /// How long the main thread may sleep.
    pub fn wait(&self) -> Duration {
        let all = [
            &self.connect,
            &self.heartbeat,
            &self.poll_anew,
            &self.poll,
            &self.refusals,
            &self.channels,
            &self.lost,
            &self.parked,
            &self.superseded,
            &self.stop,
            &self.life,
        ];
        let next = all.iter().filter_map(|moment| moment.at).min();
        next.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_again() {
        let mut moment = Moment::default();
        let waits: Vec<_> = (0..40).map(|_| moment.grow()).collect();
        assert!(waits.is_sorted() && waits[0] == FIRST_WAIT && waits[39] == LONGEST_WAIT);
        moment.reset();
        assert_eq!(moment.grow(), FIRST_WAIT);
    }

    #[test]
    fn a_moment_that_may_only_come_sooner_is_never_put_off() {
        let (mut moment, now) = (Moment::default(), Instant::now());
        moment.set_no_later(now);
        moment.set_no_later(now + LONGEST_WAIT);
        assert!(moment.is_due(now));
    }

    #[test]
    fn a_moment_is_taken_once() {
        let mut moment = Moment::default();
        let now = Instant::now();
        assert!(!moment.take_if_due(now));
        moment.set(now);
        assert!(moment.take_if_due(now) && !moment.take_if_due(now));
    }
}
