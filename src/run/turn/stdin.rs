//! The lines that go to the process, and when its stdin is closed.
//!
//! A line is stored before it is written; writing never blocks, what the process does not take waits here.

use std::io::Write;
use std::time::Instant;

use uuid::Uuid;

use super::Turn;
use crate::claude::line;
use crate::claude::prompt::CLOSING_LINE;
use crate::run::Run;
use crate::run::end::{Cause, End};
use crate::run::record::{LineRecord, Purpose};
use crate::run::state_dir::ProcessFiles;
use crate::sys::{crash, private};

/// Sends the first line of a process: its texts and the closing text.
pub fn send_first(run: &mut Run, turn: &Turn, uuid: Uuid) -> Result<(), End> {
    let Some(again) = &turn.again else { return Ok(()) };
    let texts: Vec<&str> = again.first_texts.iter().map(String::as_str).collect();
    write(run, &user_line(uuid, &texts))
}

/// Records `line` and sends it with `texts` and the closing text.
///
/// # Errors
/// [`Cause::StateFault`] when the line cannot be stored: it is not sent then.
pub fn send(run: &mut Run, line: LineRecord, texts: &[&str]) -> Result<(), End> {
    let uuid = line.uuid;
    remember(run, line)?;
    write(run, &user_line(uuid, texts))
}

/// Records and sends the one `/compact`, whose only text must be the last one.
///
/// # Errors
/// As [`send`].
pub fn send_compact(run: &mut Run, line: LineRecord) -> Result<(), End> {
    let uuid = line.uuid;
    remember(run, line)?;
    write(run, &line::compact_line(uuid))
}

/// Answers a question of the CLI with "no".
pub fn refuse_request(run: &mut Run, request_id: &str) {
    log::warn!("code=control_request_refused run={}", run.run_id);
    push(run, &line::control_refusal(request_id));
}

fn user_line(uuid: Uuid, texts: &[&str]) -> String {
    let all: Vec<&str> =
        texts.iter().copied().filter(|text| !text.is_empty()).chain([CLOSING_LINE]).collect();
    line::user_line(uuid, &all)
}

fn remember(run: &mut Run, line: LineRecord) -> Result<(), End> {
    let Some(record) = &mut run.record else { return Ok(()) };
    record.update(|record| record.lines.push(line)).map_err(|fault| run.end_of_file(&fault))
}

/// Appends the line to the run's input file and then gives it to the process.
fn write(run: &mut Run, line: &str) -> Result<(), End> {
    let path = files(run)?.input;
    let stored = private::open_append(&path).and_then(|mut file| {
        file.write_all(line.as_bytes())?;
        file.sync_data()
    });
    stored.map_err(|fault| run.end_of_file(&fault))?;
    crash::point(|| "before line".to_owned());
    push(run, line);
    crash::point(|| "after line".to_owned());
    Ok(())
}

fn files(run: &Run) -> Result<ProcessFiles, End> {
    let record = run.record.as_ref().ok_or(End::by(Cause::StateFault))?.get();
    let session = record.processes.last().map_or(record.session.id, |process| process.session);
    Ok(run.shared.state.process(run.run_id, session, 1))
}

fn push(run: &mut Run, line: &str) {
    if let Some(stdin) = run.live.as_mut().and_then(|live| live.stdin()) {
        stdin.push(line.as_bytes());
    }
    flush(run);
}

/// Writes what waits. A process that has closed its stdin says why in its stream, not here.
fn flush(run: &mut Run) {
    let failed = run.live.as_mut().and_then(|live| live.stdin()).is_some_and(|stdin| stdin.flush().is_err());
    if failed {
        log::info!("code=stdin_closed_by_turn run={}", run.run_id);
        if let Some(live) = &mut run.live {
            live.close_stdin();
        }
    }
}

/// Writes what waits, and closes stdin once nothing more can come: `runner.followup_grace` after the
/// last result, or `runner.background_wait` after it while work goes on beside the turn.
pub fn tend(run: &mut Run, turn: &mut Turn) -> Result<(), End> {
    flush(run);
    let now = Instant::now();
    let runner = &run.shared.config.runner;
    let (followup_grace, background_wait) = (runner.followup_grace, runner.background_wait);
    let finished = turn.clock.finished_for(turn.progress.finished(), now);
    let waiting = turn.clock.background_for(turn.progress.waits_for_background(), now);
    let close = finished.is_some_and(|time| time >= followup_grace)
        || waiting.is_some_and(|time| time >= background_wait);
    if close {
        turn.clock.stdin_closed(now);
        if let Some(live) = &mut run.live {
            live.close_stdin();
        }
    }
    Ok(())
}

/// The purpose of a recorded line as the reader of the stream knows it.
pub fn purpose(purpose: Purpose) -> crate::claude::progress::Purpose {
    use crate::claude::progress::Purpose as Known;
    match purpose {
        Purpose::First => Known::First,
        Purpose::Followup(id) => Known::Followup(id.to_string()),
        Purpose::Compact => Known::Compact,
    }
}
