//! Run threads: when they begin, what they are given, what is done when they end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::unbounded;
use uuid::Uuid;

use super::Runner;
use super::courier::Job;
use super::status::Phase;
use super::table::RunHandle;
use crate::run::cancel::Cancel;
use crate::run::record;
use crate::run::{Command, Outcome, RunSays, RunThread, ToMain};
use crate::sdk::bound::TokenCell;
use crate::sdk::inbox::Entry;
use crate::sdk::wire::Time;
use crate::sys::fault::one_word;
use crate::sys::pipe;

/// Most run threads at once; runs beyond it wait in the inbox without one. Far above any useful
/// `runner.max_parallel_runs`, and small enough that waiting threads cost little memory.
const MAX_RUN_THREADS: usize = 64;

/// Most tokens of ended runs kept for follow-ups that come late.
const MAX_LATE_TOKENS: usize = 256;

impl Runner {
    /// The server has nothing more to say: take over the turns of the last runner, start what waits.
    pub(super) fn begin_serving(&mut self) {
        self.phase = Phase::Serving;
        log::info!("code=serving");
        self.adopt_orphans();
        self.launch_waiting();
        self.send_refusals();
        if std::mem::take(&mut self.events_lost) {
            self.ask_open_runs();
        }
        self.sweep();
    }

    /// Turn records whose run the inbox does not know: the inbox was lost. Their processes must not stay.
    fn adopt_orphans(&mut self) {
        let records = record::list(&self.shared.state.turns()).unwrap_or_default();
        for (run_id, _) in records {
            match self.store.entry(run_id) {
                Ok(Some(entry)) if entry.state != crate::sdk::inbox::EntryState::Closed => {}
                Ok(_) => self.launch(run_id, None),
                Err(fault) => log::error!("code=store_failed error={}", fault.code()),
            }
        }
    }

    /// Gives every open entry a thread, the oldest first, up to the bound. A run with a stop gets one beyond
    /// the bound, because a stop ends a queued run at once.
    pub(super) fn launch_waiting(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let entries = match self.store.open_entries() {
            Ok(entries) => entries,
            Err(fault) => {
                log::error!("code=store_failed error={}", fault.code());
                return;
            }
        };
        for entry in entries {
            let has_thread =
                self.table.get(entry.run_id).is_some() || self.parked.contains_key(&entry.run_id);
            let has_room = self.table.len() < MAX_RUN_THREADS || entry.stop.is_some();
            if !has_thread && has_room {
                self.launch(entry.run_id, Some(entry));
            }
        }
        self.grant_slots();
    }

    fn launch(&mut self, run_id: Uuid, entry: Option<Entry>) {
        let (waker, wakeup) = match pipe::waker() {
            Ok(pair) => pair,
            Err(fault) => return self.not_launched(run_id, &fault),
        };
        let (commands, inbox) = unbounded();
        let cancel = Arc::new(Cancel::new(waker.clone()));
        let token = TokenCell::new(entry.as_ref().map(|entry| entry.token.clone()).unwrap_or_default());
        if let Some(stop) = entry.as_ref().and_then(|entry| entry.stop.as_ref()) {
            cancel.stop(&stop.reason);
        }
        let mode = entry.as_ref().map(|entry| entry.invocation.billing_mode);
        let main = ToMain::new(run_id, self.outbound.runs.clone());
        let shared = Arc::clone(&self.shared);
        let run = RunThread {
            run_id,
            entry,
            token: token.clone(),
            cancel: Arc::clone(&cancel),
            commands: inbox,
            wakeup,
            main,
        };
        // The name is cut by the system at fifteen bytes: the head of the id is enough to find the run.
        let name = format!("run-{}", &run_id.to_string()[..8]);
        let thread = std::thread::Builder::new().name(name).spawn(move || run.work(shared));
        match thread {
            Ok(thread) => {
                self.slots.enter(run_id, mode);
                let handle = RunHandle {
                    cancel,
                    commands,
                    waker,
                    token,
                    thread,
                    since: Time::now(),
                    turn_lives: false,
                    ahead: None,
                };
                self.table.insert(run_id, handle);
            }
            Err(fault) => self.not_launched(run_id, &fault),
        }
    }

    /// The run stays in the inbox; the next end of a run, or the next look, tries again.
    fn not_launched(&mut self, run_id: Uuid, fault: &std::io::Error) {
        log::error!("code=run_thread_refused run={run_id} error={}", one_word(fault));
    }

    pub(super) fn on_run(&mut self, run_id: Uuid, event: RunSays) {
        match event {
            RunSays::WantsSlot => {
                self.slots.ask(run_id);
                self.grant_slots();
            }
            RunSays::TurnLives => {
                self.slots.hold(run_id);
                if let Some(handle) = self.table.get_mut(run_id) {
                    handle.turn_lives = true;
                }
            }
            RunSays::Ended(outcome) => self.on_ended(run_id, outcome),
        }
    }

    fn on_ended(&mut self, run_id: Uuid, outcome: Outcome) {
        self.slots.leave(run_id);
        let mut generation = None;
        if let Some(handle) = self.table.remove(run_id) {
            if handle.thread.join().is_err() {
                log::error!("code=panicked run={run_id}");
            }
            generation = Some(handle.token.generation());
            self.keep_late_token(run_id, handle.token);
        }
        match outcome {
            Outcome::Ended => {
                self.sweep();
                self.refuse_left_followups(run_id);
            }
            // A newer token may have come in the meantime; then the run goes on at once.
            Outcome::Parked { generation: used } if generation == Some(used) => {
                self.park(run_id, self.shared.config.adapter.max_event_age);
            }
            Outcome::Parked { .. } | Outcome::Detached => {}
            Outcome::Left => self.park(run_id, super::clock::PARKED_LOOK),
        }
        self.launch_waiting();
    }

    /// Gives the run no thread for `time`, unless something happens to it.
    fn park(&mut self, run_id: Uuid, time: std::time::Duration) {
        let now = Instant::now();
        self.parked.insert(run_id, now.checked_add(time).unwrap_or(now));
    }

    /// Follow-ups that reached the inbox while the run thread was ending.
    pub(super) fn refuse_left_followups(&mut self, run_id: Uuid) {
        for open in self.store.open_followups(run_id).unwrap_or_default() {
            if let Err(fault) = self.pass_followup(open.followup) {
                log::error!("code=store_failed error={}", fault.code());
            }
        }
    }

    fn keep_late_token(&mut self, run_id: Uuid, token: TokenCell) {
        if self.late_tokens.len() >= MAX_LATE_TOKENS {
            self.late_tokens.clear();
        }
        self.late_tokens.insert(run_id, token);
    }

    fn grant_slots(&mut self) {
        for run_id in self.slots.grant() {
            if let Some(handle) = self.table.get(run_id) {
                handle.tell(Command::Slot);
            }
        }
        let places: Vec<_> = self.slots.ahead().collect();
        for (run_id, ahead) in places {
            if let Some(handle) = self.table.get_mut(run_id)
                && handle.ahead != Some(ahead)
            {
                handle.ahead = Some(ahead);
                handle.tell(Command::Ahead(ahead));
            }
        }
    }

    /// Runs whose newer token never came are given a thread again: `prepare` finds them too old and says so.
    /// So are those whose durable state could not be used.
    pub(super) fn release_parked(&mut self, now: Instant) {
        self.parked.retain(|_, until| now < *until);
        self.launch_waiting();
        self.due.parked.set(now + super::clock::PARKED_LOOK);
    }

    fn sweep(&mut self) {
        let retention = self.shared.config.runner.stream_log_retention;
        let mut active: HashSet<Uuid> = self.table.iter().map(|(run_id, _)| *run_id).collect();
        let records = record::list(&self.shared.state.turns()).unwrap_or_default();
        active.extend(records.into_iter().map(|(run_id, _)| run_id));
        self.courier.send(Job::Sweep(self.shared.state.clone(), retention, active));
        let window = self.shared.config.adapter.max_event_age;
        if let Err(fault) = self.store.forget_older(Time::now(), window) {
            log::error!("code=store_failed error={}", fault.code());
        }
    }
}
