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
    /// Most events of one answer; fewer are asked for while answers are too long to be read.
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

/// Whether a poll failed because its answer is too much for one.
fn is_too_much(code: &str) -> bool {
    [TransportError::TooLong, TransportError::Timeout].iter().any(|error| error.code() == code)
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
        let mut max = self.settings.max;
        for command in inbox {
            if self.client.pause(delay).is_err() {
                return;
            }
            let Some((event, wait)) = self.poll(&command, max) else { return };
            delay = match &event {
                GatewayEvent::Batch { .. } => {
                    backoff.reset();
                    max = max.saturating_mul(2).min(self.settings.max);
                    Duration::ZERO
                }
                // Many long events: the oldest ones alone may fit, or come in time.
                GatewayEvent::Failed { code, .. } if max > 1 && is_too_much(code) => {
                    max /= 2;
                    Duration::ZERO
                }
                _ => backoff.next_random().max(wait),
            };
            if self.out.send(event).is_err() {
                return;
            }
        }
    }

    /// One poll, and how long the server asks to be left alone; `None` after a stop.
    fn poll(&self, command: &PollFrom, max: u32) -> Option<(GatewayEvent, Duration)> {
        let wait = if command.wait { self.settings.wait } else { Duration::ZERO };
        let failed = match self.client.poll_events(&self.consumer, command.after, wait, max) {
            Ok(answer) => {
                return Some((GatewayEvent::Batch { after_used: command.after, answer }, Duration::ZERO));
            }
            Err(failed) => failed,
        };
        let event = match &failed.error {
            ApiError::ShutDown => return None,
            ApiError::Problem(problem) if problem.is(code::SUPERSEDED_POLL) => GatewayEvent::Superseded,
            error => GatewayEvent::Failed { code: error.code().to_owned(), status: status(error) },
        };
        Some((event, failed.wait.unwrap_or_default()))
    }
}

/// The HTTP status, when there was one.
fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::Problem(problem) => Some(problem.status),
        ApiError::Transport(TransportError::Status(status)) => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_server::{PATIENCE, Step, TestServer, answer, empty, hold, problem};
    use super::*;

    fn start(server: &TestServer, retry_max_delay: Duration) -> (Gateway, Receiver<GatewayEvent>) {
        let (out, events) = unbounded();
        let settings = GatewaySettings { wait: Duration::from_secs(25), max: 50, retry_max_delay };
        (spawn(server.client().fork(), "default".to_owned(), settings, out).unwrap(), events)
    }

    #[test]
    fn one_poll_per_command_with_raw_events() {
        let odd = json!({"events": [{"seq": "x"}, 7], "gap": true, "heartbeat_interval_ms": 5000});
        let server = TestServer::start(vec![answer(200, odd), answer(200, json!({"events": []}))]);
        let (gateway, events) = start(&server, PATIENCE);
        gateway.poll_from(None, false);
        let GatewayEvent::Batch { after_used, answer } = events.recv_timeout(PATIENCE).unwrap() else {
            panic!("no batch")
        };
        assert_eq!((after_used, answer.events.len(), answer.gap), (None, 2, Some(true)));
        gateway.poll_from(Some(7), true);
        assert!(matches!(
            events.recv_timeout(PATIENCE).unwrap(),
            GatewayEvent::Batch { after_used: Some(7), .. }
        ));
        let targets = [server.next_request().target, server.next_request().target];
        let base = "/api/v1/gateway/events?consumer=default";
        assert_eq!(targets[0], format!("{base}&wait_ms=0&max=50"));
        assert_eq!(targets[1], format!("{base}&after=7&wait_ms=25000&max=50"));
        gateway.stop();
        assert!(server.saw_no_more());
    }

    #[test]
    fn failures_are_told_and_the_same_position_is_polled_again() {
        let page = Step::Answer(200, Vec::new(), b"<html>login</html>".to_vec());
        let script = vec![empty(502), page, problem(409, "superseded_poll", None), empty(302), empty(401)];
        let server = TestServer::start(script);
        server.push(empty(401));
        server.push(answer(200, json!({"events": []})));
        let (gateway, events) = start(&server, Duration::from_millis(1));
        let mut told = Vec::new();
        loop {
            gateway.poll_from(Some(3), true);
            match events.recv_timeout(PATIENCE).unwrap() {
                GatewayEvent::Failed { code, status } => told.push((code, status)),
                GatewayEvent::Superseded => told.push(("superseded".to_owned(), None)),
                GatewayEvent::Batch { after_used, .. } => {
                    assert_eq!(after_used, Some(3));
                    break;
                }
            }
        }
        let expected = [
            ("status", Some(502)),
            ("answer_not_understood", None),
            ("superseded", None),
            ("answer_not_understood", None),
            ("unauthenticated", Some(401)),
        ];
        assert_eq!(told, expected.map(|(code, status)| (code.to_owned(), status)));
        gateway.stop();
    }

    #[test]
    fn the_next_poll_waits_as_long_as_the_server_asks() {
        let later = Step::Answer(429, vec![("retry-after", "200".to_owned())], Vec::new());
        let server = TestServer::start(vec![later]);
        let (out, _events) = unbounded();
        let settings = GatewaySettings { wait: PATIENCE, max: 50, retry_max_delay: Duration::from_millis(1) };
        let worker = Worker { client: server.client().fork(), consumer: "default".to_owned(), settings, out };
        let (event, wait) = worker.poll(&PollFrom { after: None, wait: true }, 50).unwrap();
        assert!(matches!(event, GatewayEvent::Failed { status: Some(429), .. }));
        assert_eq!(wait, Duration::from_secs(200));
    }

    #[test]
    fn fewer_events_are_asked_for_while_answers_are_too_long() {
        let head = format!("Content-Length: {}", crate::sdk::http::ANSWER_LIMIT + 1);
        let long = || Step::Raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into_bytes());
        let none = || answer(200, json!({"events": []}));
        let server = TestServer::start(vec![long(), long(), none(), none()]);
        let (gateway, events) = start(&server, PATIENCE);
        for _ in 0..4 {
            gateway.poll_from(None, true);
            events.recv_timeout(PATIENCE).unwrap();
        }
        let asked: Vec<String> =
            (0..4).map(|_| server.next_request().target.rsplit_once("max=").unwrap().1.to_owned()).collect();
        assert_eq!(asked, ["50", "25", "12", "24"]);
        gateway.stop();
    }

    #[test]
    fn stop_ends_a_held_poll_and_a_wait_and_an_idle_thread() {
        let (_release, held) = hold();
        let server = TestServer::start(vec![Step::Hold(Vec::new(), held)]);
        let (gateway, events) = start(&server, PATIENCE);
        gateway.poll_from(None, true);
        server.next_request();
        gateway.request_stop();
        gateway.stop();
        assert!(events.recv_timeout(PATIENCE).is_err(), "a stop is no failure");

        let server = TestServer::start(Vec::new());
        let (gateway, _events) = start(&server, PATIENCE);
        gateway.stop();
    }

    #[test]
    fn a_broken_poll_is_repeated_on_a_new_connection() {
        let server = TestServer::start(vec![Step::Raw(Vec::new()), answer(200, json!({"events": []}))]);
        let (gateway, events) = start(&server, Duration::from_millis(1));
        gateway.poll_from(None, true);
        assert!(matches!(events.recv_timeout(PATIENCE).unwrap(), GatewayEvent::Failed { .. }));
        gateway.poll_from(None, true);
        assert!(matches!(events.recv_timeout(PATIENCE).unwrap(), GatewayEvent::Batch { .. }));
        assert_eq!((server.next_request().connection, server.next_request().connection), (0, 1));
        gateway.stop();
    }
}
