//! The gateway thread: one long poll per command, failures waited out here so that main never waits.
//!
//! Keeps no position and judges no event: main says where to poll from and gets the batch as it came.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::client::Client;
use super::error::{ApiError, TransportError};
use super::retry::Backoff;
use super::wire::event::PollAnswer;
use super::wire::problem::code;

/// How the thread polls.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySettings {
    /// `sdk.poll_wait`, for polls that wait.
    pub wait: Duration,
    /// Most events of one answer.
    pub max: u32,
    /// `sdk.retry_max_delay`, the longest wait after a failure.
    pub retry_max_delay: Duration,
}

/// What a poll gave. Main answers each with the next command.
#[derive(Debug)]
pub enum GatewayEvent {
    /// An answer, its events still raw.
    Batch {
        /// The position the poll was made with.
        after_used: Option<i64>,
        /// The answer.
        answer: PollAnswer,
    },
    /// No answer. The next poll waits first, longer each time.
    Failed {
        /// The stable code.
        code: String,
        /// The HTTP status, when there was one.
        status: Option<u16>,
    },
    /// Another poll of this consumer took over. The next poll waits first, longer each time.
    Superseded,
}

struct PollFrom {
    after: Option<i64>,
    wait: bool,
}

/// The running thread.
pub struct Gateway {
    client: Client,
    commands: Sender<PollFrom>,
    thread: JoinHandle<()>,
}

/// Starts the thread `gateway`. `client` must be a fork of its own, because [`Gateway::stop`] shuts it down.
///
/// # Errors
/// When the system starts no thread.
pub fn spawn(
    client: Client,
    consumer: String,
    settings: GatewaySettings,
    out: Sender<GatewayEvent>,
) -> io::Result<Gateway> {
    let (commands, inbox) = unbounded();
    let worker = Worker { client: client.clone(), consumer, settings, out };
    let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(move || worker.run(&inbox))?;
    Ok(Gateway { client, commands, thread })
}

impl Gateway {
    /// Polls once: events above `after`, or every unacknowledged one; `wait` false asks with `wait_ms=0`.
    pub fn poll_from(&self, after: Option<i64>, wait: bool) {
        // a thread that is gone was stopped, and then nobody waits for the answer
        let _ = self.commands.send(PollFrom { after, wait });
    }

    /// Ends a poll and every wait at once, without waiting for the thread.
    pub fn request_stop(&self) {
        self.client.shutdown();
    }

    /// Ends the thread and waits for it.
    pub fn stop(self) {
        self.client.shutdown();
        drop(self.commands);
        let _ = self.thread.join();
    }
}

struct Worker {
    client: Client,
    consumer: String,
    settings: GatewaySettings,
    out: Sender<GatewayEvent>,
}

impl Worker {
    fn run(&self, inbox: &Receiver<PollFrom>) {
        let mut backoff = Backoff::new(self.settings.retry_max_delay);
        let mut delay = Duration::ZERO;
        for command in inbox {
            if self.client.pause(delay).is_err() {
                return;
            }
            let Some(event) = self.poll(&command) else { return };
            delay = match event {
                GatewayEvent::Batch { .. } => {
                    backoff.reset();
                    Duration::ZERO
                }
                _ => backoff.next_random(),
            };
            if self.out.send(event).is_err() {
                return;
            }
        }
    }

    /// One poll; `None` after a stop.
    fn poll(&self, command: &PollFrom) -> Option<GatewayEvent> {
        let wait = if command.wait { self.settings.wait } else { Duration::ZERO };
        match self.client.poll_events(&self.consumer, command.after, wait, self.settings.max) {
            Ok(answer) => Some(GatewayEvent::Batch { after_used: command.after, answer }),
            Err(ApiError::ShutDown) => None,
            Err(error) if error.problem().is_some_and(|it| it.is(code::SUPERSEDED_POLL)) => {
                Some(GatewayEvent::Superseded)
            }
            Err(error) => {
                let status = match &error {
                    ApiError::Problem(problem) => Some(problem.status),
                    ApiError::Transport(TransportError::Status(status)) => Some(*status),
                    _ => None,
                };
                Some(GatewayEvent::Failed { code: error.code().to_owned(), status })
            }
        }
    }
}
