//! Why a runner does not start, or gives up: a closed set with a code for the log and a sentence for the operator.

use std::fmt;

use crate::sdk::error::ApiError;
use crate::sdk::store::StoreError;

/// Why a runner did not start, or gave up.
#[derive(Debug)]
pub enum RunnerFault {
    /// The state directory cannot be used.
    StateDir(std::io::Error),
    /// Another runner owns the state directory.
    StateDirInUse,
    /// The state directory was removed or replaced while the runner worked.
    StateDirLost,
    /// The inbox cannot be used.
    Store(StoreError),
    /// The HTTP client cannot be made.
    Client(ApiError),
    /// A thread or descriptor is refused by the system.
    System(std::io::Error),
    /// The server refuses the agent token.
    TokenRefused,
    /// The server is another instance than configured.
    WrongInstance,
    /// The token belongs to a person.
    NotAnAgent,
    /// Another runner polls with the same consumer.
    Superseded,
}

impl RunnerFault {
    /// The stable code for the log.
    pub fn code(&self) -> &'static str {
        match self {
            Self::StateDir(_) => "state_dir_unusable",
            Self::StateDirInUse => "state_dir_in_use",
            Self::StateDirLost => "state_dir_lost",
            Self::Store(_) => "inbox_unusable",
            Self::Client(_) => "client_unusable",
            Self::System(_) => "system_refused",
            Self::TokenRefused => "agent_token_refused",
            Self::WrongInstance => "wrong_instance",
            Self::NotAnAgent => "not_an_agent",
            Self::Superseded => "gateway_superseded",
        }
    }
}

impl fmt::Display for RunnerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateDir(fault) => write!(f, "runner.state_dir cannot be used ({})", fault.kind()),
            Self::StateDirInUse => write!(
                f,
                "another runner uses this runner.state_dir; stop it or give this one a directory of its own"
            ),
            Self::StateDirLost => {
                write!(f, "runner.state_dir was removed or replaced while the runner worked")
            }
            Self::Store(fault) => {
                write!(f, "the inbox in runner.state_dir cannot be used ({})", fault.code())
            }
            Self::Client(fault) => write!(f, "no client for runner.server_url: {fault}"),
            Self::System(fault) => write!(f, "the system refused a thread or descriptor ({})", fault.kind()),
            Self::TokenRefused => write!(f, "the server refused the token of runner.agent_token_ref"),
            Self::WrongInstance => write!(f, "the server is another instance than runner.instance_id"),
            Self::NotAnAgent => write!(f, "the token of runner.agent_token_ref belongs to no agent"),
            Self::Superseded => {
                write!(f, "another runner polls with the same runner.consumer; only one may run")
            }
        }
    }
}

impl std::error::Error for RunnerFault {}
