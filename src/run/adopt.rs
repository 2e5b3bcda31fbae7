//! A turn that a former runner started: found by its record, followed as if nothing had happened.
//!
//! The recording is read from its start, so steps, background lists and lifecycles are rebuilt; what the
//! record says was done is not done again. A process is taken for the turn only when boot, pid and start
//! time agree.

use std::path::Path;

use super::end::{Cause, End};
use super::record::{self, Purpose, RecordFault, RecordFile, TurnRecord};
use super::turn::process::Live;
use super::turn::{self, Turn};
use super::{Run, followup};
use crate::sdk::wire::run::FollowupState;
use crate::sys::lock::FileLock;
use crate::sys::private;
use crate::sys::process;

/// The turn of a former runner, if this run has one.
///
/// # Errors
/// The end of a run whose process never came to be, whose end was decided already, or whose record is lost.
pub fn find(run: &mut Run) -> Result<Option<Turn>, End> {
    let path = record::path_of(&run.shared.state.turns(), run.run_id);
    if !path.exists() {
        return Ok(None);
    }
    match RecordFile::load(&path) {
        Ok(record) => run.record = Some(record),
        Err(RecordFault::Damaged) => {
            log::error!("code=record_damaged run={}", run.run_id);
            // Which process it was is lost, but not what it carries in its environment.
            run.leftovers_since = Some(0);
            return Err(End::by(Cause::RunnerRestarted));
        }
        Err(RecordFault::Io(fault)) => return Err(run.end_of_file(&fault)),
    }
    adopt(run).map(Some)
}

fn adopt(run: &mut Run) -> Result<Turn, End> {
    let Some(record) = run.record.as_ref().map(|record| record.get().clone()) else {
        return Err(End::by(Cause::StateFault));
    };
    if record.end.is_some() {
        // Decided and perhaps half said: `finish` says the rest as it was planned.
        return Err(End::by(Cause::Completed));
    }
    find_process(run, &record)?;
    run.entry()?;
    run.locks_of_adopted(&record);
    refuse_unwritten(run, &record)?;
    log::info!("code=turn_adopted run={} lives={}", run.run_id, u8::from(run.live.is_some()));
    if run.live.is_some() {
        run.main.say(super::RunSays::TurnLives);
    }
    let first = record.processes.first().ok_or(Cause::StateFault)?;
    let files = run.shared.state.process(run.run_id, first.session, first.number);
    private::open_append(&files.stream).map_err(|fault| run.end_of_file(&fault))?;
    let stream = turn::open_stream(run, &files.stream)?;
    let mut turn = Turn::new(run, stream, record.title_wanted, record.started_at);
    turn::replay::prepare(&mut turn, &record);
    Ok(turn)
}

/// Messages that the former runner had stored and not yet written to the process, whose stdin is gone.
fn refuse_unwritten(run: &mut Run, record: &TurnRecord) -> Result<(), End> {
    let open = run.store.open_followups(run.run_id).map_err(|fault| run.end_of_store(fault))?;
    for followup in open.into_iter().map(|open| open.followup.followup_id) {
        if !record.lines.iter().any(|line| line.purpose == Purpose::Followup(followup)) {
            followup::settle(run, followup, FollowupState::Refused)?;
        }
    }
    Ok(())
}

/// Sets `run.live` when the turn's newest process still lives.
///
/// An empty pid file means that the process never came to be, unless somebody holds the thread's lock: then
/// it is about to write the file.
fn find_process(run: &mut Run, record: &TurnRecord) -> Result<(), End> {
    let newest = record.processes.last().ok_or(Cause::StateFault)?;
    let files = run.shared.state.process(run.run_id, newest.session, newest.number);
    if record.boot_id != process::boot_id() {
        // Nobody of another boot lives, so nobody is about to write the file either.
        return read_pid(&files.pid).map(drop).ok_or(End::by(Cause::RunnerRestarted));
    }
    loop {
        if let Some((pid, start_time)) = read_pid(&files.pid) {
            run.live = Live::adopt(pid, start_time);
            run.leftovers_since = Some(start_time);
            return Ok(());
        }
        match FileLock::try_acquire(&run.shared.state.thread_lock(record.thread_id)) {
            Ok(Some(_)) if read_pid(&files.pid).is_none() => return Err(End::by(Cause::RunnerRestarted)),
            Ok(Some(_)) => {}
            Ok(None) => run.pause(run.shared.config.runner.poll_interval)?,
            Err(fault) => return Err(run.end_of_file(&fault)),
        }
    }
}

fn read_pid(path: &Path) -> Option<(i32, u64)> {
    process::parse_pid_line(&std::fs::read_to_string(path).ok()?)
}

impl Run {
    /// The locks of an ended turn are free and taken again, so that nobody else works in the thread until
    /// this run has ended; those of a living one are held by its process.
    fn locks_of_adopted(&mut self, record: &TurnRecord) {
        let thread = FileLock::try_acquire(&self.shared.state.thread_lock(record.thread_id));
        let session = FileLock::try_acquire(&self.shared.state.session_lock(record.session.id));
        self.locks.hold(thread.ok().flatten(), session.ok().flatten());
    }
}
