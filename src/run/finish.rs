//! The end of a run: told to the person and the server, then forgotten. Every end comes through here.
//!
//! Order that must hold: what is to be said is in the outbox and the record before it is sent, and the inbox
//! entry is closed only after the server knows. A crash anywhere in between says the same again.

use uuid::Uuid;

use super::end::{Cause, End};
use super::live_box::LiveBox;
use super::record::{EndRecord, SentenceRecord};
use super::turn::ladder;
use super::{Outcome, Run, answer_files, deliver, followup};
use crate::claude::usage::Usage;
use crate::sdk::bound::RunError;
use crate::sdk::client::Client;
use crate::sdk::outbox::Delivery;
use crate::sdk::wire::message::{MessageCreate, TitleSource};
use crate::sdk::wire::run::{CostReport, FollowupState, RunFinish, RunMetrics, RunState};

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
    /// The totals of a turn.
    pub fn of(usage: &Usage, live_box: &LiveBox) -> Totals {
        let report = |cost: crate::claude::usage::ModelCost| CostReport {
            provider: PROVIDER.into(),
            model: cost.model,
            tokens_in: cost.tokens.input,
            tokens_out: cost.tokens.output,
            tokens_cache_read: cost.tokens.cache_read,
            tokens_cache_write: cost.tokens.cache_write,
            amount_micros: cost.amount_micros,
            currency: CURRENCY.into(),
        };
        let tokens = usage.tokens();
        let metrics = RunMetrics {
            tokens_in: Some(tokens.input),
            tokens_out: Some(tokens.output),
            tokens_cache_read: Some(tokens.cache_read),
            tokens_cache_write: Some(tokens.cache_write),
            context_pct: live_box.context_pct(),
            subagents: Some(live_box.subagents()),
            background_jobs: None,
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
        Cause::Superseded => return Outcome::Parked,
        _ => {}
    }
    ladder::clear_away(&mut run);
    finish_with_own_client(&mut run);
    match conclude(&mut run, end) {
        Ok(()) => {
            close(run);
            Outcome::Ended
        }
        // What was not said is durable; the next life of the runner says it.
        Err(left) => {
            log::warn!("code=finish_left run={} cause={}", run.run_id, left.cause.row().code);
            Outcome::Detached
        }
    }
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
    if end.cause != Cause::Cancelled {
        propose_title(run)?;
    }
    let open = if end.cause == Cause::Cancelled { FollowupState::Absorbed } else { FollowupState::Refused };
    followup::settle_open(run, open)?;
    answer_files::abort_open(run);
    run.document.flush_all(&run.bound);
    plan(run, end, state, reason)?;
    match deliver::drain(run) {
        Err(ended) if ended.cause == Cause::ServerEnded => forget_deliveries(run),
        other => other,
    }
}

/// Stores everything that is still to be said, once: a planned end of a former life stays as it was.
fn plan(run: &mut Run, end: &End, state: RunState, reason: Option<String>) -> Result<(), End> {
    if end.cause == Cause::Cancelled {
        // No answer after a stop, also not one that was waiting for the server.
        drop_messages(run)?;
    }
    let planned = match run.record.as_ref().and_then(|record| record.get().end.clone()) {
        Some(planned) => planned,
        None => {
            let planned = EndRecord {
                code: end.cause.row().code.to_owned(),
                state,
                reason,
                sentence: end
                    .sentence
                    .as_ref()
                    .map(|text| SentenceRecord { id: Uuid::now_v7(), text: text.clone() }),
                finish_id: Uuid::now_v7(),
                costs: run.totals.costs.clone(),
                metrics: run.totals.metrics.clone(),
            };
            if let Some(record) = &mut run.record {
                let kept = record.update(|record| record.end = Some(planned.clone()));
                kept.map_err(|fault| run.end_of_file(&fault))?;
            }
            planned
        }
    };
    put_sentence(run, &planned)?;
    let finish = RunFinish {
        state: planned.state,
        reason: planned.reason,
        costs: planned.costs,
        metrics: planned.metrics,
    };
    put(run, planned.finish_id, &Delivery::Finish(finish))
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

/// The server knows: the run leaves inbox, records and directories.
fn close(mut run: Run) {
    if let Err(fault) = run.store.close(run.run_id) {
        log::error!("code=store_failed run={} error={}", run.run_id, fault.code());
        return;
    }
    answer_files::forget_all(&run);
    if let Some(record) = run.record.take() {
        for process in &record.get().processes {
            let files = run.shared.state.process(run.run_id, process.session, process.number);
            // One that was never written is gone already.
            let _ = std::fs::remove_file(files.pid);
        }
        if let Err(fault) = record.remove() {
            log::error!("code=record_not_removed run={} error={}", run.run_id, fault.kind());
        }
    }
    let state = &run.shared.state;
    for directory in [state.run_temp(run.run_id), state.run_outgoing(run.run_id)] {
        // A missing directory is the aim; what cannot be removed is left to the retention.
        let _ = std::fs::remove_dir_all(directory);
    }
    run.locks.release();
}
