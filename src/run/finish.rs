//! The end of a run: told to the person and the server, then forgotten. Every end comes through here.
//!
//! Order that must hold: what is to be said is in the outbox and the record before it is sent, and the inbox
//! entry is closed only after the server knows. A crash anywhere in between says the same again.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::end::{Cause, End};
use super::live_box::LiveBox;
use super::mask::Mask;
use super::record::{EndRecord, SentenceRecord};
use super::turn::ladder;
use super::{Outcome, Run, answer_files, deliver, followup};
use crate::claude::usage::Usage;
use crate::sdk::bound::RunError;
use crate::sdk::client::Client;
use crate::sdk::outbox::Delivery;
use crate::sdk::store::StoreError;
use crate::sdk::wire::message::{MessageCreate, TitleSource};
use crate::sdk::wire::run::{CostReport, FollowupState, RunFinish, RunMetrics, RunState};
use crate::sys::fault::one_word;
use crate::sys::private;

/// Whose service the costs are of.
const PROVIDER: &str = "anthropic";

/// Currency of the CLI's prices.
const CURRENCY: &str = "USD";

/// What a run used, as far as its stream was read.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Absent when unknown.
    pub costs: Option<Vec<CostReport>>,
    /// The last numbers; absent for a run that never had a process.
    pub metrics: Option<RunMetrics>,
}

impl Totals {
    /// The totals of a turn; `mask` for the names of models, which the CLI gives.
    pub fn of(usage: &Usage, live_box: &LiveBox, mask: &Mask) -> Totals {
        let report = |cost: crate::claude::usage::ModelCost| CostReport {
            provider: PROVIDER.into(),
            model: mask.apply(&cost.model).into_owned(),
            tokens_in: cost.tokens.input,
            tokens_out: cost.tokens.output,
            tokens_cache_read: cost.tokens.cache_read,
            tokens_cache_write: cost.tokens.cache_write,
            amount_micros: cost.amount_micros,
            currency: CURRENCY.into(),
        };
        let tokens = usage.so_far();
        let metrics = RunMetrics {
            tokens_in: Some(tokens.input),
            tokens_out: tokens.output,
            tokens_cache_read: Some(tokens.cache_read),
            tokens_cache_write: Some(tokens.cache_write),
            context_pct: live_box.context_pct(),
            subagents: Some(live_box.subagents()),
            background_jobs: Some(live_box.background_jobs()),
            api_retries: Some(live_box.api_retries()),
            last_api_retry: None,
        };
        let costs = usage.costs().map(|costs| costs.into_iter().map(report).collect());
        Totals { costs, metrics: Some(metrics) }
    }
}

/// Makes the end known and lets go of everything the run holds.
pub fn finish(mut run: Run, end: &End) -> Outcome {
    match end.cause {
        Cause::Detached => return Outcome::Detached,
        Cause::Superseded => return Outcome::Parked { generation: run.start_generation },
        _ => {}
    }
    ladder::clear_away(&mut run);
    match tell(&mut run, end.clone()).and_then(|()| close(&mut run)) {
        Ok(()) => Outcome::Ended,
        Err(left) if left.cause == Cause::Detached => Outcome::Detached,
        // What was not said is durable; the next life of the run says it.
        Err(left) => {
            log::error!("code=finish_left run={} cause={}", run.run_id, left.cause.row().code);
            Outcome::Left
        }
    }
}

/// Tells the end. While an answer still waits for the server, a stop, an end by the server and a refused
/// answer take the place of the end that was found first.
fn tell(run: &mut Run, mut end: End) -> Result<(), End> {
    loop {
        if is_last_word(&end) {
            finish_with_own_client(run);
        }
        match conclude(run, &end) {
            Err(other) if takes_its_place(&other, &end) => {
                log::info!("code=end_replaced run={} by={}", run.run_id, other.cause.row().code);
                end = other;
            }
            told => return told,
        }
    }
}

/// Whether `other`, found while `end` was being told, is how the run ended.
pub fn takes_its_place(other: &End, end: &End) -> bool {
    other.cause != end.cause && replaces(other) && !end_is_known(end)
}

/// The server knows the end already: there is nobody to tell another one.
fn end_is_known(end: &End) -> bool {
    end.cause == Cause::ServerEnded
}

/// Ends after which the run's own client is dead, and which only the server's own end replaces.
fn is_last_word(end: &End) -> bool {
    matches!(end.cause, Cause::Cancelled | Cause::ServerEnded)
}

fn replaces(other: &End) -> bool {
    is_last_word(other) || other.cause == Cause::AnswerRefused
}

/// After a stop the run's client is dead; the end is told through a fresh one, which only a detach ends.
fn finish_with_own_client(run: &mut Run) {
    let client: Client = run.shared.client.fork();
    run.cancel.finish_with(client.clone());
    run.bound = client.bind(run.run_id, run.token.clone());
}

fn conclude(run: &mut Run, end: &End) -> Result<(), End> {
    let Some((state, reason)) = end.finish() else {
        return forget_deliveries(run);
    };
    if !is_last_word(end) {
        run.check_cancel()?;
        propose_title(run)?;
    }
    let open = if end.cause == Cause::Cancelled { FollowupState::Absorbed } else { FollowupState::Refused };
    followup::settle_open(run, open)?;
    answer_files::abort_open(run);
    run.document.flush_all(&run.bound);
    if run.document.run_ended() && !is_last_word(end) {
        return Err(End::by(Cause::ServerEnded));
    }
    let planned = plan(run, end, state, reason)?;
    put_sentence(run, &planned)?;
    // An answer that is refused now may go again without its files: the end waits for the last message, because
    // the server takes none of a finished run.
    deliver::drain(run)?;
    put_finish(run, planned)?;
    deliver::drain(run)
}

/// Stores how the run ends, once: a planned end of a former life stays as it was, unless a stop or a refused
/// answer takes its place.
fn plan(run: &mut Run, end: &End, state: RunState, reason: Option<String>) -> Result<EndRecord, End> {
    let known = run.record.as_ref().and_then(|record| record.get().end.clone());
    match known {
        Some(known) if !replaces(end) || known.code == end.cause.row().code => Ok(known),
        known => {
            take_back(run, end, known.as_ref())?;
            let planned = end_record(run, end, state, reason, known);
            if let Some(record) = &mut run.record {
                let kept = record.update(|record| record.end = Some(planned.clone()));
                kept.map_err(|fault| run.end_of_file(&fault))?;
            }
            Ok(planned)
        }
    }
}

fn put_finish(run: &mut Run, planned: EndRecord) -> Result<(), End> {
    let finish = RunFinish {
        state: planned.state,
        reason: planned.reason,
        costs: planned.costs,
        metrics: planned.metrics,
    };
    put(run, planned.finish_id, &Delivery::Finish(finish))
}

/// What was planned before and must not be sent any more: no answer after a stop, also not one that waited
/// for the server, and not two different ends.
fn take_back(run: &mut Run, end: &End, known: Option<&EndRecord>) -> Result<(), End> {
    if end.cause == Cause::Cancelled {
        drop_messages(run)?;
    }
    let Some(known) = known else { return Ok(()) };
    match run.store.settle(known.finish_id, &crate::sdk::outbox::Outcome::Dropped) {
        // Planned and not put yet: there is nothing to take back.
        Ok(_) | Err(StoreError::Unknown) => Ok(()),
        Err(fault) => Err(run.end_of_store(fault)),
    }
}

fn end_record(
    run: &Run,
    end: &End,
    state: RunState,
    reason: Option<String>,
    known: Option<EndRecord>,
) -> EndRecord {
    let code = end.cause.row().code;
    let sentence = |text: &String| SentenceRecord { id: key(run, "sentence", code), text: text.clone() };
    // The costs that a former life of the runner counted are not counted again.
    let (costs, metrics) = match known {
        Some(known) => (known.costs, known.metrics),
        None => (run.totals.costs.clone(), run.totals.metrics.clone()),
    };
    EndRecord {
        code: code.to_owned(),
        state,
        reason,
        sentence: end.sentence.as_ref().map(sentence),
        finish_id: key(run, "finish", code),
        costs,
        metrics,
    }
}

/// The same key in every life of the runner, also for a run without a record: a UUID of version 8 (RFC 9562)
/// over run, part and code of the end.
fn key(run: &Run, part: &str, code: &str) -> Uuid {
    let hash = Sha256::new()
        .chain_update(run.run_id.as_bytes())
        .chain_update(part.as_bytes())
        .chain_update([0])
        .chain_update(code.as_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_bytes(bytes).with_version(Version::Custom).with_variant(Variant::RFC4122).into_uuid()
}

fn put_sentence(run: &mut Run, planned: &EndRecord) -> Result<(), End> {
    let Some(sentence) = &planned.sentence else { return Ok(()) };
    let Ok(entry) = run.entry() else { return Ok(()) };
    let thread_id = entry.invocation.thread_id;
    let body = MessageCreate {
        client_msg_id: sentence.id,
        content_md: sentence.text.clone(),
        run_id: run.run_id,
        attachment_file_ids: None,
    };
    put(run, sentence.id, &Delivery::Message { thread_id, body })
}

fn put(run: &mut Run, key: Uuid, delivery: &Delivery) -> Result<(), End> {
    run.store.put(run.run_id, key, delivery).map(|_| ()).map_err(|fault| run.end_of_store(fault))
}

fn drop_messages(run: &mut Run) -> Result<(), End> {
    let pending = run.store.pending(run.run_id).map_err(|fault| run.end_of_store(fault))?;
    for message in pending.iter().filter(|pending| matches!(pending.delivery, Delivery::Message { .. })) {
        let dropped = crate::sdk::outbox::Outcome::Dropped;
        run.store.settle(message.key, &dropped).map_err(|fault| run.end_of_store(fault))?;
    }
    Ok(())
}

/// The server has ended the run: nothing is said any more.
fn forget_deliveries(run: &mut Run) -> Result<(), End> {
    run.store.drop_run(run.run_id).map(|_| ()).map_err(|fault| run.end_of_store(fault))
}

/// Proposes the title of a new session's first answer, once, whatever comes of it (M2-34 note 14).
fn propose_title(run: &mut Run) -> Result<(), End> {
    let Some(title) = run.title.take() else { return Ok(()) };
    let done = run.record.as_ref().is_none_or(|record| record.get().title_done);
    let Ok(thread_id) = run.entry().map(|entry| entry.invocation.thread_id) else { return Ok(()) };
    if done {
        return Ok(());
    }
    if let Some(record) = &mut run.record {
        let kept = record.update(|record| record.title_done = true);
        kept.map_err(|fault| run.end_of_file(&fault))?;
    }
    let proposed = run.bound.get_thread(thread_id).and_then(|thread| match thread.title_source {
        TitleSource::Auto => run.bound.set_thread_title(thread_id, thread.version, &title),
        TitleSource::Manual => Ok(()),
    });
    match proposed {
        Ok(()) => Ok(()),
        Err(RunError::Ended | RunError::ShutDown) => run.check_cancel(),
        Err(error) => {
            log::info!("code=title_not_set run={} error={}", run.run_id, error.code());
            Ok(())
        }
    }
}

/// The server knows: the run leaves directories, inbox and records, in this order, so that a crash in between
/// leaves something from which the next life of the runner does the rest.
fn close(run: &mut Run) -> Result<(), End> {
    answer_files::forget_all(run);
    // A missing directory is the aim; what cannot be removed is left to the retention.
    let _ = private::remove_dir_all(&run.shared.state.run_temp(run.run_id));
    run.store.close(run.run_id).map_err(|fault| run.end_of_store(fault))?;
    if let Some(record) = run.record.take() {
        for process in &record.get().processes {
            let files = run.shared.state.process(run.run_id, process.session, process.number);
            // One that was never written is gone already.
            let _ = std::fs::remove_file(files.pid);
        }
        if let Err(fault) = record.remove() {
            log::error!("code=record_not_removed run={} error={}", run.run_id, one_word(&fault));
        }
    }
    run.locks.release();
    Ok(())
}
