//! One run, one thread. Read this second, after the map in `lib.rs`.
//!
//! The flow of a run is [`flow`]: `prepare`, `start`, `turn` (which posts an `answer` at every result), and
//! whatever happens, `finish`. Every way a run can end is a value [`End`], a panic included, so no error path
//! skips `finish`. Adoption after a restart rebuilds the state from the turn record and enters at `turn`.
//!
//! A run thread blocks on its locks, its turn, and its requests; each of these ends when its [`Cancel`] says
//! so. It owns the turn record, the child, its stdin, and an own connection to the inbox.

pub mod adopt;
pub mod answer;
pub mod answer_files;
pub mod cancel;
pub mod channels;
pub mod deliver;
pub mod document;
pub mod end;
pub mod finish;
pub mod followup;
pub mod inbox_files;
pub mod live_box;
pub mod locks;
pub mod mask;
pub mod prepare;
pub mod record;
pub mod runtime;
pub mod shared;
pub mod start;
pub mod state_dir;
pub mod title;
pub mod turn;
pub mod waiting;
pub mod workspace;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use uuid::Uuid;

use crate::sdk::bound::{Bound, RunError, TokenCell};
use crate::sdk::inbox::Entry;
use crate::sdk::outbox::next_wait;
use crate::sdk::store::{Store, StoreError};
use crate::sdk::wire::event::AgentFollowup;
use crate::sys::fault::one_word;
use crate::sys::pipe::Wakeup;
use crate::sys::wait::{self, Interest};

use cancel::{Cancel, Reason};
use document::Document;
use end::{Cause, End};
use locks::Locks;
use mask::Mask;
use record::RecordFile;
pub use shared::{Shared, client_settings, parallel_limit};

/// What the person reads when files could not be transferred for too long.
const SERVER_AWAY: &str =
    "The chat server did not take the agent's requests for too long, so the run was ended. Please try again.";

/// What the main thread says to a run thread.
pub enum Command {
    /// A slot is free for this run.
    Slot,
    /// So many runs are ahead of this one.
    Ahead(u64),
    /// A message came for the run; it is in the inbox already.
    Followup(Box<AgentFollowup>),
}

/// What a run thread says to the main thread.
pub enum RunSays {
    /// It has its locks and asks for a slot.
    WantsSlot,
    /// Its turn's process lives.
    TurnLives,
    /// It is about to end; nothing follows.
    Ended(Outcome),
}

/// How a run thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run has ended.
    Ended,
    /// The run waits for a newer token than that of this generation.
    Parked {
        /// Of the run's token cell when the start was refused.
        generation: u64,
    },
    /// The runner stops; the run is left as it is.
    Detached,
    /// Something durable could not be read or written; the run is left for a later attempt.
    Left,
}

/// The run thread's line to the main thread.
#[derive(Clone)]
pub struct ToMain {
    run_id: Uuid,
    sender: Sender<(Uuid, RunSays)>,
}

impl ToMain {
    /// A line that speaks for `run_id`.
    pub fn new(run_id: Uuid, sender: Sender<(Uuid, RunSays)>) -> ToMain {
        ToMain { run_id, sender }
    }

    fn say(&self, what: RunSays) {
        // Main has gone only when the whole runner ends.
        let _ = self.sender.send((self.run_id, what));
    }
}

/// What a run thread is started with.
pub struct RunThread {
    /// The run.
    pub run_id: Uuid,
    /// Its inbox entry; `None` when the inbox was lost and only a turn record is left.
    pub entry: Option<Entry>,
    /// Its newest token, replaced by the main thread when a newer one comes.
    pub token: TokenCell,
    /// Ends whatever the thread does.
    pub cancel: Arc<Cancel>,
    /// From the main thread.
    pub commands: Receiver<Command>,
    /// Woken for commands and cancel.
    pub wakeup: Wakeup,
    /// To the main thread.
    pub main: ToMain,
}

impl RunThread {
    /// The body of the thread.
    pub fn work(self, shared: Arc<Shared>) {
        let run_id = self.run_id;
        let mut last = LastWord { main: self.main.clone(), outcome: Outcome::Left };
        last.outcome = match Run::open(self, shared) {
            Ok(run) => run_one(run),
            Err(fault) => {
                // Without its inbox nothing can be done durably; the run stays in it for a later attempt.
                log::error!("code=run_not_opened run={run_id} error={}", fault.code());
                Outcome::Left
            }
        };
    }
}

/// Tells the main thread of the end of the run thread, a panic of its last steps included.
struct LastWord {
    main: ToMain,
    outcome: Outcome,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.main.say(RunSays::Ended(self.outcome));
    }
}

/// Everything one run thread works with.
pub struct Run {
    run_id: Uuid,
    shared: Arc<Shared>,
    entry: Option<Entry>,
    store: Store,
    bound: Bound,
    token: TokenCell,
    cancel: Arc<Cancel>,
    commands: Receiver<Command>,
    wakeup: Wakeup,
    main: ToMain,
    document: Document,
    mask: Mask,
    locks: Locks,
    record: Option<RecordFile>,
    /// What the turn used.
    totals: finish::Totals,
    /// The title to propose once the run has completed.
    title: Option<String>,
    /// How often the server could not be reached in a row.
    unreachable: Cell<u32>,
    /// How long it has waited for the server since its start, in all.
    waited: Cell<Duration>,
    /// The process of the turn, here so that no end of the run can forget it.
    live: Option<turn::process::Live>,
    /// Start time of the newest process whose leftovers were not ended yet, whether it lives or not.
    leftovers_since: Option<u64>,
    /// The token's generation that `startRun` was last asked with.
    start_generation: u64,
}

/// Works on one run until its end, which `finish` then makes known.
fn run_one(mut run: Run) -> Outcome {
    let end = catch_unwind(AssertUnwindSafe(|| flow(&mut run))).unwrap_or_else(|_| End::by(Cause::Panicked));
    log::info!("code={} run={}", end.cause.row().code, run.run_id);
    finish::finish(run, &end)
}

/// The flow of a run.
fn flow(run: &mut Run) -> End {
    let steps = |run: &mut Run| -> Result<End, End> {
        let turn = match adopt::find(run)? {
            Some(turn) => turn,
            None => {
                let prepared = prepare::prepare(run)?;
                start::start(run, prepared)?
            }
        };
        turn::follow(run, turn)
    };
    steps(run).unwrap_or_else(|end| end)
}

impl Run {
    fn open(thread: RunThread, shared: Arc<Shared>) -> Result<Run, StoreError> {
        let store = Store::connect(&shared.state.inbox())?;
        let client = shared.client.fork();
        thread.cancel.guard(client.clone());
        let bound = client.bind(thread.run_id, thread.token.clone());
        keep_renewed_tokens(&thread.token, thread.run_id, &shared);
        let mask = Mask::of(&shared, &thread.token);
        Ok(Run {
            run_id: thread.run_id,
            document: Document::new(shared.config.agent.run_update_min_interval),
            shared,
            entry: thread.entry,
            store,
            bound,
            token: thread.token,
            cancel: thread.cancel,
            commands: thread.commands,
            wakeup: thread.wakeup,
            main: thread.main,
            mask,
            locks: Locks::default(),
            record: None,
            totals: finish::Totals::default(),
            title: None,
            unreachable: Cell::new(0),
            waited: Cell::new(Duration::ZERO),
            live: None,
            leftovers_since: None,
            start_generation: 0,
        })
    }

    /// The inbox entry.
    ///
    /// # Errors
    /// The end of a run whose entry was lost: its turn cannot be answered any more.
    fn entry(&self) -> Result<&Entry, End> {
        self.entry.as_ref().ok_or(End::by(Cause::RunnerRestarted))
    }

    /// Ends the run when somebody asked for that.
    fn check_cancel(&self) -> Result<(), End> {
        self.cancel.reason().map_or(Ok(()), |reason| Err(end_of(&reason)))
    }

    /// Waits until something wakes the thread, but at most `time`.
    ///
    /// # Errors
    /// The end that was asked for meanwhile.
    fn pause(&self, time: Duration) -> Result<(), End> {
        self.check_cancel()?;
        if wait::wait(&[(self.wakeup_fd(), Interest::Read)], time).is_ok() {
            self.wakeup.drain();
        }
        self.check_cancel()
    }

    /// Waits before a request is made again that the server could not answer: longer each time, before the start
    /// until the event is too old, after it for `adapter.max_event_age` in all.
    fn wait_for_server(&self) -> Result<(), End> {
        let failures = self.unreachable.get().saturating_add(1);
        let wait = next_wait(failures);
        self.check_patience(wait)?;
        self.unreachable.set(failures);
        log::warn!("code=server_unreachable run={} wait_ms={}", self.run_id, wait.as_millis());
        let until = Instant::now() + wait;
        while Instant::now() < until {
            self.pause(until.saturating_duration_since(Instant::now()))?;
        }
        Ok(())
    }

    /// Ends a run that has waited long enough; counts the `wait` that is ahead of one that has started.
    fn check_patience(&self, wait: Duration) -> Result<(), End> {
        if self.record.is_none() {
            return prepare::check_age(self);
        }
        if self.waited.get() >= self.shared.config.adapter.max_event_age {
            return Err(End::by(Cause::AnswerRefused).telling(SERVER_AWAY));
        }
        self.waited.set(self.waited.get().saturating_add(wait));
        Ok(())
    }

    fn wakeup_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.wakeup)
    }

    /// The end that an error of a request means: the cancel first, then what the server said.
    fn end_of_request(&self, error: &RunError, otherwise: Cause) -> End {
        if let Some(reason) = self.cancel.reason() {
            return end_of(&reason);
        }
        log::warn!("code=request_failed run={} error={}", self.run_id, error.code());
        match error {
            RunError::Ended => End::by(Cause::ServerEnded),
            _ => End::by(otherwise),
        }
    }

    /// A store that cannot be written ends the run: nothing durable can be promised any more.
    fn end_of_store(&self, fault: StoreError) -> End {
        log::error!("code=store_failed run={} error={}", self.run_id, fault.code());
        End::by(Cause::StateFault)
    }

    /// The same for any other file below the state directory.
    fn end_of_file(&self, fault: &std::io::Error) -> End {
        log::error!("code=state_file_failed run={} error={}", self.run_id, one_word(fault));
        End::by(Cause::StateFault)
    }
}

/// The end that a cancel asks for.
fn end_of(reason: &Reason) -> End {
    match reason {
        Reason::Stop(why) => End::cancelled(why),
        Reason::ServerEnded => End::by(Cause::ServerEnded),
        Reason::Detach => End::by(Cause::Detached),
    }
}

/// A renewed token goes into the inbox before anything depends on it.
fn keep_renewed_tokens(token: &TokenCell, run_id: Uuid, shared: &Arc<Shared>) {
    let inbox = shared.state.inbox();
    token.set_store(Box::new(move |renewed| {
        let kept = crate::sdk::verify::peek_claims(renewed).map(|claims| {
            let mut store = Store::connect(&inbox)?;
            store.replace_token(run_id, renewed, &claims.jti, claims.exp)
        });
        if !matches!(kept, Some(Ok(()))) {
            log::warn!("code=renewed_token_not_stored run={run_id}");
        }
    }));
}
