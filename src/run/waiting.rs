//! A run that waits before its start: for its locks, for its slot. It shows its place, refuses
//! messages it cannot take, and ends at once when told.

use std::time::{Duration, Instant};

use super::end::End;
use super::{Command, Run, RunSays, followup};
use crate::sdk::wire::run::FollowupState;

/// Path of the line that people see.
pub const STATUS_LINE: &str = "/status_line";

/// Waits at most `time` for something to happen and answers what was said.
///
/// # Errors
/// The end that was asked for meanwhile.
pub fn pause(run: &mut Run, time: Duration) -> Result<(), End> {
    run.pause(time)?;
    hear(run)?;
    show(run);
    Ok(())
}

/// Waits for a slot of `runner.max_parallel_runs`.
///
/// # Errors
/// The end that was asked for meanwhile.
pub fn for_slot(run: &mut Run) -> Result<(), End> {
    run.main.say(RunSays::WantsSlot);
    while !hear(run)? {
        show(run);
        run.pause(run.shared.config.runner.poll_interval)?;
    }
    run.document.remove(STATUS_LINE);
    Ok(())
}

/// Answers every command; `true` when one of them was the slot.
fn hear(run: &mut Run) -> Result<bool, End> {
    let mut slot = false;
    while let Ok(command) = run.commands.try_recv() {
        match command {
            Command::Slot => slot = true,
            Command::Ahead(0) => run.document.remove(STATUS_LINE),
            Command::Ahead(ahead) => run.document.set(STATUS_LINE, format!("queued ({ahead} ahead)").into()),
            Command::Followup(message) => {
                followup::settle(run, message.followup_id, FollowupState::Refused)?;
            }
        }
    }
    Ok(slot)
}

fn show(run: &mut Run) {
    run.document.flush(&run.bound, Instant::now());
}
