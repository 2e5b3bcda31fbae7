//! Somebody beside the server who sees every request and may disturb it: refuse, cut, hold, garble.
//!
//! The server asks before and after each operation and knows nothing of why. Without a desk nobody answers.
//! Operations are named as the contract names them (`startRun`); `unknown` is what matched none.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::http::{Answer, Content};
use super::lock;
use crate::sdk::wire::Time;
use crate::sdk::wire::problem::Problem;

/// Bytes of each body that are captured.
const CAPTURE_BYTES: usize = 1024 * 1024;

/// The server's side: a desk that may be empty. Cloning shares the desk.
#[derive(Clone, Default)]
pub struct Hooks(Option<Arc<Desk>>);

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    counts: HashMap<String, u64>,
    seen: Vec<Captured>,
    rules: Vec<Rule>,
    gates: Vec<Gate>,
    closed: bool,
}

#[derive(Clone)]
struct Rule {
    operation: String,
    ordinal: Option<u64>,
    fault: Fault,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The operation's name in the contract.
    pub operation: String,
    /// Counts the requests of this operation, from 1.
    pub ordinal: u64,
    /// Method.
    pub method: String,
    /// Path, still encoded.
    pub path: String,
    /// Query, still encoded.
    pub query: String,
    /// Fields in their order.
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body.
    pub body: Vec<u8>,
    /// The status that was answered, absent while it is at work or after a cut.
    pub status: Option<u16>,
    /// When it came.
    pub at: Time,
}

impl Captured {
    /// The first value of the field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON, when it is JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// What may happen to a request.
#[derive(Clone)]
pub enum Fault {
    /// Answer this problem and do nothing; with any text as `Retry-After`.
    Refuse(Problem, Option<String>),
    /// Close the connection and do nothing.
    CutBefore,
    /// Wait for the gate, then go on.
    HoldBefore(Gate),
    /// Write these bytes and close; nothing is done.
    RawBefore(Vec<u8>),
    /// Do it, then answer this problem.
    DoneThenRefuse(Problem),
    /// Do it, then close the connection.
    DoneThenCut,
    /// Do it, wait for the gate, then answer.
    DoneThenHold(Gate),
    /// Do it, then write these bytes and close.
    DoneThenRaw(Vec<u8>),
    /// Do it, then answer with the same status and this body instead.
    DoneThenBody(String),
    /// Do it, send so many bytes of the answer's body, then close.
    CutBodyAt(u64),
    /// Do it, send so many bytes of the answer's body, wait for the gate, then close.
    HoldBodyAt(u64, Gate),
}

/// What the connection does instead of going on.
pub(super) enum Outgoing {
    /// Write the answer.
    Answer(Answer),
    /// Write bytes and close.
    Raw(Vec<u8>),
    /// Close.
    Cut,
    /// Write the answer with so many bytes of its body, wait, close.
    Part(Answer, u64, Option<Gate>),
}

/// A request as the desk knows it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    operation: String,
    ordinal: u64,
    index: usize,
}

/// A place where requests wait until somebody opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    waiting: u64,
    open: bool,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Opens the gate for everybody, now and later.
    pub fn open(&self) {
        lock(&self.0.0).open = true;
        self.0.1.notify_all();
    }

    /// Waits until a request stands at the gate, at most `limit`; whether one came.
    pub fn reached(&self, limit: Duration) -> bool {
        let guard = lock(&self.0.0);
        let waited = self.0.1.wait_timeout_while(guard, limit, |gate| gate.waiting == 0);
        waited.is_ok_and(|(gate, _)| gate.waiting > 0)
    }

    /// Stands at the gate until it opens.
    pub fn pass(&self) {
        let mut gate = lock(&self.0.0);
        gate.waiting += 1;
        self.0.1.notify_all();
        while !gate.open {
            gate = match self.0.1.wait(gate) {
                Ok(gate) => gate,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }
}

impl Hooks {
    /// Hooks with a desk: requests are captured and faults can be set.
    pub fn new() -> Hooks {
        Hooks(Some(Arc::default()))
    }

    /// Does `fault` to the `ordinal`-th request of `operation` (from 1).
    pub fn nth(&self, operation: &str, ordinal: u64, fault: Fault) {
        self.add(operation, Some(ordinal), fault);
    }

    /// Does `fault` to the next request of `operation`.
    pub fn next(&self, operation: &str, fault: Fault) {
        self.nth(operation, self.count(operation) + 1, fault);
    }

    /// Does `fault` to every request of `operation` from now on.
    pub fn always(&self, operation: &str, fault: Fault) {
        self.add(operation, None, fault);
    }

    /// Holds the next request of `operation` before anything is done, until the gate is opened.
    pub fn hold_next(&self, operation: &str) -> Gate {
        let gate = Gate::new();
        self.next(operation, Fault::HoldBefore(gate.clone()));
        gate
    }

    /// Forgets every fault that has not happened and opens every gate.
    pub fn clear(&self) {
        self.open_gates(false);
    }

    /// Opens every gate for good, so that the server can stop.
    pub(super) fn release_all(&self) {
        self.open_gates(true);
    }

    /// How many requests of `operation` came.
    pub fn count(&self, operation: &str) -> u64 {
        self.with(|state| state.counts.get(operation).copied()).flatten().unwrap_or(0)
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<Captured> {
        self.with(|state| state.seen.clone()).unwrap_or_default()
    }

    /// Every request of `operation` so far, in order.
    pub fn requests_of(&self, operation: &str) -> Vec<Captured> {
        self.requests().into_iter().filter(|request| request.operation == operation).collect()
    }

    /// Waits until `operation` was answered (or cut) `count` times, at most `limit`; whether it was.
    pub fn wait_for(&self, operation: &str, count: usize, limit: Duration) -> bool {
        self.wait_until(limit, |seen| {
            seen.iter().filter(|r| r.operation == operation && r.status.is_some()).count() >= count
        })
    }

    /// Waits until the captured requests satisfy `check`, at most `limit`; whether they did.
    pub fn wait_until(&self, limit: Duration, check: impl Fn(&[Captured]) -> bool) -> bool {
        let Some(desk) = &self.0 else { return false };
        let deadline = Instant::now() + limit;
        let mut state = lock(&desk.state);
        while !check(&state.seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = match desk.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    fn add(&self, operation: &str, ordinal: Option<u64>, fault: Fault) {
        self.with(|state| {
            if let Fault::HoldBefore(gate) | Fault::DoneThenHold(gate) | Fault::HoldBodyAt(_, gate) = &fault {
                state.gates.push(gate.clone());
                if state.closed {
                    gate.open();
                }
            }
            state.rules.push(Rule { operation: operation.to_owned(), ordinal, fault });
        });
    }

    fn open_gates(&self, closed: bool) {
        self.with(|state| {
            state.closed |= closed;
            state.rules.clear();
            state.gates.drain(..).for_each(|gate| gate.open());
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        let desk = self.0.as_ref()?;
        let done = work(&mut lock(&desk.state));
        desk.changed.notify_all();
        Some(done)
    }
}

/// What the connection asks.
impl Hooks {
    /// A request came.
    pub(super) fn arrived(&self, operation: &str, head: &super::http::Head) -> Option<Seen> {
        self.with(|state| {
            let count = state.counts.entry(operation.to_owned()).or_default();
            *count += 1;
            let ordinal = *count;
            state.seen.push(Captured {
                operation: operation.to_owned(),
                ordinal,
                method: head.method.clone(),
                path: head.path.clone(),
                query: head.query.clone(),
                headers: head.headers.pairs().to_vec(),
                body: Vec::new(),
                status: None,
                at: Time::now(),
            });
            Seen { operation: operation.to_owned(), ordinal, index: state.seen.len() - 1 }
        })
    }

    /// A piece of its body came.
    pub(super) fn body(&self, seen: Option<&Seen>, piece: &[u8]) {
        let Some(seen) = seen else { return };
        self.with(|state| {
            if let Some(captured) = state.seen.get_mut(seen.index) {
                let room = CAPTURE_BYTES.saturating_sub(captured.body.len());
                captured.body.extend_from_slice(&piece[..room.min(piece.len())]);
            }
        });
    }

    /// It was answered with `status`.
    pub(super) fn answered(&self, seen: Option<&Seen>, status: u16) {
        let Some(seen) = seen else { return };
        self.with(|state| {
            if let Some(captured) = state.seen.get_mut(seen.index) {
                captured.status = Some(status);
            }
        });
    }

    /// Before the operation: what to do instead, or nothing.
    pub(super) fn before(&self, seen: Option<&Seen>) -> Option<Outgoing> {
        self.faults(seen, true).into_iter().find_map(|fault| match fault {
            Fault::Refuse(problem, retry_after) => {
                let answer = Answer::problem(&problem);
                Some(Outgoing::Answer(match retry_after {
                    Some(text) => answer.with("Retry-After", text),
                    None => answer,
                }))
            }
            Fault::CutBefore => Some(Outgoing::Cut),
            Fault::RawBefore(bytes) => Some(Outgoing::Raw(bytes)),
            Fault::HoldBefore(gate) => {
                gate.pass();
                None
            }
            _ => None,
        })
    }

    /// After the operation: what to do with its answer.
    pub(super) fn after(&self, seen: Option<&Seen>, mut answer: Answer) -> Outgoing {
        for fault in self.faults(seen, false) {
            match fault {
                Fault::DoneThenRefuse(problem) => answer = Answer::problem(&problem),
                Fault::DoneThenCut => return Outgoing::Cut,
                Fault::DoneThenRaw(bytes) => return Outgoing::Raw(bytes),
                Fault::DoneThenHold(gate) => gate.pass(),
                Fault::DoneThenBody(text) => answer.content = Content::Bytes(text.into_bytes()),
                Fault::CutBodyAt(bytes) => return Outgoing::Part(answer, bytes, None),
                Fault::HoldBodyAt(bytes, gate) => return Outgoing::Part(answer, bytes, Some(gate)),
                _ => {}
            }
        }
        Outgoing::Answer(answer)
    }

    fn faults(&self, seen: Option<&Seen>, before: bool) -> Vec<Fault> {
        let Some(seen) = seen else { return Vec::new() };
        let fits = |rule: &Rule| {
            rule.operation == seen.operation && rule.ordinal.is_none_or(|ordinal| ordinal == seen.ordinal)
        };
        self.with(|state| {
            let rules = state.rules.iter().filter(|rule| fits(rule) && rule.fault.is_before() == before);
            rules.map(|rule| rule.fault.clone()).collect()
        })
        .unwrap_or_default()
    }
}

impl Fault {
    fn is_before(&self) -> bool {
        matches!(self, Self::Refuse(..) | Self::CutBefore | Self::HoldBefore(_) | Self::RawBefore(_))
    }
}
