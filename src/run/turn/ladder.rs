//! How a turn is ended from outside: close stdin, SIGINT, SIGTERM, SIGKILL, each with its grace, to the
//! whole group; then whatever else the turn left behind (R-10, turn-paths "Stop").
//!
//! Idempotent: a runner that dies on a step leaves a record that says so, and its successor begins anew.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Turn, read};
use crate::run::Run;
use crate::run::end::{Cause, End};
use crate::run::turn::process;
use crate::sys::fault::one_word;
use crate::sys::process::{Signal, end_by_env};
use crate::sys::wait::{self, Interest};

/// Longest wait for a process after SIGKILL; only an uninterruptible device keeps one longer.
const KILLED_WAIT: Duration = Duration::from_secs(10);

/// Ends the process of the turn, if there is one, and reads what it still says for the costs.
///
/// # Errors
/// [`Cause::Detached`] when the runner stops meanwhile: its successor goes on.
pub fn end_turn(run: &mut Run, turn: &mut Turn) -> Result<(), End> {
    if run.live.is_some() {
        mark_signalled(run);
        let (stop_grace, kill_grace) =
            (run.shared.config.runner.stop_grace, run.shared.config.runner.kill_grace);
        let steps =
            [(Signal::SIGINT, stop_grace), (Signal::SIGTERM, kill_grace), (Signal::SIGKILL, KILLED_WAIT)];
        for (signal, grace) in steps {
            step(run, signal);
            if wait_for_end(run, grace)? {
                break;
            }
        }
        turn.exit = run.live.as_ref().and_then(|live| live.ended().ok().flatten());
    }
    clear_away(run);
    read::rest(run, turn);
    Ok(())
}

/// Ends what is left of a turn that has ended by itself, or that can no longer be followed: its group, and
/// whatever of it lives in a session of its own, also when the process itself ended under a former runner.
pub fn clear_away(run: &mut Run) {
    let entry = process::tmpdir_entry(run);
    if let Some(live) = run.live.take()
        && let Err(fault) = live.end_group()
    {
        log::error!("code=turn_not_cleared run={} error={}", run.run_id, one_word(&fault));
        run.locks.leave();
    }
    if let Some(since) = run.leftovers_since.take() {
        let ended = end_by_env(&entry, since);
        if ended > 0 {
            log::warn!("code=leftovers_ended run={} count={ended}", run.run_id);
        }
    }
}

/// From here on no result is an answer, in this life of the runner or the next.
fn mark_signalled(run: &mut Run) {
    let marked = run.record.as_mut().map(|record| record.update(|record| record.signalled = true));
    if let Some(Err(fault)) = marked {
        // The stop must not fail for a full disk.
        log::error!("code=state_file_failed run={} error={}", run.run_id, one_word(&fault));
    }
}

fn step(run: &mut Run, signal: Signal) {
    let Some(live) = &mut run.live else { return };
    live.close_stdin();
    let sent = live.signal(signal);
    log::info!(
        "code=turn_signalled run={} signal={} failed={}",
        run.run_id,
        signal as i32,
        u8::from(sent.is_err())
    );
}

/// Waits until the process has ended, at most `grace`.
fn wait_for_end(run: &mut Run, grace: Duration) -> Result<bool, End> {
    let deadline = Instant::now() + grace;
    loop {
        let Some(live) = &run.live else { return Ok(true) };
        if !matches!(live.ended(), Ok(None)) {
            return Ok(true);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        if run.cancel.detached() {
            return Err(End::by(Cause::Detached));
        }
        let fds = [(live.as_fd(), Interest::Read), (run.wakeup_fd(), Interest::Read)];
        if wait::wait(&fds, left).is_err() {
            return Ok(false);
        }
        run.wakeup.drain();
    }
}
