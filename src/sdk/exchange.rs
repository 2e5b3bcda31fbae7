//! One operation from request to result: credentials, attempts, waits, and what an answer means.
//!
//! Knows nothing of single operations and of run tokens' rules; `client` and `bound` build on it. Every
//! operation of the contract may be repeated as it is: reads and deletions by nature, the others
//! because their key, version or id is stored and sent unchanged.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH, RETRY_AFTER};
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method};
use uuid::Uuid;

use super::client::Client;
use super::error::{ApiError, ApiResult, TransportError};
use super::http::{ANSWER_LIMIT, Answer, Http, Outgoing, Timing, secret_value, single};
use super::retry::{self, Backoff};
use super::wire::problem::{Problem, code};
use super::wire::{INVOCATION_TOKEN_HEADER, Time};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Longest code or reason that is believed, bytes; both reach the log.
const CODE_LIMIT: usize = 64;

/// What to send, the same in every attempt.
pub(super) struct Operation<'a> {
    pub method: Method,
    /// Below the base of the operations, or a whole address when [`Operation::anonymous`].
    pub path: String,
    pub headers: HeaderMap,
    pub body: Option<Cow<'a, [u8]>>,
    pub timing: Timing,
    /// Without credentials: discovery and keys.
    pub anonymous: bool,
}

impl<'a> Operation<'a> {
    /// An operation without a body.
    pub fn new(method: Method, path: String) -> Operation<'a> {
        Operation {
            method,
            path,
            headers: HeaderMap::new(),
            body: None,
            timing: Timing::Ordinary,
            anonymous: false,
        }
    }

    /// A reading operation.
    pub fn get(path: String) -> Operation<'a> {
        Operation::new(Method::GET, path)
    }

    /// An operation with a JSON body.
    pub fn json(method: Method, path: String, body: &impl Serialize) -> ApiResult<Operation<'a>> {
        let bytes = serde_json::to_vec(body).map_err(|_| TransportError::Garbage)?;
        let mut operation = Operation::new(method, path);
        operation.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        operation.body = Some(bytes.into());
        Ok(operation)
    }

    /// With the stored key that makes a repeat harmless.
    pub fn key(mut self, key: Uuid) -> Self {
        if let Ok(value) = HeaderValue::try_from(key.to_string()) {
            self.headers.insert(IDEMPOTENCY_KEY, value);
        }
        self
    }

    /// With the version that must still be the present one.
    pub fn if_match(mut self, version: i64) -> Self {
        if let Ok(value) = HeaderValue::try_from(format!("\"{version}\"")) {
            self.headers.insert(IF_MATCH, value);
        }
        self
    }
}

/// An attempt that gave no result.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: ApiError,
    /// Whether another attempt may go better.
    pub(super) again: bool,
    /// The least wait that the server asks for (`Retry-After`).
    pub wait: Option<Duration>,
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Failed {
        // an answer that is too long will be too long again
        let again = matches!(error, ApiError::Transport(kind) if kind != TransportError::TooLong);
        Failed { error, again, wait: None }
    }
}

impl From<TransportError> for Failed {
    fn from(error: TransportError) -> Failed {
        ApiError::from(error).into()
    }
}

/// The attempts of one operation.
pub(super) struct Rounds<'a> {
    http: &'a Http,
    left: u32,
    backoff: Backoff,
    deadline: Option<Instant>,
}

impl<'a> Rounds<'a> {
    /// `attempts` in all, waits of at most `cap`, the whole within `total`.
    pub fn new(http: &'a Http, attempts: u32, cap: Duration, total: Option<Duration>) -> Rounds<'a> {
        let deadline = total.and_then(|total| Instant::now().checked_add(total));
        Rounds { http, left: attempts.saturating_sub(1), backoff: Backoff::new(cap), deadline }
    }

    /// What is left of the total limit.
    pub fn at_most(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits for the next attempt, or gives the error back when there is none.
    pub fn again(&mut self, failed: Failed) -> ApiResult<()> {
        if !failed.again || self.left == 0 {
            return Err(failed.error);
        }
        self.left -= 1;
        let wait = self.backoff.next_random().max(failed.wait.unwrap_or_default());
        if self.at_most().is_some_and(|left| wait >= left) {
            return Err(failed.error);
        }
        self.http.pause(wait)
    }
}

impl Client {
    /// Runs an operation whose answer is JSON of the type `T`.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
    ) -> ApiResult<T> {
        self.call_checked(operation, token, |_| true)
    }

    /// The same; an answer about something else than was asked for (`fits` says no) is no answer.
    pub(super) fn call_checked<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        fits: impl Fn(&T) -> bool,
    ) -> ApiResult<T> {
        self.exchange(operation, token, |body| {
            serde_json::from_slice(body).ok().filter(|value| fits(value)).ok_or(TransportError::Garbage)
        })
    }

    /// One attempt, for callers that repeat by themselves; tells how long the server asks to be left alone. In its
    /// answer a byte that is no UTF-8 becomes a replacement character.
    pub(super) fn call_once<T: DeserializeOwned>(&self, operation: &Operation<'_>) -> Result<T, Failed> {
        self.round(operation, None, self.rounds().at_most(), &|body| {
            serde_json::from_str(&String::from_utf8_lossy(body)).map_err(|_| TransportError::Garbage)
        })
    }

    /// Runs an operation whose answer carries nothing. A page of something else in between is no answer.
    pub(super) fn call_empty(&self, operation: &Operation<'_>, token: Option<&str>) -> ApiResult<()> {
        self.exchange(operation, token, |body| {
            let json = body.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
            if json { Ok(()) } else { Err(TransportError::Garbage) }
        })
    }

    /// Runs an operation whose answer is JSON that may say what it is about: one about something else (`fits` says
    /// no) is none.
    pub(super) fn call_about(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        fits: impl Fn(&Value) -> bool,
    ) -> ApiResult<()> {
        self.exchange(operation, token, |body| match serde_json::from_slice(body) {
            Ok(said) if fits(&said) => Ok(()),
            _ => Err(TransportError::Garbage),
        })
    }

    fn exchange<T>(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        read: impl Fn(&[u8]) -> Result<T, TransportError>,
    ) -> ApiResult<T> {
        let mut rounds = self.rounds();
        loop {
            match self.round(operation, token, rounds.at_most(), &read) {
                Ok(value) => return Ok(value),
                Err(failed) => rounds.again(failed)?,
            }
        }
    }

    /// One attempt and what its answer means.
    fn round<T>(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        at_most: Option<Duration>,
        read: &impl Fn(&[u8]) -> Result<T, TransportError>,
    ) -> Result<T, Failed> {
        let answer = understand(self.attempt(operation, token, at_most)?)?;
        Ok(read(&answer.body)?)
    }

    /// One attempt. A 401 is repeated once at once with everything read anew: a token file may have been
    /// rotated, and a DPoP nonce comes with the refusal (R-31, RFC 9449 section 8).
    fn attempt(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        at_most: Option<Duration>,
    ) -> ApiResult<Answer> {
        let answer = self.send_once(operation, token, at_most)?;
        if answer.status == 401 && !operation.anonymous {
            return self.send_once(operation, token, at_most);
        }
        Ok(answer)
    }

    pub(super) fn send_once(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
        at_most: Option<Duration>,
    ) -> ApiResult<Answer> {
        let (url, headers) = self.prepared(operation, token)?;
        let answer = self.http().send(&outgoing(operation, &url, &headers, at_most), ANSWER_LIMIT)?;
        self.credentials().learn(&answer.headers);
        Ok(answer)
    }

    /// The address and the headers of one request, with fresh credentials.
    pub(super) fn prepared(
        &self,
        operation: &Operation<'_>,
        token: Option<&str>,
    ) -> ApiResult<(String, HeaderMap)> {
        let mut headers = operation.headers.clone();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        if operation.anonymous {
            return Ok((operation.path.clone(), headers));
        }
        let url = self.api_url(&operation.path);
        self.credentials().apply(&mut headers, operation.method.as_str(), &url)?;
        if let Some(token) = token {
            let name = HeaderName::try_from(INVOCATION_TOKEN_HEADER).map_err(|_| TransportError::Garbage)?;
            headers.insert(name, secret_value(token)?);
        }
        Ok((url, headers))
    }
}

/// The request of an operation at an address.
pub(super) fn outgoing<'a>(
    operation: &'a Operation<'_>,
    url: &'a str,
    headers: &'a HeaderMap,
    at_most: Option<Duration>,
) -> Outgoing<'a> {
    Outgoing {
        method: &operation.method,
        url,
        headers,
        body: operation.body.as_deref(),
        timing: operation.timing,
        at_most,
    }
}

/// Sorts an answer by its status: result, problem, or nothing that the contract knows (a redirect).
pub(super) fn understand(answer: Answer) -> Result<Answer, Failed> {
    match answer.status {
        200..=299 => Ok(answer),
        400..=599 => Err(refused(&answer)),
        _ => Err(TransportError::Garbage.into()),
    }
}

/// What a refusal means: try again, a server that failed, or a final no.
fn refused(answer: &Answer) -> Failed {
    let problem = problem_of(answer);
    if let Some(kind) = retry::repeatable(&problem) {
        let wait =
            single(&answer.headers, &RETRY_AFTER).and_then(|value| retry::retry_after(value, Time::now()));
        return Failed { error: kind.into(), again: true, wait };
    }
    // 501 and a full storage are answers; any other 5xx says only that the server failed
    let answered = problem.status < 500 || problem.is(code::NOT_ENABLED) || problem.is(code::UNAVAILABLE);
    let error = if answered { problem.into() } else { TransportError::Status(problem.status).into() };
    Failed { error, again: false, wait: None }
}

/// The problem of an answer; without a body it counts by its status (contract, "Small print").
fn problem_of(answer: &Answer) -> Problem {
    let mut problem =
        serde_json::from_slice(&answer.body).unwrap_or_else(|_| Problem::new(answer.status, ""));
    problem.status = answer.status;
    if !is_code(&problem.code) {
        problem.code = code_of_status(answer.status).to_owned();
        problem = problem.by_status();
    }
    problem.reason = problem.reason.filter(|reason| is_code(reason));
    problem
}

/// Whether a text from outside has the form of a code, so that it can be logged.
fn is_code(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.len() <= CODE_LIMIT && text.bytes().all(plain)
}

/// The code that stands for a status without one.
fn code_of_status(status: u16) -> &'static str {
    match status {
        400 => code::VALIDATION_FAILED,
        401 => code::UNAUTHENTICATED,
        403 => code::FORBIDDEN,
        404 => code::NOT_FOUND,
        405 => code::METHOD_NOT_ALLOWED,
        409 => code::CONFLICT,
        410 => code::GONE,
        412 => code::VERSION_CONFLICT,
        413 => code::PAYLOAD_TOO_LARGE,
        415 => code::UNSUPPORTED_MEDIA_TYPE,
        429 => code::RATE_LIMITED,
        501 => code::NOT_ENABLED,
        _ => "status_without_code",
    }
}
