//! The small requests of a live turn, made beside it: a server that does not answer must not keep the run thread
//! from its turn, whose questions are refused at once whatever the server does.
//!
//! One request at a time: the session's report, a patch of the document, the first delivery of the outbox. Its
//! thread knows nothing of the run; what an answer means is decided by the run thread, in [`tend`].

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use serde_json::Value;

use super::{Turn, session};
use crate::run::end::End;
use crate::run::{Run, deliver};
use crate::sdk::bound::{Bound, RunError};
use crate::sdk::outbox::Pending;
use crate::sdk::wire::run::{RunPatch, Versioned};
use crate::sys::pipe::Waker;

/// The requests of one turn.
#[derive(Default)]
pub struct Post {
    worker: Option<Worker>,
    /// A request is on its way.
    busy: bool,
    /// What the server is to be told of the session.
    pub(super) session: Option<session::Report>,
}

/// The thread that waits for the server.
struct Worker {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// One request.
enum Job {
    Session(i64, session::Report),
    Patch(RunPatch),
    Deliver(Box<Pending>),
}

/// What became of it.
enum Done {
    Session(session::Report, Result<Versioned, RunError>),
    Patch(Result<Versioned, RunError>),
    Deliver(Box<Pending>, Result<Value, RunError>),
}

/// Takes the answer that has come and makes the next request that is due. Gives how long it is until another one is
/// due; nothing while none is known or one is on its way, whose answer wakes the run thread.
///
/// # Errors
/// The end that the server decided, that a refused answer means, or that was asked for meanwhile.
pub fn tend(run: &mut Run, turn: &mut Turn) -> Result<Option<Duration>, End> {
    if let Some(done) = turn.post.arrived() {
        take(run, turn, done)?;
    }
    if turn.post.busy {
        return Ok(None);
    }
    let (job, later) = next(run, turn)?;
    match job {
        None => Ok(later),
        Some(job) => make(run, turn, job),
    }
}

/// Waits for the request that is on its way, which a cancel ends, and makes no other: before the run thread itself
/// talks to the server.
///
/// # Errors
/// As [`tend`].
pub fn rest(run: &mut Run, turn: &mut Turn) -> Result<(), End> {
    match turn.post.wait() {
        Some(done) => take(run, turn, done),
        None => Ok(()),
    }
}

/// The same at the end of a turn, with the report that the session may still owe.
///
/// # Errors
/// As [`tend`].
pub fn close(run: &mut Run, turn: &mut Turn) -> Result<(), End> {
    rest(run, turn)?;
    match turn.post.session.take() {
        Some(report) if run.cancel.reason().is_none() => session::send_report(run, report),
        _ => Ok(()),
    }
}

/// What is to be sent now, or how long it is until something is.
fn next(run: &mut Run, turn: &mut Turn) -> Result<(Option<Job>, Option<Duration>), End> {
    if let Some(report) = turn.post.session.take() {
        return Ok((Some(Job::Session(session::version(run), report)), None));
    }
    let now = Instant::now();
    if let Some(patch) = run.document.due(now) {
        return Ok((Some(Job::Patch(patch)), None));
    }
    let patch = run.document.next_due().map(|due| due.saturating_duration_since(now));
    let delivery = match deliver::next(run)? {
        deliver::Next::Send(delivery) => return Ok((Some(Job::Deliver(delivery)), None)),
        deliver::Next::Later(wait) => Some(wait),
        deliver::Next::Nothing => None,
    };
    Ok((None, patch.into_iter().chain(delivery).min()))
}

/// Gives the request to the thread; where the system gives no thread, it is made here.
fn make(run: &mut Run, turn: &mut Turn, job: Job) -> Result<Option<Duration>, End> {
    if turn.post.worker.is_none() {
        turn.post.worker = Worker::start(run.bound.clone(), run.wakeup.waker());
    }
    let jobs = turn.post.worker.as_ref().and_then(|worker| worker.jobs.as_ref());
    let Some(jobs) = jobs else {
        let done = perform(&run.bound, job);
        take(run, turn, done)?;
        return Ok(Some(Duration::ZERO));
    };
    // Its receiver lives as long as the worker.
    let _ = jobs.send(job);
    turn.post.busy = true;
    Ok(None)
}

fn take(run: &mut Run, turn: &mut Turn, done: Done) -> Result<(), End> {
    match done {
        Done::Patch(result) => {
            run.document.answered(result);
            Ok(())
        }
        Done::Deliver(delivery, result) => deliver::answered(run, &delivery, result),
        Done::Session(report, result) => {
            turn.post.session = session::reported(run, report, result)?.or(turn.post.session.take());
            Ok(())
        }
    }
}

fn perform(bound: &Bound, job: Job) -> Done {
    match job {
        Job::Session(version, report) => {
            let result = bound.report_agent_session(version, &report.body);
            Done::Session(report, result)
        }
        Job::Patch(patch) => Done::Patch(bound.patch_run(&patch)),
        Job::Deliver(delivery) => {
            let result = deliver::attempt(bound, &delivery.delivery);
            Done::Deliver(delivery, result)
        }
    }
}

impl Post {
    /// The answer that has come.
    fn arrived(&mut self) -> Option<Done> {
        let worker = self.worker.as_mut().filter(|_| self.busy)?;
        match worker.done.try_recv() {
            Ok(done) => {
                self.busy = false;
                Some(done)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => worker.fell(),
        }
    }

    /// The answer of the request that is on its way, once it has come.
    fn wait(&mut self) -> Option<Done> {
        let worker = self.worker.as_mut().filter(|_| self.busy)?;
        self.busy = false;
        worker.done.recv().ok().or_else(|| worker.fell())
    }
}

impl Worker {
    fn start(bound: Bound, waker: Waker) -> Option<Worker> {
        let (jobs, inbox) = unbounded();
        let (out, done) = unbounded();
        let work = move || {
            // A panic drops `out`, which the run thread must hear of as well.
            let waking = WakeOnDrop(waker);
            for job in inbox {
                if out.send(perform(&bound, job)).is_err() {
                    break;
                }
                waking.0.wake();
            }
        };
        let name = format!("post-{}", std::thread::current().name().unwrap_or_default());
        let thread = std::thread::Builder::new().name(name).spawn(work).ok()?;
        Some(Worker { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// The thread ended without an answer, which only a panic does: it goes on in the run thread, whose end it is.
    fn fell(&mut self) -> Option<Done> {
        let fell = self.thread.take().map(JoinHandle::join);
        if let Some(Err(panic)) = fell {
            std::panic::resume_unwind(panic);
        }
        None
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was its own; the request that it made is repeated by whoever needs it.
            let _ = thread.join();
        }
    }
}

/// Wakes the run thread when the worker ends, however it ends.
struct WakeOnDrop(Waker);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}
