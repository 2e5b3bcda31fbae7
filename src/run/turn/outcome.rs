//! How a turn ended: from its results, its exit and its complaints to the end of the run.

use std::io::Read;

use uuid::Uuid;

use super::process::Ended;
use super::{Turn, session, stdin};
use crate::claude::error_table::{Failure, HISTORY_REFUSED, Reason, StartFault, start_fault};
use crate::claude::message;
use crate::claude::progress::{Effect, FailedTurn, Outcome};
use crate::run::end::{Cause, End};
use crate::run::finish::Totals;
use crate::run::live_box::Sink;
use crate::run::record::{LineRecord, Purpose};
use crate::run::waiting::STATUS_LINE;
use crate::run::{Run, answer, followup};
use crate::sdk::wire::Time;
use crate::sdk::wire::run::{FollowupState, RunState, StepStatus};
use crate::sys::process::{Exit, Signal};

/// Most bytes of the CLI's complaints that are looked at for a known beginning.
const STDERR_LIMIT: u64 = 64 * 1024;

/// What the person reads below an answer that came without a result.
const MAY_BE_INCOMPLETE: &str =
    "\n\nThe turn ended without saying that it was done; this answer may be incomplete.";

/// What the person reads when there is no answer at all.
const NO_ANSWER: &str = "The agent's turn ended without an answer. Please try again.";

/// What the person reads when background work was cut.
const BACKGROUND_CUT: &str = "Work that was still going on in the background was ended.";

/// What the person reads when the conversation is too long.
const CONTEXT_FULL: &str = "The conversation had become too long for the agent and could not be shortened. \
     Write again to go on with a fresh session, or start a new thread.";

/// A turn of the process failed: once, a full context is answered with a request to make room.
pub fn on_failed(run: &mut Run, turn: &mut Turn, failed: &FailedTurn) -> Result<(), End> {
    log::warn!("code={} run={}", failed.failure.code, run.run_id);
    let had_turns = run
        .record
        .as_ref()
        .is_some_and(|record| record.get().session.had_turns || turn.progress.answers() > 0);
    let known = compact_line(run);
    let open = run.live.as_mut().is_some_and(|live| live.stdin().is_some());
    let may_compact = had_turns && !turn.compacted && (open || known.is_some());
    if failed.failure.reason != Reason::ContextFull || !may_compact {
        return Ok(());
    }
    turn.compacted = true;
    turn.to_repeat.clone_from(&failed.uuids);
    run.document.set(STATUS_LINE, "compacting".into());
    if let Some(line) = known {
        turn.progress.sent(&line.uuid.to_string(), stdin::purpose(Purpose::Compact));
        return Ok(());
    }
    let line =
        LineRecord { uuid: Uuid::new_v4(), process: turn.process, purpose: Purpose::Compact, replaces: None };
    turn.progress.sent(&line.uuid.to_string(), stdin::purpose(Purpose::Compact));
    stdin::send_compact(run, line)
}

/// The CLI has answered the request to make room: the lines that had none are sent again.
pub fn on_compacted(run: &mut Run, turn: &mut Turn, ok: bool) -> Result<(), End> {
    run.document.remove(STATUS_LINE);
    log::info!("code=compacted run={} ok={}", run.run_id, u8::from(ok));
    if !ok {
        turn.decided = Some(End::by(Cause::ContextFull).telling(CONTEXT_FULL));
        return Ok(());
    }
    let uuids = std::mem::take(&mut turn.to_repeat);
    let lines: Vec<LineRecord> =
        run.record.as_ref().map(|record| record.get().lines.clone()).unwrap_or_default();
    for old in lines.iter().filter(|line| uuids.contains(&line.uuid.to_string())) {
        match lines.iter().find(|line| line.replaces == Some(old.uuid)) {
            Some(new) => turn.progress.sent_again(&old.uuid.to_string(), &new.uuid.to_string()),
            None => repeat(run, turn, *old)?,
        }
    }
    Ok(())
}

fn repeat(run: &mut Run, turn: &mut Turn, old: LineRecord) -> Result<(), End> {
    let Some(texts) = stored_texts(run, old.uuid) else { return Ok(()) };
    let new = LineRecord { uuid: Uuid::new_v4(), process: turn.process, replaces: Some(old.uuid), ..old };
    turn.progress.sent_again(&old.uuid.to_string(), &new.uuid.to_string());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    stdin::send(run, new, &texts)
}

/// The texts of a line as they were stored before it was sent, without the closing one.
fn stored_texts(run: &Run, uuid: Uuid) -> Option<Vec<String>> {
    let record = run.record.as_ref()?.get();
    let session = record.processes.last()?.session;
    let input = std::fs::read_to_string(run.shared.state.process(run.run_id, session, 1).input).ok()?;
    let of = |line: &str| -> Option<Vec<String>> {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        if value.get("uuid")?.as_str()? != uuid.to_string() {
            return None;
        }
        let items = value.pointer("/message/content")?.as_array()?;
        let texts = items.iter().filter_map(|item| item.get("text")?.as_str().map(str::to_owned));
        let mut texts: Vec<String> = texts.collect();
        texts.pop();
        Some(texts)
    };
    input.lines().find_map(of)
}

/// The request to make room that this run has sent already.
fn compact_line(run: &Run) -> Option<LineRecord> {
    let lines = &run.record.as_ref()?.get().lines;
    lines.iter().find(|line| line.purpose == Purpose::Compact).copied()
}

/// The end of a turn whose process has ended by itself; `None` when another process goes on with it.
///
/// # Errors
/// The end that was asked for meanwhile, or a fault of the state directory.
pub fn after_exit(run: &mut Run, turn: &mut Turn, exit: Ended) -> Result<Option<End>, End> {
    log::info!("code=turn_exited run={} exit={}", run.run_id, exit_text(exit));
    turn.exit = Some(exit);
    if let Some(fault) = start_fault_of(run, turn)
        && session::restart(run, turn, fault)?
    {
        return Ok(None);
    }
    if turn.progress.outcome().is_some() {
        return Ok(Some(of_progress(turn)));
    }
    let signalled = run.record.as_ref().is_some_and(|record| record.get().signalled);
    let may_speak = exit == Ended::Known(Exit::Code(0)) && turn.progress.text_seen() && !signalled;
    if may_speak && let Some(text) = last_text(run, turn) {
        answer::post(run, turn, turn.progress.answers() + 1, &format!("{text}{MAY_BE_INCOMPLETE}"))?;
        return Ok(Some(End::by(Cause::Completed)));
    }
    Ok(Some(End::by(Cause::NoResult).telling(NO_ANSWER)))
}

/// The text of the model's newest message, read once more from the recording.
fn last_text(run: &Run, turn: &Turn) -> Option<String> {
    let session = run.record.as_ref()?.get().processes.last()?.session;
    let path = run.shared.state.process(run.run_id, session, turn.process).stream;
    let mut stream = std::fs::File::open(path).ok()?;
    message::last_text(&mut stream, run.shared.config.runner.stream_line_limit).ok()?
}

/// The end that the last result that names a sent line means.
pub fn of_progress(turn: &Turn) -> End {
    match turn.progress.outcome() {
        Some(Outcome::Success) if turn.progress.background_open() > 0 => {
            End::by(Cause::Completed).telling(BACKGROUND_CUT)
        }
        Some(Outcome::Success) => End::by(Cause::Completed),
        Some(Outcome::Failed(failure)) => of_failure(failure),
        None => End::by(Cause::NoResult).telling(NO_ANSWER),
    }
}

fn of_failure(failure: &Failure) -> End {
    let cause = match failure.reason {
        Reason::NotAuthenticated => Cause::RuntimeNotAuthenticated,
        Reason::Limit => Cause::RuntimeLimit,
        Reason::ContextFull => return End::by(Cause::ContextFull).telling(CONTEXT_FULL),
        Reason::Error => Cause::RuntimeError,
    };
    let end = End::by(cause);
    match &failure.sentence {
        Some(sentence) => end.telling(sentence),
        None => end,
    }
}

/// Why the CLI did not start the turn, when it said so.
fn start_fault_of(run: &Run, turn: &Turn) -> Option<StartFault> {
    if turn.progress.text_seen() || turn.progress.answers() > 0 {
        return None;
    }
    let record = run.record.as_ref()?.get();
    let session = record.processes.last()?.session;
    let stderr = run.shared.state.process(run.run_id, session, turn.process).stderr;
    let mut text = Vec::new();
    std::fs::File::open(stderr).ok()?.take(STDERR_LIMIT).read_to_end(&mut text).ok()?;
    start_fault(&String::from_utf8_lossy(&text))
}

fn exit_text(exit: Ended) -> String {
    match exit {
        Ended::Known(Exit::Code(code)) => code.to_string(),
        Ended::Known(Exit::Signal(signal)) => signal_name(signal),
        Ended::Unknown => "unknown".to_owned(),
    }
}

/// The name of a signal; those without one, of which Linux has some, keep their number.
fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal_{signal}"), |known| known.as_str().to_owned())
}

/// The last effects of a turn, whatever its end: steps, costs, follow-ups, the fresh session.
///
/// # Errors
/// A fault of the state directory.
pub fn settle(run: &mut Run, turn: &mut Turn, end: &End) -> Result<(), End> {
    let stopped = matches!(end.cause, Cause::Cancelled | Cause::ServerEnded);
    let effects = if stopped { turn.progress.stop() } else { turn.progress.process_ended() };
    if end.cause != Cause::ServerEnded {
        settle_followups(run, effects)?;
        followup::settle_open(run, if stopped { FollowupState::Absorbed } else { FollowupState::Refused })?;
    }
    end_document(run, turn, end);
    run.shared.keep_context_windows(turn.usage.context_windows());
    run.totals = Totals::of(&turn.usage, &turn.live_box, &run.mask);
    if end.cause == Cause::Completed {
        run.title = turn.title.take();
    }
    if end.cause == Cause::ContextFull || history_refused(turn) {
        session::report_fresh(run)?;
    }
    Ok(())
}

/// Whether the service refused the session as it is: a thread must not fail the same way for ever (C3-05).
fn history_refused(turn: &Turn) -> bool {
    matches!(turn.progress.outcome(), Some(Outcome::Failed(failure)) if failure.code == HISTORY_REFUSED)
}

/// The last words of the live document: leftover steps, and how a failed turn ended (M2-34 note 14).
fn end_document(run: &mut Run, turn: &mut Turn, end: &End) {
    if turn.compacted {
        // It may have been cut while it made room.
        run.document.remove(STATUS_LINE);
    }
    let Run { document, mask, .. } = &mut *run;
    let mut sink = Sink { document, mask: &|text| mask.apply(text), now: Time::now() };
    turn.live_box.end(StepStatus::Cancelled, &mut sink);
    if let Some((RunState::Failed, Some(reason))) = end.finish() {
        let exit = turn.exit.map_or_else(|| "unknown".to_owned(), exit_text);
        turn.live_box.status_step(&reason, &[("exit", &exit)], &mut sink);
    }
}

fn settle_followups(run: &mut Run, effects: Vec<Effect>) -> Result<(), End> {
    for effect in effects {
        if let Effect::Followup { id, fate } = effect
            && let Ok(id) = Uuid::parse_str(&id)
        {
            followup::settle(run, id, super::read::state_of(fate))?;
        }
    }
    Ok(())
}
