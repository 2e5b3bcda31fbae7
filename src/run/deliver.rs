//! The outbox of one run, emptied in its order: answers, follow-up states, `finishRun`.
//!
//! A delivery that the server cannot take now waits with growing waits and is given up after
//! `adapter.max_event_age`. One that the server refuses for good has its consequence in `answer`.

use std::time::Duration;

use serde_json::Value;

use super::end::{Cause, End};
use super::{Run, answer};
use crate::sdk::bound::{Bound, RunError};
use crate::sdk::outbox::{Delivery, Outcome, Pending};
use crate::sdk::wire::Time;
use crate::sdk::wire::problem::{Problem, code};

/// From this HTTP status on the fault is the server's and passes, such as a full storage: only a 4xx is its last
/// word.
const FIRST_SERVER_FAULT: u16 = 500;

/// What of the outbox comes next.
pub enum Next {
    /// Send this one now.
    Send(Box<Pending>),
    /// Look again after that time.
    Later(Duration),
    /// Nothing waits.
    Nothing,
}

/// What of the run's outbox comes next; only its first delivery may be sent.
///
/// # Errors
/// The outbox cannot be read.
pub fn next(run: &Run) -> Result<Next, End> {
    let pending = run.store.pending(run.run_id).map_err(|fault| run.end_of_store(fault))?;
    let Some(first) = pending.into_iter().next() else { return Ok(Next::Nothing) };
    let wait = first.wait(Time::now());
    Ok(if wait.is_zero() { Next::Send(Box::new(first)) } else { Next::Later(wait) })
}

/// Sends everything, however long it takes.
///
/// # Errors
/// The end that was asked for meanwhile, that the server decided, or that a refused answer means.
pub fn drain(run: &mut Run) -> Result<(), End> {
    loop {
        match next(run)? {
            Next::Nothing => return Ok(()),
            Next::Later(wait) => run.pause(wait)?,
            Next::Send(delivery) => {
                let result = attempt(&run.bound, &delivery.delivery);
                answered(run, &delivery, result)?;
            }
        }
    }
}

/// What follows from one attempt.
///
/// # Errors
/// As [`drain`].
pub fn answered(run: &mut Run, next: &Pending, result: Result<Value, RunError>) -> Result<(), End> {
    match result {
        Ok(answer) => settle(run, next, &Outcome::Delivered(answer)),
        Err(RunError::Problem(problem)) if problem.status < FIRST_SERVER_FAULT => {
            refused(run, next, *problem)
        }
        Err(RunError::Problem(_) | RunError::Hold(_) | RunError::Transport(_)) => wait(run, next),
        // `finishRun` of a run that the server has ended is what was wanted.
        Err(RunError::Ended) if matches!(next.delivery, Delivery::Finish(_)) => {
            settle(run, next, &Outcome::Dropped)
        }
        Err(error) => Err(run.end_of_request(&error, Cause::ServerEnded)),
    }
}

/// One attempt; its answer as JSON.
///
/// # Errors
/// As the request.
pub fn attempt(bound: &Bound, delivery: &Delivery) -> Result<Value, RunError> {
    match delivery {
        Delivery::Message { thread_id, body } => {
            let created = bound.create_message(*thread_id, body)?;
            Ok(serde_json::to_value(created).unwrap_or_default())
        }
        Delivery::Finish(finish) => bound.finish_run(finish).map(|()| Value::Null),
        Delivery::Followup { followup_id, state } => {
            bound.report_followup(*followup_id, *state).map(|()| Value::Null)
        }
    }
}

fn settle(run: &mut Run, next: &Pending, outcome: &Outcome) -> Result<(), End> {
    run.store.settle(next.key, outcome).map_err(|fault| run.end_of_store(fault))?;
    if matches!(next.delivery, Delivery::Message { .. }) {
        answer::settled(run, next.key)?;
    }
    Ok(())
}

fn refused(run: &mut Run, next: &Pending, problem: Problem) -> Result<(), End> {
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
    Ok(())
}

fn wait(run: &mut Run, next: &Pending) -> Result<(), End> {
    let now = Time::now();
    let age = u128::try_from(now.as_millis().saturating_sub(next.stored_at.as_millis())).unwrap_or(0);
    if age > run.shared.config.adapter.max_event_age.as_millis() {
        log::error!("code=delivery_given_up run={}", run.run_id);
        return settle(run, next, &Outcome::Dropped);
    }
    run.store.attempt_failed(next.key, now).map(|_| ()).map_err(|fault| run.end_of_store(fault))
}
