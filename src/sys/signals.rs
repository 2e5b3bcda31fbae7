//! The signals that ask this process to end, delivered as values to a channel.
//!
//! One named thread blocks on them; it owns nothing. Must not know what the runner does about a signal.

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalSeen {
    /// SIGTERM: the service manager wants an end.
    Terminate,
    /// SIGINT: a person pressed the key.
    Interrupt,
    /// SIGHUP: the terminal is gone.
    Hangup,
}

/// The thread that waits for signals; stopped and joined when it is dropped.
#[derive(Debug)]
pub struct SignalThread {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread `signals`, which sends each signal to `tx` until it is stopped or nobody listens.
///
/// # Errors
/// The system's answer when a handler cannot be set or the thread cannot be started.
pub fn spawn(tx: Sender<SignalSeen>) -> io::Result<SignalThread> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let handle = signals.handle();
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let heard = signals.forever().filter_map(meaning);
        // A send fails only when nobody listens any more, which is the end of this thread too.
        heard.map(|seen| tx.send(seen)).take_while(Result::is_ok).for_each(drop);
    })?;
    Ok(SignalThread { handle, thread: Some(thread) })
}

fn meaning(signal: i32) -> Option<SignalSeen> {
    match signal {
        SIGTERM => Some(SignalSeen::Terminate),
        SIGINT => Some(SignalSeen::Interrupt),
        SIGHUP => Some(SignalSeen::Hangup),
        _ => None,
    }
}

impl SignalThread {
    /// Ends the thread and waits for it.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for SignalThread {
    fn drop(&mut self) {
        self.handle.close();
        // A panic of that thread was printed already and must not become a second one here.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn each_signal_arrives_as_a_value_and_the_thread_stops() {
        let (tx, rx) = crossbeam_channel::unbounded();
        let thread = spawn(tx).unwrap();
        let rows =
            [(SIGTERM, SignalSeen::Terminate), (SIGINT, SignalSeen::Interrupt), (SIGHUP, SignalSeen::Hangup)];
        for (signal, expected) in rows {
            raise(signal).unwrap();
            assert_eq!(rx.recv().unwrap(), expected);
        }
        thread.stop();
        assert!(rx.recv().is_err());
    }
}
