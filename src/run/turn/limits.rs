//! The clocks of a turn: how long it may take, how long it may be silent, how long it may stay after its end.

use std::time::{Duration, Instant};

use super::Turn;
use crate::run::Run;
use crate::run::end::{Cause, End};
use crate::sdk::wire::Time;

/// What the person reads when a turn took too long.
const TOO_LONG: &str = "The turn took longer than is allowed here and was stopped. What it did so far stays.";

/// What the person reads when a turn hung.
const TOO_SILENT: &str =
    "The turn showed no sign of life for too long and was stopped. What it did so far stays.";

/// Monotonic clocks of one turn; the wall clock only says how long an adopted turn ran before.
pub struct Clock {
    begun: Instant,
    /// How long the turn had run when this runner began to follow it.
    before: Duration,
    last_line: Instant,
    finished_since: Option<Instant>,
    background_since: Option<Instant>,
    stdin_closed_at: Option<Instant>,
}

impl Clock {
    /// A turn that was begun at `begun`, by this runner or a former one.
    pub fn begin(begun: Time) -> Clock {
        let now = Instant::now();
        let before = Time::now().as_millis().saturating_sub(begun.as_millis());
        Clock {
            begun: now,
            before: Duration::from_millis(u64::try_from(before).unwrap_or(0)),
            last_line: now,
            finished_since: None,
            background_since: None,
            stdin_closed_at: None,
        }
    }

    /// The process printed a line.
    pub fn line(&mut self, now: Instant) {
        self.last_line = now;
    }

    /// For how long nothing has been left to wait for.
    pub fn finished_for(&mut self, finished: bool, now: Instant) -> Option<Duration> {
        time_in(&mut self.finished_since, finished, now)
    }

    /// For how long only work beside the turn has been left.
    pub fn background_for(&mut self, waiting: bool, now: Instant) -> Option<Duration> {
        time_in(&mut self.background_since, waiting, now)
    }

    /// The process gets no more lines and should leave.
    pub fn stdin_closed(&mut self, now: Instant) {
        self.stdin_closed_at.get_or_insert(now);
    }

    /// A new process begins.
    pub fn process_started(&mut self) {
        *self = Clock { before: self.before + self.begun.elapsed(), ..Clock::begin(Time::now()) };
    }

    fn running_for(&self) -> Duration {
        self.before.saturating_add(self.begun.elapsed())
    }

    fn overstays(&self, grace: Duration) -> bool {
        self.stdin_closed_at.is_some_and(|at| at.elapsed() >= grace)
    }
}

fn time_in(since: &mut Option<Instant>, holds: bool, now: Instant) -> Option<Duration> {
    if !holds {
        *since = None;
        return None;
    }
    Some(now.duration_since(*since.get_or_insert(now)))
}

/// Decides the end of a turn that has used up its time, or that does not leave (R-6, C1-07).
pub fn look(run: &Run, turn: &mut Turn) {
    let runner = &run.shared.config.runner;
    let silent_for = turn.clock.last_line.elapsed();
    let may_be_silent = turn.progress.tools_running() || turn.progress.waits_for_background();
    let end = if turn.clock.overstays(runner.stop_grace) {
        log::warn!("code=turn_overstayed run={}", run.run_id);
        Some(super::outcome::of_progress(turn))
    } else if turn.clock.running_for() >= runner.turn_time_limit {
        Some(End::by(Cause::TurnTimeLimit).telling(TOO_LONG))
    } else if silent_for >= runner.turn_silence_limit && !may_be_silent && !turn.progress.finished() {
        Some(End::by(Cause::TurnSilenceLimit).telling(TOO_SILENT))
    } else {
        None
    };
    turn.decided = turn.decided.take().or(end);
}
