//! One answer per result: planned in the turn record, stored in the outbox, sent once (R-4, D-M3-12-8).
//!
//! An answer has a position from 1. Reading the recording again gives the same answer at the same position;
//! what the record and the outbox know of it decides what is still to be done.

use uuid::Uuid;

use super::end::{Cause, End};
use super::record::AnswerRecord;
use super::turn::{Turn, post};
use super::{Run, answer_files, title};
use crate::attachments::attach_lines;
use crate::attachments::delivery::refuses_attachments;
use crate::sdk::outbox::{Delivery, Outcome};
use crate::sdk::wire::message::MessageCreate;
use crate::sdk::wire::problem::Problem;

/// What the person reads when the server does not take the answer: it is not split (M2-34 note 14), but
/// the session has it.
const NOT_TAKEN: &str = "The agent answered, but the chat server did not accept the answer; most likely it is too \
     long for one message. Nothing was lost: write again and ask for a shorter answer, or for the text in a file.";

/// Posts the answer at `position`, whose text the CLI printed as `text`.
///
/// # Errors
/// The end that was asked for meanwhile, that the server decided, or a fault of the state directory.
pub fn post(run: &mut Run, turn: &mut Turn, position: u32, text: &str) -> Result<(), End> {
    let masked = without_title(run, turn, position, &run.mask.apply(text));
    let split = attach_lines::split(&masked);
    if let Some(known) = planned(run, position) {
        if known.sent {
            return Ok(());
        }
        answer_files::keep_names(run, position, &split.paths);
        if go_on(run, known)? {
            return Ok(());
        }
    }
    if split.paths.is_empty() {
        plain(run, position, &masked)
    } else {
        // The upload shows in the document, which has one patch on its way at a time.
        post::rest(run, turn)?;
        answer_files::post(run, position, &split)
    }
}

/// The first answer of a new session may begin with a title, which is kept for the end of the run. `text` is masked,
/// because a title is cut.
fn without_title(run: &Run, turn: &mut Turn, position: u32, text: &str) -> String {
    let wanted = run.record.as_ref().is_some_and(|record| record.get().title_wanted);
    if position != 1 || !wanted {
        return text.to_owned();
    }
    let (title, rest) = title::split_title(text);
    // Once more, because hidden characters went from it that could keep a secret apart.
    turn.title = title.map(|title| run.mask.apply(&title).into_owned());
    rest
}

/// Goes on with an answer that an earlier life of the runner planned; `false` when it was never stored.
fn go_on(run: &mut Run, known: AnswerRecord) -> Result<bool, End> {
    let key = known.client_msg_id;
    let outcome = run.store.outcome(key).map_err(|fault| run.end_of_store(fault))?;
    match outcome {
        Some(Outcome::Refused(problem)) => {
            let delivery = run.store.delivery(key).map_err(|fault| run.end_of_store(fault))?;
            if let Some(Delivery::Message { body, .. }) = delivery {
                refused(run, key, &body, &problem)?;
            }
            Ok(true)
        }
        Some(Outcome::Delivered(_) | Outcome::Dropped) => settled(run, key).map(|()| true),
        None => {
            let pending = run.store.pending(run.run_id).map_err(|fault| run.end_of_store(fault))?;
            Ok(pending.iter().any(|pending| pending.key == key))
        }
    }
}

fn plain(run: &mut Run, position: u32, text: &str) -> Result<(), End> {
    let key = plan(run, position)?;
    if text.trim().is_empty() {
        log::info!("code=answer_empty run={} answer={position}", run.run_id);
        return settled(run, key);
    }
    send(run, key, text.to_owned(), None)
}

/// The key of the answer at `position`, in the record before anything uses it.
///
/// # Errors
/// The record cannot be written.
pub fn plan(run: &mut Run, position: u32) -> Result<Uuid, End> {
    if let Some(known) = planned(run, position) {
        return Ok(known.client_msg_id);
    }
    let answer = AnswerRecord { position, client_msg_id: Uuid::now_v7(), sent: false };
    update(run, |answers| answers.push(answer))?;
    Ok(answer.client_msg_id)
}

/// Stores the message for the outbox to send.
///
/// # Errors
/// The outbox cannot be written.
pub fn send(run: &mut Run, key: Uuid, text: String, files: Option<Vec<Uuid>>) -> Result<(), End> {
    let thread_id = run.entry()?.invocation.thread_id;
    let body = MessageCreate {
        client_msg_id: key,
        content_md: text,
        run_id: run.run_id,
        attachment_file_ids: files,
    };
    let delivery = Delivery::Message { thread_id, body };
    run.store.put(run.run_id, key, &delivery).map(|_| ()).map_err(|fault| run.end_of_store(fault))
}

/// The message with `key` has reached its end.
///
/// # Errors
/// The record cannot be written.
pub fn settled(run: &mut Run, key: Uuid) -> Result<(), End> {
    let Some(answer) = of_key(run, key) else { return Ok(()) };
    update(run, |answers| {
        for known in answers.iter_mut().filter(|known| known.position == answer.position) {
            known.sent = true;
        }
    })?;
    log::info!("code=answer_settled run={} answer={}", run.run_id, answer.position);
    answer_files::forget(run, answer.position);
    Ok(())
}

/// The server refused the message with `key` for good: without its files it may still go; anything else ends
/// the run with a sentence. The runner's own sentences are only logged.
///
/// # Errors
/// [`Cause::AnswerRefused`], or a fault of the state directory.
pub fn refused(run: &mut Run, key: Uuid, body: &MessageCreate, problem: &Problem) -> Result<(), End> {
    let Some(answer) = of_key(run, key) else { return Ok(()) };
    if body.attachment_file_ids.is_some() && refuses_attachments(problem) {
        return answer_files::send_without(run, answer.position, body, problem);
    }
    settled(run, key)?;
    Err(End::by(Cause::AnswerRefused).telling(NOT_TAKEN))
}

/// Gives the answer at `position` another key, for a message with another body.
///
/// # Errors
/// The record cannot be written.
pub fn change_key(run: &mut Run, position: u32, key: Uuid) -> Result<(), End> {
    update(run, |answers| {
        for known in answers.iter_mut().filter(|known| known.position == position) {
            known.client_msg_id = key;
        }
    })
}

fn planned(run: &Run, position: u32) -> Option<AnswerRecord> {
    let answers = &run.record.as_ref()?.get().answers;
    answers.iter().find(|answer| answer.position == position).copied()
}

fn of_key(run: &Run, key: Uuid) -> Option<AnswerRecord> {
    let answers = &run.record.as_ref()?.get().answers;
    answers.iter().find(|answer| answer.client_msg_id == key).copied()
}

fn update(run: &mut Run, change: impl FnOnce(&mut Vec<AnswerRecord>)) -> Result<(), End> {
    let Some(record) = &mut run.record else { return Err(End::by(Cause::StateFault)) };
    record.update(|record| change(&mut record.answers)).map_err(|fault| run.end_of_file(&fault))
}
