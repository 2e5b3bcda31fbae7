//! What is known of a runner, put together from its state directory.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::O_NONBLOCK;
use serde::Serialize;
use uuid::Uuid;

use super::disk::{self, Disk};
use crate::run::record::{self, TurnRecord};
use crate::run::state_dir::StateDir;
use crate::runner::status::{RunStatus, STATUS_VERSION, Status, Step};
use crate::sdk::store::peek::{self, Waiting};
use crate::sdk::wire::Time;
use crate::sys::lock;
use crate::sys::process;

/// How long the runner may be late with its own sign before it counts as stuck: longer than a slow disk takes.
const LATE_MS: i64 = 60_000;

/// Longest status file, bytes: that of a thousand runs. What is longer no runner wrote.
const STATUS_SIZE_LIMIT: u64 = 1024 * 1024;

/// So little free space that the runner may be unable to give its sign, bytes.
const NO_ROOM: u64 = 64 * 1024;

/// Milliseconds of a second.
const SECOND_MS: i64 = 1000;

/// How the runner is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// None runs.
    NotRunning,
    /// One runs and has written nothing yet, nothing that can be read, or nothing since its disk is full.
    Unknown,
    /// One runs and its main thread does not get on.
    Stuck,
    /// It looks for the server.
    Connecting,
    /// It asks what it missed.
    Draining,
    /// It works.
    Serving,
    /// It lets go of its turns.
    Stopping,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStep {
    /// It waits for a slot or for the locks of its thread.
    Queued,
    /// Before its process, or behind it.
    AtWork,
    /// Its process lives.
    Turn,
    /// No runner runs; its process lives on.
    TurnAlone,
    /// No runner runs; the next one reports what became of it.
    Left,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The run.
    pub run_id: Uuid,
    /// Where it is.
    pub step: RunStep,
    /// When it began: the turn where there is one, else the runner's work on it.
    pub since: Time,
    /// How long ago that was, seconds.
    pub age_s: i64,
    /// How many runs are ahead of a queued one.
    pub ahead: Option<u64>,
    /// How much the turn has printed, bytes.
    pub output_bytes: Option<u64>,
    /// How long ago it last printed, seconds.
    pub silent_s: Option<i64>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One word.
    pub state: State,
    /// Whether a runner runs.
    pub running: bool,
    /// What it wrote last, or what the last one left.
    pub runner: Option<Status>,
    /// Why that cannot be read, or says nothing about now.
    pub runner_fault: Option<&'static str>,
    /// How long ago the server last answered, seconds.
    pub last_contact_s: Option<i64>,
    /// Its runs.
    pub runs: Vec<RunReport>,
    /// What waits in the inbox; absent before the first start.
    pub waiting: Option<Waiting>,
    /// Why the inbox cannot be counted.
    pub waiting_fault: Option<&'static str>,
    /// The disk.
    pub disk: Disk,
}

/// Reads the state directory.
///
/// # Errors
/// It cannot be read.
pub fn gather(state: &StateDir) -> io::Result<Report> {
    let now = Time::now();
    let running = lock::is_held(&state.runner_lock())?;
    let (runner, unread) = match read(&state.status()) {
        Ok(runner) => (runner, None),
        Err(fault) => (None, Some(fault)),
    };
    let (waiting, waiting_fault) = match peek::waiting(&state.inbox()) {
        Ok(waiting) => (Some(waiting), None),
        Err(_) if !state.inbox().exists() => (None, None),
        Err(fault) => (None, Some(fault.code())),
    };
    let disk = if state.root().exists() { disk::measure(state.root())? } else { Disk::default() };
    let (judged, silenced) = doubted(judge(running, runner.as_ref(), now), disk.free_bytes);
    Ok(Report {
        state: judged,
        runner_fault: unread.or(silenced),
        running,
        last_contact_s: runner.as_ref().and_then(|it| it.last_contact_at).map(|at| seconds(at, now)),
        runs: runs(state, running, runner.as_ref(), now),
        runner,
        waiting,
        waiting_fault,
        disk,
    })
}

/// What the runner wrote last, if anything; else a code for why it cannot be read.
fn read(path: &Path) -> Result<Option<Status>, &'static str> {
    // Non-blocking, so that a FIFO in the file's place cannot hold the command.
    let file = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|_| "unreadable")?,
    };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err("not_a_file");
    }
    let mut bytes = Vec::new();
    file.take(STATUS_SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(|_| "unreadable")?;
    if bytes.len() as u64 > STATUS_SIZE_LIMIT {
        return Err("damaged");
    }
    let found: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| "damaged")?;
    match found["status_version"].as_u64() {
        Some(version) if version != u64::from(STATUS_VERSION) => Err("other_version"),
        _ => serde_json::from_value(found).map(Some).map_err(|_| "damaged"),
    }
}

fn judge(running: bool, shown: Option<&Status>, now: Time) -> State {
    use crate::runner::status::Phase;
    match shown {
        _ if !running => State::NotRunning,
        None => State::Unknown,
        Some(shown) if now.as_millis() - shown.next_by.as_millis() > LATE_MS => State::Stuck,
        Some(shown) => match shown.facts.phase {
            Phase::Connecting => State::Connecting,
            Phase::Draining => State::Draining,
            Phase::Serving => State::Serving,
            Phase::Stopping => State::Stopping,
        },
    }
}

/// A full disk takes the runner's sign from it, so nothing follows from its silence; a restart would not help.
fn doubted(judged: State, free_bytes: Option<u64>) -> (State, Option<&'static str>) {
    match (judged, free_bytes) {
        (State::Stuck, Some(free)) if free < NO_ROOM => (State::Unknown, Some("disk_full")),
        _ => (judged, None),
    }
}

/// How long ago `at` was; a clock that was set back gives zero.
fn seconds(at: Time, now: Time) -> i64 {
    (now.as_millis() - at.as_millis()).max(0) / SECOND_MS
}

/// The runs that the runner shows, or that the last one left behind.
fn runs(state: &StateDir, running: bool, shown: Option<&Status>, now: Time) -> Vec<RunReport> {
    let mut records = records(state);
    let shown: &[RunStatus] = shown.filter(|_| running).map_or(&[], |shown| &shown.facts.runs);
    let mut all: Vec<_> =
        shown.iter().map(|run| of_shown(state, run, records.remove(&run.run_id), now)).collect();
    if !running {
        all.extend(records.into_values().map(|record| of_left(state, &record, now)));
    }
    all
}

fn records(state: &StateDir) -> BTreeMap<Uuid, TurnRecord> {
    let files = record::list(&state.turns()).unwrap_or_default();
    let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
    files.into_iter().filter_map(|(run_id, path)| Some((run_id, read(&path)?))).collect()
}

fn of_shown(state: &StateDir, run: &RunStatus, record: Option<TurnRecord>, now: Time) -> RunReport {
    let step = match run.step {
        Step::Queued => RunStep::Queued,
        Step::AtWork => RunStep::AtWork,
        Step::Turn => RunStep::Turn,
    };
    let since = record.as_ref().map_or(run.since, |record| record.started_at);
    let ahead = run.ahead;
    RunReport {
        run_id: run.run_id,
        step,
        since,
        age_s: seconds(since, now),
        ahead,
        output_bytes: None,
        silent_s: None,
    }
    .with_output(state, record.as_ref(), now)
}

fn of_left(state: &StateDir, record: &TurnRecord, now: Time) -> RunReport {
    let step = if lives(state, record) { RunStep::TurnAlone } else { RunStep::Left };
    let (run_id, since) = (record.run_id, record.started_at);
    RunReport {
        run_id,
        step,
        since,
        age_s: seconds(since, now),
        ahead: None,
        output_bytes: None,
        silent_s: None,
    }
    .with_output(state, Some(record), now)
}

fn lives(state: &StateDir, record: &TurnRecord) -> bool {
    let Some(newest) = record.processes.last().filter(|_| record.boot_id == process::boot_id()) else {
        return false;
    };
    let pid = state.process(record.run_id, newest.session, newest.number).pid;
    let line = std::fs::read_to_string(pid).unwrap_or_default();
    process::parse_pid_line(&line).is_some_and(|(pid, start)| process::start_time(pid) == Some(start))
}

impl RunReport {
    /// Adds what the newest process of the turn has printed.
    fn with_output(mut self, state: &StateDir, record: Option<&TurnRecord>, now: Time) -> RunReport {
        let newest = record.and_then(|record| record.processes.last());
        let found = newest.and_then(|newest| {
            std::fs::metadata(state.process(self.run_id, newest.session, newest.number).stream).ok()
        });
        self.output_bytes = found.as_ref().map(std::fs::Metadata::len);
        let since_1970 = |at: std::time::SystemTime| at.duration_since(std::time::UNIX_EPOCH).ok();
        let printed = found.and_then(|found| found.modified().ok()).and_then(since_1970);
        let at = printed.and_then(|at| i64::try_from(at.as_millis()).ok());
        self.silent_s = at.map(|at| seconds(Time::from_millis(at), now));
        self
    }
}

#[cfg(test)]
mod tests;
