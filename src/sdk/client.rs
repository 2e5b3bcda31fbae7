//! The agent's client: every operation that belongs to no run, and the way into a run's binding.
//!
//! Knows nothing of tokens of runs (`bound`) and keeps no state but connections, nonce and base address.
//! A client is cheap to clone; a fork has its own connections and its own switch.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use ureq::http::Method;
use uuid::Uuid;

use super::address::{Address, DISCOVERY_PATH, query};
use super::auth::Credentials;
use super::bound::{Bound, TokenCell};
use super::error::{ApiError, TransportError};
use super::exchange::{Failed, Operation, Rounds};
use super::http::{Http, HttpSettings, Timing};
use super::jws::JwkSet;
use super::tls::Roots;
use super::wire::channel::{AgentChannelConfig, ServedChannels};
use super::wire::event::{AckEvents, PollAnswer};
use super::wire::file::{Discovery, InstanceInfo, Me};
use super::wire::heartbeat::{Heartbeat, HeartbeatAck};
use super::wire::run::{RunFinish, RunInfo};
use crate::config::secret::SecretRef;

pub use super::error::ApiResult;

/// Most pages of a listing; a server that never stops paging must not hold the start.
const MAX_PAGES: usize = 200;

/// Most attempts within a total limit, where the time is short.
const ATTEMPTS_WITHIN_LIMIT: u32 = 3;

/// Longest wait between those attempts.
const DELAY_WITHIN_LIMIT: Duration = Duration::from_millis(500);

/// Where the server is and how to talk to it.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `runner.server_url`.
    pub server_url: String,
    /// `runner.agent_token_ref`.
    pub token: SecretRef,
    /// `runner.dpop_key_ref`.
    pub dpop_key: Option<SecretRef>,
    /// `sdk.http_timeout`.
    pub http_timeout: Duration,
    /// `sdk.retry_max_attempts`.
    pub retry_max_attempts: u32,
    /// `sdk.retry_max_delay`.
    pub retry_max_delay: Duration,
    /// `sdk.proxy`.
    pub proxy: Option<String>,
    /// `sdk.ca_file`.
    pub ca_file: Option<PathBuf>,
}

/// The agent's way to the chat server.
#[derive(Clone)]
pub struct Client {
    http: Arc<Http>,
    common: Arc<Common>,
    attempts: u32,
    max_delay: Duration,
    total: Option<Duration>,
}

/// What all forks of a client share.
struct Common {
    server: Address,
    credentials: Credentials,
    bases: Mutex<Bases>,
}

/// What discovery found.
struct Bases {
    api: Address,
    jwks: Option<String>,
}

impl Client {
    /// A client; nothing is connected and no root certificate read before the first request.
    ///
    /// # Errors
    /// [`TransportError::Connect`] for a server address that is neither https nor loopback http.
    pub fn new(settings: ClientSettings) -> ApiResult<Client> {
        let server = Address::parse(&settings.server_url).ok_or(TransportError::Connect)?;
        let http = HttpSettings {
            https: server.is_https(),
            timeout: settings.http_timeout,
            proxy: settings.proxy,
            roots: Roots::new(settings.ca_file),
        };
        let bases = Bases { api: server.clone().with_api_path(), jwks: None };
        let credentials = Credentials::new(settings.token, settings.dpop_key);
        Ok(Client {
            http: Arc::new(Http::new(Arc::new(http))),
            common: Arc::new(Common { server, credentials, bases: Mutex::new(bases) }),
            attempts: settings.retry_max_attempts,
            max_delay: settings.retry_max_delay,
            total: None,
        })
    }

    /// Whether what an https connection trusts can be loaded. Also looks at a `sdk.ca_file` that no request needs,
    /// because somebody meant it.
    ///
    /// # Errors
    /// [`TransportError::Connect`] when `sdk.ca_file` is no PEM file of certificates, or nothing is trusted at all.
    pub fn check_roots(&self) -> ApiResult<()> {
        self.http.check_roots()
    }

    /// The same client with its own connections and its own switch; also usable after a shutdown of `self`.
    pub fn fork(&self) -> Client {
        Client { http: Arc::new(self.http.fork()), ..self.clone() }
    }

    /// A fork whose every operation, attempts and waits included, takes at most `total`: for the last
    /// requests of a run whose own client was shut down by its stop.
    pub fn with_total_limit(&self, total: Duration) -> Client {
        let attempts = self.attempts.min(ATTEMPTS_WITHIN_LIMIT);
        let max_delay = self.max_delay.min(DELAY_WITHIN_LIMIT);
        Client { attempts, max_delay, total: Some(total), ..self.fork() }
    }

    /// Ends every request and wait of this client and its clones at once, with [`ApiError::ShutDown`].
    pub fn shutdown(&self) {
        self.http.shutdown();
    }

    /// Whether [`Client::shutdown`] was called.
    pub fn is_shut_down(&self) -> bool {
        self.http.is_shut_down()
    }

    /// The binding of one run: every request carries the newest token of `token`.
    pub fn bind(&self, run_id: Uuid, token: TokenCell) -> Bound {
        Bound::new(self.clone(), run_id, token)
    }

    /// `getDiscovery`: also sets the base of all later requests.
    ///
    /// # Errors
    /// [`TransportError::Garbage`] when `api_base` or `jwks_uri` has another origin than the server.
    pub fn get_discovery(&self) -> ApiResult<Discovery> {
        let operation = self.discovery();
        let own = |text: &str| Address::parse(text).filter(|it| it.same_origin(&self.common.server));
        let check = |found: &Discovery| own(&found.api_base).is_some() && own(&found.jwks_uri).is_some();
        let found: Discovery = self.call_checked(&operation, None, check)?;
        if let Some(api) = own(&found.api_base) {
            *self.bases() = Bases { api: api.with_api_path(), jwks: Some(found.jwks_uri.clone()) };
        }
        Ok(found)
    }

    /// `getJwks`, after a discovery when there was none.
    pub fn get_jwks(&self) -> ApiResult<JwkSet> {
        let known = self.bases().jwks.clone();
        let address = match known {
            Some(address) => address,
            None => {
                self.get_discovery()?;
                self.bases().jwks.clone().ok_or(TransportError::Garbage)?
            }
        };
        self.call(&self.anonymous(address), None)
    }

    /// `getMe`.
    pub fn get_me(&self) -> ApiResult<Me> {
        self.call(&Operation::get("/me".to_owned()), None)
    }

    /// `getInstance` outside a run.
    pub fn get_instance(&self) -> ApiResult<InstanceInfo> {
        self.call(&Operation::get("/instance".to_owned()), None)
    }

    /// `listServedChannels`, all pages.
    ///
    /// # Errors
    /// [`TransportError::Garbage`] when the pages do not end.
    pub fn list_served_channels(&self) -> ApiResult<Vec<AgentChannelConfig>> {
        let (mut channels, mut seen, mut cursor) = (Vec::new(), HashSet::new(), None::<String>);
        while seen.len() < MAX_PAGES {
            let pairs: Vec<_> = cursor.iter().map(|cursor| ("cursor", cursor.clone())).collect();
            let page: ServedChannels =
                self.call(&Operation::get(format!("/agents/me/channels{}", query(&pairs))), None)?;
            channels.extend(page.channels);
            match page.next_cursor {
                None => return Ok(channels),
                Some(next) if !seen.insert(next.clone()) => break,
                next => cursor = next,
            }
        }
        Err(TransportError::Garbage.into())
    }

    /// `getServedChannelConfig`; `None` for a channel that this agent does not serve.
    pub fn get_served_channel_config(&self, channel_id: Uuid) -> ApiResult<Option<AgentChannelConfig>> {
        let operation = Operation::get(format!("/agents/me/channels/{channel_id}"));
        found(self.call_checked(&operation, None, |it: &AgentChannelConfig| it.channel_id == channel_id))
    }

    /// `pollEvents`, one attempt. `wait` is sent as `wait_ms`; `after` is left out when there is none.
    pub fn poll_events(
        &self,
        consumer: &str,
        after: Option<i64>,
        wait: Duration,
        max: u32,
    ) -> Result<PollAnswer, Failed> {
        let mut pairs = vec![("consumer", consumer.to_owned())];
        pairs.extend(after.map(|seq| ("after", seq.to_string())));
        pairs.push(("wait_ms", wait.as_millis().to_string()));
        pairs.push(("max", max.to_string()));
        let mut operation = Operation::get(format!("/gateway/events{}", query(&pairs)));
        operation.timing = Timing::Poll(wait);
        // A byte that is no UTF-8 is a fault of the event that holds it, not of the whole answer.
        self.call_once(&operation)
    }

    /// `ackEvents`.
    pub fn ack_events(&self, acks: &AckEvents) -> ApiResult<()> {
        self.call_empty(&Operation::json(Method::POST, "/gateway/acks".to_owned(), acks)?, None)
    }

    /// `sendHeartbeat`, one attempt: a later one says more than a repeat.
    pub fn send_heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAck, Failed> {
        let path = "/agents/me/heartbeat".to_owned();
        self.call_once(&Operation::json(Method::POST, path, heartbeat)?)
    }

    /// `getRun` outside the run's binding; `None` when the server does not know the run.
    pub fn get_run(&self, run_id: Uuid) -> ApiResult<Option<RunInfo>> {
        found(self.get_run_with(run_id, None))
    }

    /// `finishRun` without an invocation token, which the server accepts for a run of this agent.
    pub fn finish_run_unbound(&self, run_id: Uuid, body: &RunFinish) -> ApiResult<()> {
        self.finish_run_with(run_id, body, None)
    }

    pub(super) fn get_run_with(&self, run_id: Uuid, token: Option<&str>) -> ApiResult<RunInfo> {
        let operation = Operation::get(format!("/runs/{run_id}"));
        self.call_checked(&operation, token, |run: &RunInfo| run.run_id == run_id)
    }

    pub(super) fn finish_run_with(
        &self,
        run_id: Uuid,
        body: &RunFinish,
        token: Option<&str>,
    ) -> ApiResult<()> {
        let operation = Operation::json(Method::POST, format!("/runs/{run_id}/finish"), body)?;
        let own = Value::String(run_id.to_string());
        self.call_about(&operation, token, |answer| answer.get("run_id").is_none_or(|named| *named == own))
    }

    /// Waits `time`, or ends at once with [`ApiError::ShutDown`].
    pub fn pause(&self, time: Duration) -> ApiResult<()> {
        self.http.pause(time)
    }

    pub(super) fn http(&self) -> &Http {
        &self.http
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.common.credentials
    }

    pub(super) fn api_url(&self, path: &str) -> String {
        self.bases().api.join(path)
    }

    pub(super) fn rounds(&self) -> Rounds<'_> {
        Rounds::new(&self.http, self.attempts, self.max_delay, self.total)
    }

    pub(super) fn discovery(&self) -> Operation<'static> {
        self.anonymous(self.common.server.join(DISCOVERY_PATH))
    }

    fn anonymous(&self, address: String) -> Operation<'static> {
        let mut operation = Operation::get(address);
        operation.anonymous = true;
        operation
    }

    fn bases(&self) -> std::sync::MutexGuard<'_, Bases> {
        self.common.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thing that may not be there: 404 is `None`.
fn found<T>(result: ApiResult<T>) -> ApiResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ApiError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
