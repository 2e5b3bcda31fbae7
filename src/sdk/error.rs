//! How a request to the chat server can end without an answer.

use std::fmt;

use super::wire::problem::Problem;

/// The end of a request, after the retries that its operation allows.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiError {
    /// The server said no, for good.
    Problem(Box<Problem>),
    /// No usable answer came: nobody knows whether the server did it.
    Transport(TransportError),
    /// The client was shut down while the request ran.
    ShutDown,
}

/// What an operation gives.
pub type ApiResult<T> = Result<T, ApiError>;

/// Why no usable answer came. Holds kinds only, never an address or a body, so it can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// No connection: refused, unreachable, name not found, TLS failed.
    Connect,
    /// The connection broke before the whole answer was there.
    Broken,
    /// A time limit of `sdk.http_timeout` passed.
    Timeout,
    /// The answer is not what the contract says (not JSON, wrong shape, a redirect).
    Garbage,
    /// The answer is longer than its limit.
    TooLong,
    /// A status that says "try again" was still there after the last attempt.
    Status(u16),
    /// A secret that the request needs cannot be read.
    Credentials,
}

impl TransportError {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Connect => "connect_failed",
            Self::Broken => "connection_broken",
            Self::Timeout => "timeout",
            Self::Garbage => "answer_not_understood",
            Self::TooLong => "answer_too_long",
            Self::Status(_) => "status",
            Self::Credentials => "credentials_unreadable",
        }
    }
}

impl ApiError {
    /// The problem, when the server said no.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Transport(_) | Self::ShutDown => None,
        }
    }

    /// Whether the same request may be taken later: there was no answer, or the credentials are not good now.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.status == 401,
            Self::Transport(_) => true,
            Self::ShutDown => false,
        }
    }

    /// The stable code for logs: the problem's code or the kind of the transport error.
    pub fn code(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.code,
            Self::Transport(error) => error.code(),
            Self::ShutDown => "shut_down",
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => match &problem.reason {
                Some(reason) => write!(f, "the server answered {} ({reason})", problem.code),
                None => write!(f, "the server answered {}", problem.code),
            },
            Self::Transport(TransportError::Status(status)) => {
                write!(f, "the server kept answering {status}")
            }
            Self::Transport(error) => write!(f, "no answer from the server: {}", error.code()),
            Self::ShutDown => write!(f, "the request was given up"),
        }
    }
}

impl std::error::Error for ApiError {}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> ApiError {
        ApiError::Problem(Box::new(problem))
    }
}

impl From<TransportError> for ApiError {
    fn from(error: TransportError) -> ApiError {
        ApiError::Transport(error)
    }
}
