//! The courier thread: every small request of the main thread, so that main never waits for the network.
//!
//! It decides nothing. A job that failed is reported, and main says when to try again.

use std::collections::HashSet;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use uuid::Uuid;

use super::sweep;
use crate::run::state_dir::StateDir;
use crate::sdk::bound::{RunError, TokenCell};
use crate::sdk::client::{ApiResult, Client};
use crate::sdk::jws::JwkSet;
use crate::sdk::wire::channel::AgentChannelConfig;
use crate::sdk::wire::event::AckEvents;
use crate::sdk::wire::file::{Discovery, Me};
use crate::sdk::wire::run::{FollowupState, RunFinish, RunInfo};

/// Most positions of one `ackEvents`.
const MAX_ACKS: usize = 500;

/// One thing to do.
pub enum Job {
    /// Discovery, identity and served channels: once at the start.
    Connect,
    /// Acknowledge a handled event.
    Ack(i64),
    /// Load the signing keys.
    LoadKeys,
    /// Load one channel's configuration.
    LoadChannel(Uuid),
    /// Finish a run that was refused on acceptance.
    Refuse(Uuid, RunFinish),
    /// Report a follow-up of a run that has no thread.
    RefuseFollowup {
        /// The run.
        run_id: Uuid,
        /// The follow-up.
        followup_id: Uuid,
        /// The run's newest token.
        token: String,
    },
    /// Ask for the state of an open run: events were lost.
    AskRun(Uuid),
    /// Delete what is older than the retention, except what belongs to these runs.
    Sweep(StateDir, Duration, HashSet<Uuid>),
}

/// What became of a job.
pub enum Done {
    /// Of [`Job::Ack`], when the server may not have heard of it.
    AckLost,
    /// Of [`Job::Connect`].
    Connected(ApiResult<Box<Connection>>),
    /// Of [`Job::LoadKeys`].
    Keys(ApiResult<JwkSet>),
    /// Of [`Job::LoadChannel`]; `None` inside: the server does not know it any more.
    Channel(Uuid, ApiResult<Option<AgentChannelConfig>>),
    /// Of [`Job::Refuse`].
    Refused(Uuid, ApiResult<()>),
    /// Of [`Job::RefuseFollowup`].
    FollowupRefused(Uuid, Result<(), RunError>),
    /// Of [`Job::AskRun`].
    Run(Uuid, ApiResult<Option<RunInfo>>),
}

/// What the server says of itself and of this agent.
pub struct Connection {
    /// The instance and its addresses.
    pub discovery: Discovery,
    /// The owner of the agent token.
    pub me: Me,
    /// Every served channel.
    pub channels: Vec<AgentChannelConfig>,
}

/// The courier's handle.
pub struct Courier {
    jobs: Sender<Job>,
    client: Client,
    thread: JoinHandle<()>,
}

impl Courier {
    /// Starts the thread; `consumer` is the name under which events are acknowledged.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn spawn(client: Client, consumer: String, done: Sender<Done>) -> std::io::Result<Courier> {
        let (jobs, queue) = unbounded();
        let worker = Worker { client: client.clone(), consumer, done };
        let thread = std::thread::Builder::new().name("courier".into()).spawn(move || worker.work(&queue))?;
        Ok(Courier { jobs, client, thread })
    }

    /// Puts a job into the queue.
    pub fn send(&self, job: Job) {
        // The thread ends only after `stop`, when nothing is asked of it any more.
        let _ = self.jobs.send(job);
    }

    /// Ends the thread and whatever it waits for.
    pub fn stop(self) {
        drop(self.jobs);
        self.client.shutdown();
        if self.thread.join().is_err() {
            log::error!("code=courier_panicked");
        }
    }
}

struct Worker {
    client: Client,
    consumer: String,
    done: Sender<Done>,
}

impl Worker {
    fn work(&self, queue: &Receiver<Job>) {
        let mut next = queue.recv().ok();
        while let Some(job) = next.take() {
            next = match job {
                Job::Ack(seq) => self.ack(seq, queue),
                job => {
                    self.one(job);
                    None
                }
            };
            next = next.or_else(|| queue.recv().ok());
        }
    }

    /// Acknowledges `seq` and every acknowledgement that waits right behind it; gives back the first other job.
    fn ack(&self, seq: i64, queue: &Receiver<Job>) -> Option<Job> {
        let mut seqs = vec![seq];
        let mut other = None;
        while seqs.len() < MAX_ACKS {
            match queue.try_recv() {
                Ok(Job::Ack(more)) => seqs.push(more),
                Ok(job) => {
                    other = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        if let Err(error) = self.client.ack_events(&AckEvents { consumer: self.consumer.clone(), seqs }) {
            log::warn!("code=ack_failed error={}", error.code());
            if error.is_transient() {
                // Main has gone: the runner stops.
                let _ = self.done.send(Done::AckLost);
            }
        }
        other
    }

    fn one(&self, job: Job) {
        let done = match job {
            Job::Connect => Done::Connected(self.connect().map(Box::new)),
            Job::LoadKeys => Done::Keys(self.client.get_jwks()),
            Job::LoadChannel(id) => Done::Channel(id, self.client.get_served_channel_config(id)),
            Job::Refuse(run_id, finish) => Done::Refused(run_id, self.refuse(run_id, &finish)),
            Job::RefuseFollowup { run_id, followup_id, token } => {
                let bound = self.client.bind(run_id, TokenCell::new(token));
                Done::FollowupRefused(followup_id, bound.report_followup(followup_id, FollowupState::Refused))
            }
            Job::AskRun(run_id) => Done::Run(run_id, self.client.get_run(run_id)),
            Job::Sweep(state, retention, active) => {
                sweep::sweep(&state, retention, &active);
                return;
            }
            // Taken by `ack`.
            Job::Ack(_) => return,
        };
        // Main has gone: the runner stops.
        let _ = self.done.send(done);
    }

    fn connect(&self) -> ApiResult<Connection> {
        let discovery = self.client.get_discovery()?;
        let me = self.client.get_me()?;
        let channels = self.client.list_served_channels()?;
        Ok(Connection { discovery, me, channels })
    }

    /// A run that has ended already, or is unknown, needs no end. Credentials that are refused may be good later.
    fn refuse(&self, run_id: Uuid, finish: &RunFinish) -> ApiResult<()> {
        match self.client.finish_run_unbound(run_id, finish) {
            Err(error) if error.problem().is_some() && !error.is_transient() => {
                log::warn!("code=refusal_not_taken run={run_id} problem={}", error.code());
                Ok(())
            }
            other => other,
        }
    }
}
