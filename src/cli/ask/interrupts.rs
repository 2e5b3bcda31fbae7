//! Ctrl-C while a question is at work: counted, because the first press stops the run and the second stops waiting.

use std::cell::Cell;

use crossbeam_channel::{Receiver, unbounded};

use crate::cli::exit::{self, Failure};
use crate::cli::run;
use crate::sys::signals::{self, SignalSeen, SignalThread};

/// The presses so far.
pub struct Interrupts {
    heard: Receiver<SignalSeen>,
    count: Cell<u32>,
    _thread: SignalThread,
}

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system lets nobody listen.
    pub fn listen() -> Result<Interrupts, Failure> {
        let (tell, heard) = unbounded();
        let thread = signals::spawn(tell).map_err(|fault| run::no_signals(&fault))?;
        Ok(Interrupts { heard, count: Cell::new(0), _thread: thread })
    }

    /// How often it was pressed; a terminal that closes counts too.
    pub fn count(&self) -> u32 {
        let new = u32::try_from(self.heard.try_iter().count()).unwrap_or(u32::MAX);
        self.count.set(self.count.get().saturating_add(new));
        self.count.get()
    }

    /// For work that can simply be left.
    ///
    /// # Errors
    /// The end by Ctrl-C, when it was pressed.
    pub fn check(&self) -> Result<(), Failure> {
        if self.count() == 0 { Ok(()) } else { Err(stopped("stopped")) }
    }
}

/// The end by Ctrl-C.
pub fn stopped(message: &str) -> Failure {
    Failure { exit: exit::INTERRUPTED, message: message.to_owned() }
}
