//! The one way to end what a run thread is doing, from another thread.
//!
//! A request sets the reason, shuts down the run's HTTP client (which ends a blocked call at once) and wakes
//! the run thread's `poll`. Whoever sees a call end early looks here before classifying the error: a retry
//! after a stop would be the stop undone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sdk::client::Client;
use crate::sys::pipe::Waker;

/// Why a run thread shall let go.
///
/// **A closed set: every wait of a run thread ends for one of these and for nothing else.**
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody asked to stop; holds the reason of the request.
    Stop(String),
    /// The server ended the run: nobody is to be told.
    ServerEnded,
    /// This runner stops; the turn lives on and its successor follows it.
    Detach,
}

/// Cancel state of one run, shared by its thread and the main thread.
pub struct Cancel {
    state: Mutex<State>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    /// `Stop` or `ServerEnded`; the first one stays.
    end: Option<Reason>,
    detach: bool,
    /// What the run's requests go through.
    client: Option<Client>,
    /// The run thread has seen `end` and now tells the server; only a detach may interrupt that.
    finishing: bool,
}

impl Cancel {
    /// A cancel that wakes the run thread through `waker`.
    pub fn new(waker: Waker) -> Cancel {
        Cancel { state: Mutex::default(), waker }
    }

    /// Asks to stop with the `reason` of the request.
    pub fn stop(&self, reason: &str) {
        self.end(Reason::Stop(reason.to_owned()));
    }

    /// Says that the server ended the run.
    pub fn server_ended(&self) {
        self.end(Reason::ServerEnded);
    }

    /// Asks the run thread to leave the turn to the next runner.
    pub fn detach(&self) {
        let mut state = self.lock();
        state.detach = true;
        shut_down(&state);
        drop(state);
        self.waker.wake();
    }

    /// Why the run thread shall let go, if it shall. Once it tells the server of its end, only a detach counts.
    pub fn reason(&self) -> Option<Reason> {
        let state = self.lock();
        let end = state.end.clone().filter(|_| !state.finishing);
        end.or_else(|| state.detach.then_some(Reason::Detach))
    }

    /// Whether this runner stops.
    pub fn detached(&self) -> bool {
        self.lock().detach
    }

    /// Puts `client` under this cancel: a request made earlier or later shuts it down.
    pub fn guard(&self, client: Client) {
        let mut state = self.lock();
        state.client = Some(client);
        if state.detach || (state.end.is_some() && !state.finishing) {
            shut_down(&state);
        }
    }

    /// Says that the run thread has seen the end and tells the server through `client`, which from now on
    /// only a detach shuts down.
    pub fn finish_with(&self, client: Client) {
        self.lock().finishing = true;
        self.guard(client);
    }

    fn end(&self, reason: Reason) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(reason);
            if !state.finishing {
                shut_down(&state);
            }
        }
        drop(state);
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the other thread leaves plain values behind, which stay usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shut_down(state: &State) {
    if let Some(client) = &state.client {
        client.shutdown();
    }
}
