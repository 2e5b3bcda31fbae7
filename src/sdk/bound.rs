//! The binding of a run: every request carries the run's newest token, and R-31 decides what follows when
//! the server refuses it. [`meaning`] is that decision, in one place.
//!
//! Knows the operations of a run, nothing of what a run does with them.

use std::fmt;
use std::time::Duration;

use ureq::http::Method;
use uuid::Uuid;

use super::client::Client;
use super::error::{ApiError, ApiResult, TransportError};
use super::exchange::Operation;
use super::jws;
use super::wire::file::InstanceInfo;
use super::wire::message::{MessageCreate, MessageCreated, RunContext, ThreadInfo, ThreadTitlePut};
use super::wire::problem::{Problem, code, reason};
use super::wire::run::{
    AgentSessionReport, FollowupReport, FollowupState, InvocationTokenGrant, InvocationTokenRenew, RunFinish,
    RunInfo, RunPatch, RunStart, RunStarted, Versioned,
};

pub use super::token::{TokenCell, TokenStore};

/// How a request of a run can end without a result.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// The server ended the run: stop, send nothing more.
    Ended,
    /// The run's client was shut down by a stop.
    ShutDown,
    /// The credentials are refused for now: keep the work and try later.
    Hold(HoldReason),
    /// The server said no, for good.
    Problem(Box<Problem>),
    /// No usable answer came: keep the work and try later.
    Transport(TransportError),
}

/// Why work is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The agent token is refused, also when read anew.
    Unauthenticated,
    /// The invocation token is refused, also after a renewal.
    TokenRefused,
}

impl RunError {
    /// The stable code for logs.
    pub fn code(&self) -> &str {
        match self {
            Self::Ended => "run_ended_by_server",
            Self::ShutDown => "shut_down",
            Self::Hold(HoldReason::Unauthenticated) => "held_unauthenticated",
            Self::Hold(HoldReason::TokenRefused) => "held_token_refused",
            Self::Problem(problem) => &problem.code,
            Self::Transport(error) => error.code(),
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Hold(_) | Self::Transport(_))
    }

    /// The problem, when the server said no.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl std::error::Error for RunError {}

impl From<ApiError> for RunError {
    fn from(error: ApiError) -> RunError {
        match error {
            ApiError::ShutDown => RunError::ShutDown,
            ApiError::Transport(error) => RunError::Transport(error),
            ApiError::Problem(problem) => RunError::Problem(problem),
        }
    }
}

/// What follows from a problem on a bound request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Renew the token and repeat, once; then hold.
    Renew,
    /// Repeat with the newest stored token, once; then hold.
    UseNewest,
    /// Keep the work. The request was already repeated with reread credentials (`exchange`).
    Hold(HoldReason),
    /// The server ended the run.
    Ended,
    /// The answer to this request.
    Final,
}

/// R-31 in full; what the number of repeats is, [`Bound::request`] counts.
fn meaning(problem: &Problem) -> Meaning {
    if problem.status == 401 {
        return Meaning::Hold(HoldReason::Unauthenticated);
    }
    if !problem.is(code::INVOCATION_TOKEN_INVALID) {
        return Meaning::Final;
    }
    match problem.reason.as_deref() {
        Some(reason::RUN_INACTIVE) => Meaning::Ended,
        Some(reason::SUPERSEDED) => Meaning::UseNewest,
        // `expired`, `invalid`, and a reason that this version does not know
        _ => Meaning::Renew,
    }
}

fn is_invalid(problem: &Problem) -> bool {
    problem.is_because(code::INVOCATION_TOKEN_INVALID, reason::INVALID)
}

/// Who deals with a superseded token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Superseded {
    /// The binding: repeat with the newest one.
    Repeat,
    /// The caller: before the start it releases slot and locks and waits for the newer one.
    Report,
}

/// The requests of one run.
#[derive(Clone)]
pub struct Bound {
    client: Client,
    run_id: Uuid,
    token: TokenCell,
}

impl Bound {
    pub(super) fn new(client: Client, run_id: Uuid, token: TokenCell) -> Bound {
        Bound { client, run_id, token }
    }

    /// The client below, for its shutdown.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same run over a client of its own, each operation within `total`: for finishing and for aborting
    /// uploads after a stop shut this binding's client down.
    pub fn within(&self, total: Duration) -> Bound {
        Bound { client: self.client.with_total_limit(total), ..self.clone() }
    }

    /// The run.
    pub fn run_id(&self) -> Uuid {
        self.run_id
    }

    /// The cell with the run's newest token.
    pub fn token(&self) -> &TokenCell {
        &self.token
    }

    /// Sends with the newest token and does what [`meaning`] says, each kind of repeat at most once.
    pub(super) fn request<T>(&self, send: impl FnMut(&str) -> ApiResult<T>) -> Result<T, RunError> {
        self.request_by(Superseded::Repeat, send)
    }

    fn request_by<T>(
        &self,
        superseded: Superseded,
        mut send: impl FnMut(&str) -> ApiResult<T>,
    ) -> Result<T, RunError> {
        let (mut may_renew, mut may_use_newest) = (true, superseded == Superseded::Repeat);
        loop {
            let (token, generation) = self.token.current();
            let problem = match send(&token) {
                Ok(value) => return Ok(value),
                Err(ApiError::Problem(problem)) => problem,
                Err(error) => return Err(error.into()),
            };
            match meaning(&problem) {
                Meaning::Renew if may_renew => {
                    may_renew = false;
                    self.token.renew_once(generation, || self.renew())?;
                }
                Meaning::UseNewest if superseded == Superseded::Report => {
                    return Err(RunError::Problem(problem));
                }
                Meaning::UseNewest if may_use_newest && self.token.generation() != generation => {
                    may_use_newest = false;
                }
                // A start that needs another token than the server's newest one will never be allowed.
                Meaning::Renew if superseded == Superseded::Report && is_invalid(&problem) => {
                    return Err(RunError::Problem(problem));
                }
                Meaning::Renew | Meaning::UseNewest => return Err(RunError::Hold(HoldReason::TokenRefused)),
                Meaning::Hold(reason) => return Err(RunError::Hold(reason)),
                Meaning::Ended => return Err(RunError::Ended),
                Meaning::Final => return Err(RunError::Problem(problem)),
            }
        }
    }

    /// `renewInvocationToken` for the newest token, which carries no token itself (contract, "Common rules").
    ///
    /// # Errors
    /// [`RunError::Ended`] when the server refuses: it has ended the run or will do so.
    pub fn renew(&self) -> Result<(), RunError> {
        let known = jws::peek(&self.token.newest()).ok();
        let jti = known.as_ref().and_then(|token| token.claims.get("jti")).and_then(|jti| jti.as_str());
        let expired_jti = jti.ok_or(RunError::Hold(HoldReason::TokenRefused))?.to_owned();
        let path = format!("/runs/{}/invocation-token", self.run_id);
        let operation = Operation::json(Method::POST, path, &InvocationTokenRenew { expired_jti })?;
        match self.client.call::<InvocationTokenGrant>(&operation, None) {
            Ok(grant) => {
                self.token.renewed(grant.invocation_token);
                Ok(())
            }
            Err(ApiError::Problem(problem)) => Err(match problem.status {
                403 | 404 => RunError::Ended,
                401 => RunError::Hold(HoldReason::Unauthenticated),
                _ => RunError::Hold(HoldReason::TokenRefused),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// `getRunContext`. A 404 means that the server ended the run.
    pub fn get_run_context(&self) -> Result<RunContext, RunError> {
        let operation = Operation::get(format!("/runs/{}/context", self.run_id));
        let fits = |context: &RunContext| context.run_id == self.run_id;
        let result = self.request(|token| self.client.call_checked(&operation, Some(token), fits));
        match result {
            Err(RunError::Problem(problem)) if problem.status == 404 => Err(RunError::Ended),
            other => other,
        }
    }

    /// `startRun` with the stored key and the stored body. An expired token is renewed once; a superseded one
    /// comes back as the problem, because the caller then releases what it holds and waits, and so does one that
    /// is invalid also after a renewal, which ends the run (M2-34 note 5).
    pub fn start_run(&self, key: Uuid, body: &RunStart) -> Result<RunStarted, RunError> {
        let path = format!("/runs/{}/start", self.run_id);
        let operation = Operation::json(Method::POST, path, body)?.key(key);
        let fits = |started: &RunStarted| started.run.run_id == self.run_id;
        self.request_by(Superseded::Report, |token| self.client.call_checked(&operation, Some(token), fits))
    }

    /// `patchRun`. A repeat after a lost answer gives `base_version_conflict`, see [`current_version`].
    pub fn patch_run(&self, patch: &RunPatch) -> Result<Versioned, RunError> {
        let operation = Operation::json(Method::PATCH, format!("/runs/{}", self.run_id), patch)?;
        self.request(|token| self.client.call(&operation, Some(token)))
    }

    /// `finishRun`. It needs no valid token: a refused one is left out instead of renewed.
    pub fn finish_run(&self, body: &RunFinish) -> Result<(), RunError> {
        self.optional_token(|token| self.client.finish_run_with(self.run_id, body, token))
    }

    /// `getRun`; `None` when the server does not know the run. Needs no valid token either.
    pub fn get_run(&self) -> Result<Option<RunInfo>, RunError> {
        match self.optional_token(|token| self.client.get_run_with(self.run_id, token)) {
            Err(RunError::Problem(problem)) if problem.status == 404 => Ok(None),
            other => other.map(Some),
        }
    }

    fn optional_token<T>(&self, send: impl Fn(Option<&str>) -> ApiResult<T>) -> Result<T, RunError> {
        let newest = self.token.newest();
        // Empty for a run whose entry was lost.
        let first = send(Some(newest.as_str()).filter(|token| !token.is_empty()));
        let result = match first {
            Err(ApiError::Problem(problem)) if problem.is(code::INVOCATION_TOKEN_INVALID) => send(None),
            other => other,
        };
        result.map_err(|error| match error {
            ApiError::Problem(problem) => match meaning(&problem) {
                Meaning::Hold(reason) => RunError::Hold(reason),
                Meaning::Ended => RunError::Ended,
                _ => RunError::Problem(problem),
            },
            error => error.into(),
        })
    }

    /// `reportAgentSession` with the version it starts from.
    pub fn report_agent_session(
        &self,
        version: i64,
        body: &AgentSessionReport,
    ) -> Result<Versioned, RunError> {
        let path = format!("/runs/{}/agent-session", self.run_id);
        let operation = Operation::json(Method::PUT, path, body)?.if_match(version);
        self.request(|token| self.client.call(&operation, Some(token)))
    }

    /// `reportFollowup`.
    pub fn report_followup(&self, followup_id: Uuid, state: FollowupState) -> Result<(), RunError> {
        let path = format!("/runs/{}/followups/{followup_id}", self.run_id);
        let operation = Operation::json(Method::POST, path, &FollowupReport { state })?;
        self.request(|token| self.client.call_empty(&operation, Some(token)))
    }

    /// `createMessage`; safe to repeat by the body's `client_msg_id`.
    pub fn create_message(&self, thread: Uuid, body: &MessageCreate) -> Result<MessageCreated, RunError> {
        let operation = Operation::json(Method::POST, format!("/threads/{thread}/messages"), body)?;
        let fits = |created: &MessageCreated| created.client_msg_id == body.client_msg_id;
        self.request(|token| self.client.call_checked(&operation, Some(token), fits))
    }

    /// `getThread`.
    pub fn get_thread(&self, thread: Uuid) -> Result<ThreadInfo, RunError> {
        let operation = Operation::get(format!("/threads/{thread}"));
        self.request(|token| self.client.call(&operation, Some(token)))
    }

    /// `setThreadTitle` with the version it starts from.
    pub fn set_thread_title(&self, thread: Uuid, version: i64, title: &str) -> Result<(), RunError> {
        let body = ThreadTitlePut { title: title.to_owned() };
        let path = format!("/threads/{thread}/title");
        let operation = Operation::json(Method::PUT, path, &body)?.if_match(version);
        self.request(|token| self.client.call_empty(&operation, Some(token)))
    }

    /// `getInstance`, for the limits of an answer's files (D-M3-12-5).
    pub fn get_instance(&self) -> Result<InstanceInfo, RunError> {
        let operation = Operation::get("/instance".to_owned());
        self.request(|token| self.client.call(&operation, Some(token)))
    }
}

/// The present version that a conflict names, in `current.version` or in `current` itself.
pub fn current_version(problem: &Problem) -> Option<i64> {
    let current = problem.current.as_ref()?;
    current.get("version").unwrap_or(current).as_i64()
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod tests;
