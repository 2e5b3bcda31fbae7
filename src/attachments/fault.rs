//! How a transfer of file bytes can end without its result, as the two directions need it.

use crate::sdk::error::TransportError;
use crate::sdk::wire::problem::{Problem, code, reason};

/// The end of a request made for a run, after the repeats that its operation allows.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The server ended the run: nothing more is sent.
    Ended,
    /// The run's client was shut down by a stop.
    ShutDown,
    /// The credentials are refused for now: keep the work and try later.
    Hold,
    /// The server said no, for good.
    Problem(Box<Problem>),
    /// No usable answer came.
    Transport(TransportError),
}

impl From<Problem> for Fault {
    /// A problem, unless it speaks of the run or of the credentials (M3-12 note 7 f, R-31).
    fn from(problem: Problem) -> Fault {
        if problem.is_because(code::INVOCATION_TOKEN_INVALID, reason::RUN_INACTIVE) {
            Fault::Ended
        } else if problem.is(code::INVOCATION_TOKEN_INVALID) || problem.is(code::UNAUTHENTICATED) {
            Fault::Hold
        } else {
            Fault::Problem(Box::new(problem))
        }
    }
}

impl From<TransportError> for Fault {
    fn from(error: TransportError) -> Fault {
        Fault::Transport(error)
    }
}

impl Fault {
    /// The stable code for logs.
    pub fn code(&self) -> &str {
        match self {
            Self::Ended => "run_ended",
            Self::ShutDown => "shut_down",
            Self::Hold => "credentials_refused",
            Self::Problem(problem) => &problem.code,
            Self::Transport(error) => error.code(),
        }
    }
}
