//! From an event to something durable: check, inbox, acknowledgement.
//!
//! Every event that is handled is acknowledged after its commit; one that cannot be stored, or whose key is
//! unknown, is left, and comes again.

use std::time::Instant;

use uuid::Uuid;

use super::courier::Job;
use super::{Phase, Runner};
use crate::run::Command;
use crate::run::end::Cause;
use crate::run::prepare;
use crate::sdk::bound::RunError;
use crate::sdk::client::ApiResult;
use crate::sdk::inbox::{Acceptance, EventRef, NewEntry};
use crate::sdk::jws::JwkSet;
use crate::sdk::store::StoreError;
use crate::sdk::verify::{Claims, Verdict};
use crate::sdk::wire::Time;
use crate::sdk::wire::event::{
    AgentConfigChanged, AgentFollowup, AgentInvocation, Event, PollAnswer, RunCancelRequested, kind,
};
use crate::sdk::wire::raw::RawJson;
use crate::sdk::wire::run::{FollowupState, RunFinish, RunInfo, RunState};

/// Longest part of an unknown event type that is logged.
const MAX_LOGGED_TYPE: usize = 64;

/// Reason of a stop whose event was lost.
const LOST_STOP: &str = "user_stop";

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handled {
    /// It is durable, or needs nothing: acknowledge it.
    Done,
    /// It must come again.
    Left,
}

impl Runner {
    /// Takes one answer of the long poll, which was asked for with the position `after`. Whether the next poll
    /// can bring anything else: an answer that is not empty and moves no position (its events have no `seq`)
    /// would come again at once, and for ever.
    pub(super) fn on_batch(&mut self, after: Option<i64>, answer: PollAnswer) -> bool {
        self.set_interval(answer.heartbeat_interval_ms);
        if answer.gap == Some(true) {
            self.on_gap();
        }
        let was_empty = answer.events.is_empty();
        let before = self.position;
        for raw in answer.events {
            match raw.read::<Event>() {
                // A position below zero is none: one in a list of acknowledgements makes the whole list invalid.
                Ok(event) if event.seq >= 0 => {
                    self.position = self.position.max(Some(event.seq));
                    self.take(event);
                }
                Ok(_) | Err(_) => self.set_aside(&raw),
            }
        }
        let is_stuck = !was_empty && after == before && self.position == before;
        if (was_empty || is_stuck) && self.phase == Phase::Draining {
            self.begin_serving();
        }
        !is_stuck
    }

    fn take(&mut self, event: Event) {
        let seq = event.seq;
        match self.handle(event) {
            Ok(Handled::Done) => self.courier.send(Job::Ack(seq)),
            Ok(Handled::Left) => {}
            Err(fault) => {
                log::error!("code=event_not_stored seq={seq} error={}", fault.code());
                self.due.poll_anew.grow();
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<Handled, StoreError> {
        if self.store.event_handled(event.event_id)? {
            return Ok(Handled::Done);
        }
        match event.kind.as_str() {
            kind::AGENT_INVOCATION => self.on_invocation(event),
            kind::RUN_CANCEL_REQUESTED => self.on_cancel_requested(&event),
            kind::AGENT_FOLLOWUP => self.on_followup(&event),
            kind::AGENT_CONFIG_CHANGED => self.on_config_changed(&event),
            other => {
                log::info!("code=event_ignored seq={} type={}", event.seq, loggable(other));
                self.store.mark_event_handled(&EventRef::from(&event))?;
                Ok(Handled::Done)
            }
        }
    }

    /// An event that is no event: acknowledged when it has a position, so that it blocks nobody (C7-03).
    fn set_aside(&mut self, raw: &RawJson) {
        let seq = raw.member::<i64>("seq").filter(|seq| *seq >= 0);
        log::warn!("code=event_malformed seq={}", seq.unwrap_or_default());
        if let Some(seq) = seq {
            self.position = self.position.max(Some(seq));
            self.courier.send(Job::Ack(seq));
        }
    }

    fn on_invocation(&mut self, event: Event) -> Result<Handled, StoreError> {
        let at = EventRef::from(&event);
        let Ok(invocation) = event.payload.read::<AgentInvocation>() else {
            return self.unreadable_invocation(&at, &event.payload);
        };
        let Some(verifier) = &self.verifier else { return Ok(Handled::Left) };
        match verifier.check(&invocation.invocation_token, &invocation, Time::now()) {
            Verdict::UnknownKid => Ok(self.wait_for_keys(event)),
            Verdict::Invalid(point) => {
                log::warn!("code=invalid_invocation_token run={} point={}", invocation.run_id, point.code());
                self.refuse(&at, invocation.run_id, Cause::InvalidToken)
            }
            Verdict::Valid(claims) | Verdict::Expired(claims) => self.accept(at, invocation, &claims),
        }
    }

    /// An invocation that does not fit the contract: its run is ended when it can be told which one it is. One
    /// without a token fails the first point of the token's check.
    fn unreadable_invocation(&mut self, at: &EventRef, payload: &RawJson) -> Result<Handled, StoreError> {
        let run_id = payload.member::<Uuid>("run_id");
        let has_token = payload.member::<String>("invocation_token").is_some();
        match run_id {
            Some(run_id) if has_token => self.refuse(at, run_id, Cause::EventMalformed),
            Some(run_id) => self.refuse(at, run_id, Cause::InvalidToken),
            None => self.malformed(at),
        }
    }

    fn accept(
        &mut self,
        event: EventRef,
        invocation: AgentInvocation,
        claims: &Claims,
    ) -> Result<Handled, StoreError> {
        let run_id = invocation.run_id;
        // A repeat is found below: point 7 of the check comes before 8 and 10.
        let not_allowed = prepare::not_allowed(&self.shared.config, claims.billing_mode, claims.tool_class);
        if let Some(cause) = not_allowed
            && !self.store.knows_jti(&claims.jti)?
        {
            return self.refuse(&event, run_id, cause);
        }
        let token = invocation.invocation_token.clone();
        let entry = NewEntry { event, invocation, jti: claims.jti.clone(), exp: claims.exp };
        let acceptance = self.store.accept(&entry)?;
        log::info!("code=invocation_taken run={run_id} outcome={}", acceptance_code(acceptance));
        match acceptance {
            Acceptance::New => self.launch_waiting(),
            Acceptance::NewerToken => self.newer_token(run_id, &token),
            Acceptance::Repeated | Acceptance::Closed | Acceptance::ForeignJti => {}
        }
        Ok(Handled::Done)
    }

    /// Stores that the run is to be finished with the reason of `cause`, unless the inbox knows the run.
    fn refuse(&mut self, event: &EventRef, run_id: Uuid, cause: Cause) -> Result<Handled, StoreError> {
        let reason = cause.row().finish.and_then(|(_, reason)| reason).unwrap_or_default();
        let stored = self.store.store_refusal(event, run_id, reason)?;
        log::warn!("code={} run={run_id} refused={}", cause.row().code, u8::from(stored));
        // Before it serves, no request of a run is sent; then all that wait are.
        if stored && self.phase == Phase::Serving {
            self.courier.send(refusal_job(run_id, reason));
        }
        Ok(Handled::Done)
    }

    fn newer_token(&mut self, run_id: Uuid, token: &str) {
        if let Some(handle) = self.table.get(run_id) {
            handle.token.replace(token.to_owned());
        }
        if self.parked.remove(&run_id).is_some() {
            self.launch_waiting();
        }
    }

    fn on_cancel_requested(&mut self, event: &Event) -> Result<Handled, StoreError> {
        let at = EventRef::from(event);
        let Ok(request) = event.payload.read::<RunCancelRequested>() else {
            return self.malformed(&at);
        };
        let open = self.store.store_stop(&at, request.run_id, &request.reason)?;
        log::info!("code=stop_requested run={} known={}", request.run_id, u8::from(open));
        self.stop_run(request.run_id, &request.reason);
        Ok(Handled::Done)
    }

    /// Ends what is done for a run whose stop is stored; one without a thread gets one for that.
    fn stop_run(&mut self, run_id: Uuid, reason: &str) {
        match self.table.get(run_id) {
            Some(handle) => handle.cancel.stop(reason),
            None => {
                self.parked.remove(&run_id);
                self.launch_waiting();
            }
        }
    }

    fn on_followup(&mut self, event: &Event) -> Result<Handled, StoreError> {
        let at = EventRef::from(event);
        let Ok(followup) = event.payload.read::<AgentFollowup>() else {
            return self.malformed(&at);
        };
        self.store.store_followup(&at, &followup)?;
        let stored = self.store.followup(followup.followup_id)?;
        let settled =
            stored.and_then(|stored| stored.state).is_some_and(|state| state != FollowupState::Delivered);
        // Before it serves, the runner has no threads; those that begin then look into the inbox.
        if !settled && self.phase != Phase::Draining {
            self.pass_followup(followup)?;
        }
        Ok(Handled::Done)
    }

    /// To the run's thread, or, when it has none, back to the server: nobody can read it.
    pub(super) fn pass_followup(&mut self, followup: AgentFollowup) -> Result<(), StoreError> {
        let (run_id, followup_id) = (followup.run_id, followup.followup_id);
        if let Some(handle) = self.table.get(run_id) {
            handle.tell(Command::Followup(Box::new(followup)));
            return Ok(());
        }
        let stored = self.store.newest_token(run_id)?;
        match stored.or_else(|| self.late_tokens.get(&run_id).map(|token| token.newest())) {
            Some(token) => self.courier.send(Job::RefuseFollowup { run_id, followup_id, token }),
            None => log::warn!("code=followup_without_run run={run_id}"),
        }
        Ok(())
    }

    pub(super) fn on_followup_refused(&mut self, followup_id: Uuid, result: Result<(), RunError>) {
        match result {
            // The server ended the run, or knows better what became of the message.
            Ok(()) | Err(RunError::Ended | RunError::Problem(_)) => {
                if let Err(fault) = self.store.settle_followup(followup_id, FollowupState::Refused) {
                    log::error!("code=store_failed error={}", fault.code());
                }
            }
            Err(error) => {
                log::warn!("code=followup_report_failed error={}", error.code());
                self.due.refusals.grow();
            }
        }
    }

    fn on_config_changed(&mut self, event: &Event) -> Result<Handled, StoreError> {
        let at = EventRef::from(event);
        let Ok(changed) = event.payload.read::<AgentConfigChanged>() else {
            return self.malformed(&at);
        };
        self.store.mark_event_handled(&at)?;
        if self.channel_loads.changed(changed.channel_id) {
            self.courier.send(Job::LoadChannel(changed.channel_id));
        }
        Ok(Handled::Done)
    }

    fn malformed(&mut self, event: &EventRef) -> Result<Handled, StoreError> {
        log::warn!("code=event_malformed seq={}", event.seq);
        self.store.mark_event_handled(event)?;
        Ok(Handled::Done)
    }

    /// Keeps the event until the keys are loaded, which happens at most once per
    /// `adapter.jwks_refresh_min_interval`; otherwise leaves it to come again after that time.
    fn wait_for_keys(&mut self, event: Event) -> Handled {
        let now = Instant::now();
        let waiting = !self.waiting_for_keys.is_empty();
        let may_load = self.verifier.as_ref().is_some_and(|verifier| verifier.needs_reload(now));
        if waiting || may_load {
            self.waiting_for_keys.push(event);
        } else {
            self.see_again();
        }
        if may_load && let Some(verifier) = &mut self.verifier {
            verifier.reload_started(now);
            self.courier.send(Job::LoadKeys);
        }
        Handled::Left
    }

    fn see_again(&mut self) {
        log::warn!("code=kid_unknown");
        // The events that come meanwhile must not put the look off for ever.
        let then = Instant::now() + self.shared.config.adapter.jwks_refresh_min_interval;
        self.due.poll_anew.set_no_later(then);
    }

    pub(super) fn on_keys(&mut self, result: ApiResult<JwkSet>) {
        let events = std::mem::take(&mut self.waiting_for_keys);
        match result {
            Err(error) => {
                log::warn!("code=keys_not_loaded error={}", error.code());
                self.see_again();
            }
            Ok(keys) => {
                if let Some(verifier) = &mut self.verifier {
                    verifier.loaded(keys);
                }
                events.into_iter().for_each(|event| self.take(event));
            }
        }
    }

    /// Sends every refusal the server has not confirmed, but none before it had nothing more to say.
    pub(super) fn send_refusals(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        match self.store.pending_refusals() {
            Err(fault) => log::error!("code=store_failed error={}", fault.code()),
            Ok(refusals) => {
                for refusal in refusals {
                    self.courier.send(refusal_job(refusal.run_id, &refusal.reason));
                }
            }
        }
        self.refuse_orphaned_followups();
    }

    /// Follow-ups whose run has ended here and whose report did not reach the server. A run that is open and
    /// has no thread now will look after its own.
    fn refuse_orphaned_followups(&mut self) {
        let runs = self.store.runs_with_open_followups().unwrap_or_default();
        for run_id in runs {
            let open = self.store.newest_token(run_id).is_ok_and(|token| token.is_some());
            if !open && self.table.get(run_id).is_none() {
                self.refuse_left_followups(run_id);
            }
        }
    }

    pub(super) fn on_refused(&mut self, run_id: Uuid, result: ApiResult<()>) {
        match result {
            Ok(()) => {
                self.due.refusals.reset();
                if let Err(fault) = self.store.settle_refusal(run_id) {
                    log::error!("code=store_failed error={}", fault.code());
                }
            }
            Err(error) => {
                let wait = self.due.refusals.grow();
                log::warn!(
                    "code=refusal_not_sent run={run_id} error={} wait_ms={}",
                    error.code(),
                    wait.as_millis()
                );
            }
        }
    }

    /// Events were lost: what they said is asked for, once stops that wait have been seen.
    fn on_gap(&mut self) {
        self.events_lost = true;
        if self.phase == Phase::Serving {
            self.events_lost = false;
            self.ask_open_runs();
        }
    }

    pub(super) fn ask_open_runs(&mut self) {
        let open = self.store.open_entries().unwrap_or_default();
        log::warn!("code=events_lost runs={}", open.len());
        for entry in open {
            self.courier.send(Job::AskRun(entry.run_id));
        }
    }

    pub(super) fn on_run_state(&mut self, run_id: Uuid, result: ApiResult<Option<RunInfo>>) {
        let state = match result {
            Ok(Some(run)) => {
                self.due.lost.reset();
                run.state
            }
            // Only a final state says that the run has ended.
            Ok(None) => return log::warn!("code=run_state_unknown run={run_id} error=not_found"),
            Err(error) => {
                log::warn!("code=run_state_unknown run={run_id} error={}", error.code());
                // A stop may be among what was lost: asked again, until the server has said how it is.
                self.due.lost.grow();
                return;
            }
        };
        match self.table.get(run_id) {
            Some(handle) if state.is_final() => handle.cancel.server_ended(),
            None if state.is_final() => self.forget_run(run_id),
            // Its stop is among the lost events; the commonest reason stands for the one that is not known.
            Some(_) | None if state == RunState::Cancelling => {
                if let Err(fault) = self.store.store_lost_stop(run_id, LOST_STOP) {
                    log::error!("code=store_failed error={}", fault.code());
                }
                self.stop_run(run_id, LOST_STOP);
            }
            Some(_) | None => {}
        }
    }

    /// A run without a thread that the server has ended.
    fn forget_run(&mut self, run_id: Uuid) {
        self.parked.remove(&run_id);
        if let Err(fault) = self.store.close(run_id) {
            log::error!("code=store_failed error={}", fault.code());
        }
    }
}

fn refusal_job(run_id: Uuid, reason: &str) -> Job {
    let reason = Some(reason.to_owned());
    Job::Refuse(run_id, RunFinish { state: RunState::Failed, reason, costs: None, metrics: None })
}

fn acceptance_code(acceptance: Acceptance) -> &'static str {
    match acceptance {
        Acceptance::New => "new",
        Acceptance::NewerToken => "newer_token",
        Acceptance::Repeated => "repeated",
        Acceptance::Closed => "closed",
        Acceptance::ForeignJti => "foreign_jti",
    }
}

/// An event type as it may stand in a log: the server's text is not trusted to be short or clean.
fn loggable(kind: &str) -> String {
    let clean = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    kind.chars().map(|c| if clean(c) { c } else { '_' }).take(MAX_LOGGED_TYPE).collect()
}
