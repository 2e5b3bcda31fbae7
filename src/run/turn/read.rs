//! From the recording to effects: every finished line is read once, in order.
//!
//! A runner that takes a turn over reads the recording from its start, which gives the same effects again;
//! each effect therefore asks the turn record whether it was done (R-27).

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Stream, Turn, outcome, session, stdin};
use crate::claude::message::{self, Message, Repeats};
use crate::claude::progress::{Effect, Fate};
use crate::claude::stream::{Line, LineReader};
use crate::claude::usage::Usage;
use crate::run::end::{Cause, End};
use crate::run::live_box::Sink;
use crate::run::{Run, answer, followup};
use crate::sdk::wire::Time;
use crate::sdk::wire::run::FollowupState;
use crate::sys::fault::one_word;

/// What the person reads when the key or login was refused (R-25).
const KEY_REFUSED: &str =
    "The agent's login or key was refused, so it could not answer. Please tell the person who runs it.";

/// What the person reads when the CLI printed an endless line (R-25).
const LINE_TOO_LONG: &str = "The turn printed more at once than is allowed here and was stopped.";

/// Longest time the rest of an ended turn is read for its costs: hundreds of megabytes of ordinary lines. A turn that
/// prints without end would otherwise hold a stopped run, its thread and its slot for as long as its output lasts.
const REST_TIME: Duration = Duration::from_secs(3);

/// Reads one piece of the stream and acts on its lines; `false` when there was nothing new.
///
/// # Errors
/// The end of the run that an effect means.
pub fn read(run: &mut Run, turn: &mut Turn) -> Result<bool, End> {
    let grew = turn.stream.reader.fill(&mut turn.stream.file).map_err(|fault| run.end_of_file(&fault))?;
    while turn.decided.is_none() {
        let message = match turn.stream.reader.next_line() {
            None => break,
            Some(Line::TooLong) => {
                turn.decided = Some(End::by(Cause::StreamLineLimit).telling(LINE_TOO_LONG));
                break;
            }
            Some(Line::Record(record)) => message::parse(record),
        };
        turn.clock.line(Instant::now());
        take(run, turn, message)?;
    }
    Ok(grew > 0)
}

/// Reads what is left of the stream of an ended process, for its costs only: nothing in it is acted on. What cannot be
/// read in [`REST_TIME`] has no say in them (turn-paths "Stop": the costs known so far).
pub fn rest(run: &Run, turn: &mut Turn) {
    let begin = Instant::now();
    let goes_on = || begin.elapsed() < REST_TIME && !run.cancel.detached();
    let Turn { stream, usage, .. } = turn;
    let Stream { reader, file, repeats, .. } = stream;
    if let Err(fault) = read_costs(reader, file, repeats, usage, goes_on) {
        log::warn!("code=stream_not_read run={} error={}", run.run_id, one_word(&fault));
    }
}

/// Takes the costs out of a stream, piece by piece while `goes_on` says so.
fn read_costs(
    reader: &mut LineReader,
    stream: &mut impl std::io::Read,
    repeats: &mut Repeats,
    usage: &mut Usage,
    goes_on: impl Fn() -> bool,
) -> std::io::Result<()> {
    loop {
        while let Some(line) = reader.next_line() {
            if let Line::Record(record) = line
                && let Some(message) = message::parse(record)
                && !repeats.is_repeat(&message)
            {
                usage.on(&message);
            }
        }
        if !goes_on() || reader.fill(stream)? == 0 {
            return Ok(());
        }
    }
}

fn take(run: &mut Run, turn: &mut Turn, message: Option<Message>) -> Result<(), End> {
    let Some(message) = message else {
        log::debug!("code=stream_noise run={}", run.run_id);
        return Ok(());
    };
    if turn.stream.repeats.is_repeat(&message) {
        log::warn!("code=repeated_result_dropped run={}", run.run_id);
        return Ok(());
    }
    let Run { document, mask, .. } = &mut *run;
    let mut sink = Sink { document, mask: &|text| mask.apply(text), now: Time::now() };
    turn.live_box.on(&message, &mut sink);
    turn.usage.on(&message);
    turn.live_box.used(turn.usage.so_far(), &mut sink);
    for effect in turn.progress.on(message) {
        act(run, turn, effect)?;
    }
    Ok(())
}

fn act(run: &mut Run, turn: &mut Turn, effect: Effect) -> Result<(), End> {
    match effect {
        Effect::Init(init) => session::on_init(run, turn, &init)?,
        Effect::Answer(found) => {
            let signalled = run.record.as_ref().is_some_and(|record| record.get().signalled);
            if !signalled {
                answer::post(run, turn, found.position, &found.text)?;
            }
        }
        Effect::Failed(failed) => outcome::on_failed(run, turn, &failed)?,
        Effect::CompactDone { ok } => outcome::on_compacted(run, turn, ok)?,
        Effect::Followup { id, fate } => {
            if let Ok(id) = Uuid::parse_str(&id) {
                followup::settle(run, id, state_of(fate))?;
            }
        }
        Effect::ControlRequest { request_id } => stdin::refuse_request(run, &request_id),
        Effect::NotAuthenticated => {
            turn.decided = Some(End::by(Cause::RuntimeNotAuthenticated).telling(KEY_REFUSED));
        }
        Effect::ForeignResult => log::warn!("code=foreign_result_dropped run={}", run.run_id),
    }
    Ok(())
}

/// What the server is told of a follow-up.
pub fn state_of(fate: Fate) -> FollowupState {
    match fate {
        Fate::Delivered => FollowupState::Delivered,
        Fate::Answered => FollowupState::Answered,
        Fate::Absorbed => FollowupState::Absorbed,
        Fate::Refused => FollowupState::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read;

    use super::*;

    /// A stream without end: a result with costs, then noise.
    struct Endless {
        begin: &'static [u8],
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if !self.begin.is_empty() {
                return self.begin.read(buffer);
            }
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }

    const RESULT: &[u8] = br#"{"type":"result","subtype":"success","is_error":false,"model_usage_since_last_result":{"alpha":{"inputTokens":7,"costUSD":0.01}}}
"#;

    #[test]
    fn what_is_left_of_an_endless_stream_is_not_read_to_its_end() {
        let (mut reader, mut usage, pieces) = (LineReader::new(1024), Usage::new(), Cell::new(0));
        let goes_on = || {
            pieces.set(pieces.get() + 1);
            pieces.get() <= 3
        };
        read_costs(&mut reader, &mut Endless { begin: RESULT }, &mut Repeats::default(), &mut usage, goes_on)
            .unwrap();
        assert_eq!(pieces.get(), 4);
        assert_eq!(usage.costs().unwrap()[0].amount_micros, 10_000, "what was read counts");
    }

    #[test]
    fn what_is_left_of_a_short_stream_is_read_to_its_end() {
        let (mut reader, mut usage) = (LineReader::new(1024), Usage::new());
        let twice = [RESULT, RESULT].concat();
        read_costs(&mut reader, &mut twice.as_slice(), &mut Repeats::default(), &mut usage, || true).unwrap();
        assert_eq!(usage.costs().unwrap()[0].amount_micros, 20_000);
    }
}
