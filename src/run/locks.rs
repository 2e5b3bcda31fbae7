//! The locks of a turn: thread first, then session, inherited by the process, so they live as long as it does.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use super::end::{Cause, End};
use super::{Run, waiting};
use crate::sys::lock::FileLock;

/// The locks this run holds. Dropping them leaves a process that inherited them in possession.
#[derive(Default)]
pub struct Locks {
    thread: Option<FileLock>,
    session: Option<FileLock>,
}

impl Locks {
    /// The descriptors for the process to inherit.
    pub fn to_inherit(&self) -> Vec<BorrowedFd<'_>> {
        [&self.thread, &self.session].into_iter().flatten().map(AsFd::as_fd).collect()
    }

    /// Lets go of both, for whatever outlives the turn too: a process that left the turn's group and environment must
    /// not keep the thread from its next run.
    pub fn release(&mut self) {
        let Locks { thread, session } = std::mem::take(self);
        // Refused, the lock lasts as long as that process does.
        [thread, session].into_iter().flatten().for_each(|lock| drop(lock.release()));
    }

    /// Leaves both to the turn's process, which could not be ended.
    pub fn leave(&mut self) {
        *self = Locks::default();
    }

    /// Holds locks that were free, for a turn that was taken over.
    pub fn hold(&mut self, thread: Option<FileLock>, session: Option<FileLock>) {
        *self = Locks { thread, session };
    }

    /// Moves the session lock to another session (turn-paths, "Sessions").
    pub fn move_session(&mut self, lock: Option<FileLock>) {
        self.session = lock;
    }
}

/// Takes both locks, waiting at most `runner.session_lock_wait` in all (M2-34 note 11).
///
/// # Errors
/// [`Cause::SessionBusy`] after that time, [`Cause::StateFault`] when a lock file cannot be made, or the end
/// that was asked for meanwhile.
pub fn take(run: &mut Run, thread_lock: &Path, session_lock: &Path) -> Result<(), End> {
    let deadline = Instant::now() + run.shared.config.runner.session_lock_wait;
    run.locks.thread = Some(take_one(run, thread_lock, deadline)?);
    run.locks.session = Some(take_one(run, session_lock, deadline)?);
    Ok(())
}

fn take_one(run: &mut Run, path: &Path, deadline: Instant) -> Result<FileLock, End> {
    loop {
        match FileLock::try_acquire(path) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) if Instant::now() >= deadline => return Err(End::by(Cause::SessionBusy)),
            Ok(None) => waiting::pause(run, run.shared.config.runner.poll_interval)?,
            Err(fault) => return Err(run.end_of_file(&fault)),
        }
    }
}
