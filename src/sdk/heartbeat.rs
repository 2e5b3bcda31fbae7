//! The heartbeat thread: sends the latest snapshot at its interval, and at once when told to.
//!
//! Knows nothing of what a snapshot says; main makes them and decides the interval.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::client::Client;
use super::error::ApiError;
use super::exchange::Failed;
use super::retry::Backoff;
use super::wire::heartbeat::{AgentState, Heartbeat, HeartbeatAck};

/// Shortest interval that a server can ask for.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Longest one; beyond it a server would take a living runner for dead.
pub const INTERVAL_MAX: Duration = Duration::from_secs(60 * 60);

/// An interval of the server, milliseconds, clamped to [`INTERVAL_MIN`] and [`INTERVAL_MAX`].
pub fn interval_from_server(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

/// What became of a heartbeat, and of which one: newer ones may be on their way.
#[derive(Debug)]
pub enum HeartbeatEvent {
    /// The server took it; it may name an interval.
    Acked {
        /// What it said.
        state: AgentState,
        /// The answer.
        ack: HeartbeatAck,
    },
    /// It did not arrive; the next one follows after a growing wait, at the latest at the interval.
    Failed {
        /// What it said.
        state: AgentState,
        /// The stable code.
        code: String,
    },
}

enum Command {
    Set(Box<Heartbeat>, Duration),
    SendNow(Box<Heartbeat>),
}

/// The running thread.
pub struct Heartbeats {
    client: Client,
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

/// Starts the thread `heartbeat`, which sends nothing before the first command. `client` must be a fork of
/// its own, because [`Heartbeats::stop`] shuts it down.
///
/// # Errors
/// When the system starts no thread.
pub fn spawn(client: Client, out: Sender<HeartbeatEvent>) -> io::Result<Heartbeats> {
    let (commands, inbox) = unbounded();
    let worker = Worker::new(client.clone(), out);
    let thread =
        std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || worker.run(&inbox))?;
    Ok(Heartbeats { client, commands, thread })
}

impl Heartbeats {
    /// From now on this snapshot is sent every `interval`.
    pub fn set(&self, heartbeat: Heartbeat, interval: Duration) {
        // a thread that is gone was stopped
        let _ = self.commands.send(Command::Set(Box::new(heartbeat), interval));
    }

    /// This snapshot is sent at once, and then every interval.
    pub fn send_now(&self, heartbeat: Heartbeat) {
        let _ = self.commands.send(Command::SendNow(Box::new(heartbeat)));
    }

    /// Ends a request and every wait at once, without waiting for the thread.
    pub fn request_stop(&self) {
        self.client.shutdown();
    }

    /// Ends the thread and waits for it. A last heartbeat is sent with a client of its own.
    pub fn stop(self) {
        self.client.shutdown();
        drop(self.commands);
        let _ = self.thread.join();
    }
}

struct Worker {
    client: Client,
    out: Sender<HeartbeatEvent>,
    latest: Option<Box<Heartbeat>>,
    interval: Duration,
    last: Instant,
    /// When the next one is due, counted from `last`.
    wait: Duration,
    backoff: Backoff,
}

impl Worker {
    fn new(client: Client, out: Sender<HeartbeatEvent>) -> Worker {
        let backoff = Backoff::new(INTERVAL_MAX);
        let interval = INTERVAL_MAX;
        Worker { client, out, latest: None, interval, last: Instant::now(), wait: interval, backoff }
    }

    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            match inbox.recv_timeout(self.wait.saturating_sub(self.last.elapsed())) {
                Ok(command) => {
                    self.take(command);
                    // only the newest of several snapshots is worth a request
                    inbox.try_iter().for_each(|command| self.take(command));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.last.elapsed() >= self.wait && !self.send() {
                return;
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Set(heartbeat, interval) => {
                self.latest = Some(heartbeat);
                self.interval = interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
                self.wait = self.wait.min(self.interval);
            }
            Command::SendNow(heartbeat) => {
                self.latest = Some(heartbeat);
                self.wait = Duration::ZERO;
            }
        }
    }

    /// Sends the latest snapshot; false when the thread shall end.
    fn send(&mut self) -> bool {
        let Some(heartbeat) = self.latest.as_deref() else {
            (self.last, self.wait) = (Instant::now(), self.interval);
            return true;
        };
        let state = heartbeat.state;
        let result = self.client.send_heartbeat(heartbeat);
        self.last = Instant::now();
        self.wait = self.interval;
        let event = match result {
            Err(Failed { error: ApiError::ShutDown, .. }) => return false,
            Ok(ack) => {
                self.backoff.reset();
                HeartbeatEvent::Acked { state, ack }
            }
            Err(Failed { error, wait, .. }) => {
                let own = self.backoff.next_random().clamp(INTERVAL_MIN.min(self.interval), self.interval);
                self.wait = own.max(wait.unwrap_or_default());
                HeartbeatEvent::Failed { state, code: error.code().to_owned() }
            }
        };
        self.out.send(event).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_server::{PATIENCE, Step, TestServer, answer, empty, hold};
    use super::*;

    fn snapshot(active_runs: u64) -> Heartbeat {
        serde_json::from_value(json!({
            "state": "online", "reported_tool_class": "chat", "project_readiness": [],
            "details": {
                "capabilities": {"title": true, "components": false, "voice_input": false,
                    "files_out": true, "followups": true},
                "active_runs": active_runs, "degraded_reasons": [], "protocol_version": "1",
                "adapter": {"name": "claude-code-runner", "version": "0"}, "runtime": {"name": "claude-code"},
            },
        }))
        .unwrap()
    }

    fn ack() -> Step {
        answer(200, json!({"server_time": "2026-01-02T03:04:05.000Z", "heartbeat_interval_ms": 1500}))
    }

    #[test]
    fn a_snapshot_is_sent_at_once_when_told_and_failures_are_reported() {
        let server = TestServer::start(vec![ack(), empty(503), ack()]);
        let (out, events) = unbounded();
        let heartbeats = spawn(server.client().fork(), out).unwrap();
        heartbeats.set(snapshot(0), INTERVAL_MAX);
        heartbeats.send_now(snapshot(1));
        let HeartbeatEvent::Acked { state, ack } = events.recv_timeout(PATIENCE).unwrap() else {
            panic!("no ack")
        };
        assert_eq!((state, ack.heartbeat_interval_ms), (AgentState::Online, Some(1500)));
        heartbeats.send_now(snapshot(2));
        assert!(matches!(
            events.recv_timeout(PATIENCE).unwrap(),
            HeartbeatEvent::Failed { state: AgentState::Online, code } if code == "status"
        ));
        heartbeats.send_now(snapshot(3));
        assert!(matches!(events.recv_timeout(PATIENCE).unwrap(), HeartbeatEvent::Acked { .. }));
        let runs: Vec<u64> = (0..3)
            .map(|_| server.next_request().json()["details"]["active_runs"].as_u64().unwrap())
            .collect();
        assert_eq!(runs, [1, 2, 3]);
        heartbeats.stop();
    }

    #[test]
    fn the_latest_snapshot_is_sent_every_interval() {
        let server = TestServer::start(vec![ack(), ack()]);
        let (out, events) = unbounded();
        let heartbeats = spawn(server.client().fork(), out).unwrap();
        heartbeats.set(snapshot(7), Duration::ZERO);
        for _ in 0..2 {
            assert!(matches!(events.recv_timeout(PATIENCE).unwrap(), HeartbeatEvent::Acked { .. }));
            assert_eq!(server.next_request().json()["details"]["active_runs"], 7);
        }
        heartbeats.stop();
    }

    #[test]
    fn stop_ends_a_held_heartbeat() {
        let (_release, held) = hold();
        let server = TestServer::start(vec![Step::Hold(Vec::new(), held)]);
        let (out, events) = unbounded();
        let heartbeats = spawn(server.client().fork(), out).unwrap();
        heartbeats.send_now(snapshot(0));
        server.next_request();
        heartbeats.request_stop();
        heartbeats.stop();
        assert!(events.recv_timeout(PATIENCE).is_err(), "a stop is no failure");
    }

    #[test]
    fn a_repeat_waits_as_long_as_the_server_asks() {
        let later = Step::Answer(429, vec![("retry-after", "200".to_owned())], Vec::new());
        let server = TestServer::start(vec![later]);
        let (out, _events) = unbounded();
        let mut worker = Worker::new(server.client().fork(), out);
        worker.take(Command::SendNow(Box::new(snapshot(0))));
        assert!(worker.send());
        assert_eq!(worker.wait, Duration::from_secs(200));
    }

    #[test]
    fn intervals_of_the_server_are_clamped() {
        let rows = [(0, INTERVAL_MIN), (1500, Duration::from_millis(1500)), (u64::MAX, INTERVAL_MAX)];
        for (milliseconds, used) in rows {
            assert_eq!(interval_from_server(milliseconds), used);
        }
    }
}
