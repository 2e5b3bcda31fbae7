//! The outbox of one run, emptied in its order: answers, follow-up states, `finishRun`.
//!
//! A delivery that the server cannot take now waits with growing waits and is given up after
//! `adapter.max_event_age`. One that the server refuses for good has its consequence in `answer`.

use std::time::Duration;

use super::end::{Cause, End};
use super::{Run, answer};
use crate::sdk::bound::RunError;
use crate::sdk::outbox::{Delivery, Outcome, Pending};
use crate::sdk::wire::Time;
use crate::sdk::wire::problem::{Problem, code};

/// Sends what is due. Gives the moment of the next attempt while something waits, `None` when nothing does.
///
/// # Errors
/// The end that was asked for meanwhile, that the server decided, or that a refused answer means.
pub fn pump(run: &mut Run) -> Result<Option<Time>, End> {
    loop {
        let pending = run.store.pending(run.run_id).map_err(|fault| run.end_of_store(fault))?;
        let Some(next) = pending.into_iter().next() else { return Ok(None) };
        if next.next_try > Time::now() {
            return Ok(Some(next.next_try));
        }
        if let Some(later) = send(run, &next)? {
            return Ok(Some(later));
        }
    }
}

/// Sends everything, however long it takes.
///
/// # Errors
/// As [`pump`].
pub fn drain(run: &mut Run) -> Result<(), End> {
    while let Some(next) = pump(run)? {
        let wait = next.as_millis().saturating_sub(Time::now().as_millis());
        run.pause(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))?;
    }
    Ok(())
}

/// One attempt. `Some`: it failed and may be made again at that moment.
fn send(run: &mut Run, next: &Pending) -> Result<Option<Time>, End> {
    match attempt(run, &next.delivery) {
        Ok(answer) => settle(run, next, &Outcome::Delivered(answer)),
        Err(RunError::Problem(problem)) => refused(run, next, *problem),
        Err(RunError::Hold(_) | RunError::Transport(_)) => wait(run, next),
        // `finishRun` of a run that the server has ended is what was wanted.
        Err(RunError::Ended) if matches!(next.delivery, Delivery::Finish(_)) => {
            settle(run, next, &Outcome::Dropped)
        }
        Err(error) => Err(run.end_of_request(&error, Cause::ServerEnded)),
    }
}

fn attempt(run: &Run, delivery: &Delivery) -> Result<serde_json::Value, RunError> {
    match delivery {
        Delivery::Message { thread_id, body } => {
            let created = run.bound.create_message(*thread_id, body)?;
            Ok(serde_json::to_value(created).unwrap_or_default())
        }
        Delivery::Finish(finish) => run.bound.finish_run(finish).map(|_| serde_json::Value::Null),
        Delivery::Followup { followup_id, state } => {
            run.bound.report_followup(*followup_id, *state).map(|()| serde_json::Value::Null)
        }
    }
}

fn settle(run: &mut Run, next: &Pending, outcome: &Outcome) -> Result<Option<Time>, End> {
    run.store.settle(next.key, outcome).map_err(|fault| run.end_of_store(fault))?;
    if matches!(next.delivery, Delivery::Message { .. }) {
        answer::settled(run, next.key)?;
    }
    Ok(None)
}

fn refused(run: &mut Run, next: &Pending, problem: Problem) -> Result<Option<Time>, End> {
    log::warn!("code=delivery_refused run={} problem={}", run.run_id, problem.code);
    // A finished run, or a follow-up with another final state, is told once: the server knows better.
    let known = problem.is(code::INVALID_STATE_TRANSITION);
    run.store
        .settle(next.key, &Outcome::Refused(problem.clone()))
        .map_err(|fault| run.end_of_store(fault))?;
    match &next.delivery {
        Delivery::Message { body, .. } => answer::refused(run, next.key, body, &problem)?,
        Delivery::Finish(_) | Delivery::Followup { .. } if known => {}
        Delivery::Finish(_) | Delivery::Followup { .. } => {
            log::error!("code=report_refused run={} problem={}", run.run_id, problem.code);
        }
    }
    Ok(None)
}

fn wait(run: &mut Run, next: &Pending) -> Result<Option<Time>, End> {
    let now = Time::now();
    let age = u128::try_from(now.as_millis().saturating_sub(next.stored_at.as_millis())).unwrap_or(0);
    if age > run.shared.config.adapter.max_event_age.as_millis() {
        log::error!("code=delivery_given_up run={}", run.run_id);
        return settle(run, next, &Outcome::Dropped);
    }
    run.store.attempt_failed(next.key, now).map(Some).map_err(|fault| run.end_of_store(fault))
}
