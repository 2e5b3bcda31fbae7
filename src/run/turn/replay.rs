//! What a runner that takes a turn over must tell the readers before and between the recordings.

use super::{Turn, open_stream, session, stdin};
use crate::run::Run;
use crate::run::end::End;
use crate::run::record::{LineRecord, Purpose, TurnRecord};

/// Names every line that was sent to the first process; lines that repeat others are named when their
/// reason is read.
pub fn prepare(turn: &mut Turn, record: &TurnRecord) {
    for line in record.lines.iter().filter(|line| is_plain(line)) {
        turn.progress.sent(&line.uuid.to_string(), stdin::purpose(line.purpose));
    }
    turn.title = None;
}

fn is_plain(line: &LineRecord) -> bool {
    line.replaces.is_none() && line.purpose != Purpose::Compact
}

/// Goes on with the recording of the next process, when the record knows one; `false` when this is the last.
///
/// # Errors
/// The recording cannot be opened.
pub fn next_recording(run: &mut Run, turn: &mut Turn) -> Result<bool, End> {
    let Some(record) = &run.record else { return Ok(false) };
    let number = turn.process + 1;
    let Some(next) = record.get().processes.iter().find(|process| process.number == number).copied() else {
        return Ok(false);
    };
    let first =
        record.get().lines.iter().find(|line| line.process == number && line.replaces.is_some()).copied();
    let files = run.shared.state.process(run.run_id, next.session, number);
    crate::sys::private::open_append(&files.stream).map_err(|fault| run.end_of_file(&fault))?;
    turn.stream = open_stream(run, &files.stream)?;
    turn.process = number;
    turn.restarted = true;
    if let Some(first) = first {
        session::enter_process(turn, first.replaces, first.uuid);
    }
    Ok(true)
}
