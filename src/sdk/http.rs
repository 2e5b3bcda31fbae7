//! One HTTP exchange: request out, whole answer in, with every limit that applies.
//!
//! Knows nothing of credentials, retries and operations. A client owns one [`Http`]; its `shutdown` ends
//! whatever another thread is blocked on.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, Proxy};

use super::error::{ApiError, ApiResult, TransportError};
use super::tls::Roots;
use crate::sys::crash;

/// Longest name resolution; a resolver that is slower than this is down.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);

/// Longest connection set-up, TLS included; it bounds what `shutdown` cannot interrupt.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What a poll may take beyond its `wait_ms` (architecture, "Technical choices").
pub const POLL_SLACK: Duration = Duration::from_secs(10);

/// Oldest idle connection that is used again: below the 5 s after which common servers close one (C6-09).
const MAX_IDLE_AGE: Duration = Duration::from_secs(4);

/// Buffers of one connection, bytes; small, because every run has connections of its own.
const BUFFER_BYTES: usize = 32 * 1024;

/// Longest answer of an ordinary operation, bytes. The longest is a run's context.
pub const ANSWER_LIMIT: u64 = 32 * 1024 * 1024;

/// Longest problem body that is read, bytes.
pub const PROBLEM_LIMIT: u64 = 256 * 1024;

/// How the program names itself to servers.
const USER_AGENT: &str = concat!("claude-code-runner/", env!("CARGO_PKG_VERSION"));

/// What all clients of a runner share: settings and trusted roots.
pub(super) struct HttpSettings {
    /// Whether the server needs TLS.
    pub https: bool,
    /// `sdk.http_timeout`.
    pub timeout: Duration,
    /// `sdk.proxy`.
    pub proxy: Option<String>,
    /// The trusted roots.
    pub roots: Roots,
}

/// Which time limits a request has (architecture, "Technical choices").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// `sdk.http_timeout` for the whole exchange.
    Ordinary,
    /// The server may hold the answer this long; [`POLL_SLACK`] comes on top.
    Poll(Duration),
    /// `sdk.http_timeout` is the longest time without progress; the whole may take any time.
    Transfer,
}

/// One request, ready to send.
pub(super) struct Outgoing<'a> {
    pub method: &'a Method,
    pub url: &'a str,
    pub headers: &'a HeaderMap,
    pub body: Option<&'a [u8]>,
    pub timing: Timing,
    /// What is left of a total limit.
    pub at_most: Option<Duration>,
}

/// One whole answer.
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The connections of one client and the switch that ends them.
pub(super) struct Http {
    settings: Arc<HttpSettings>,
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    agent: Option<Agent>,
    down: bool,
}

impl Http {
    /// A client without connections; none is made before the first request.
    pub fn new(settings: Arc<HttpSettings>) -> Http {
        Http { settings, state: Mutex::default(), stopped: Condvar::new() }
    }

    /// A client with the same settings and its own connections and switch.
    pub fn fork(&self) -> Http {
        Http::new(self.settings.clone())
    }

    /// Ends every request and every wait of this client, now and in future.
    pub fn shutdown(&self) {
        let agent = {
            let mut state = self.state();
            state.down = true;
            state.agent.take()
        };
        self.stopped.notify_all();
        if let Some(agent) = agent {
            agent.shutdown();
        }
    }

    /// Whether [`Http::shutdown`] was called.
    pub fn is_shut_down(&self) -> bool {
        self.state().down
    }

    /// As [`Client::check_roots`](super::client::Client::check_roots).
    pub fn check_roots(&self) -> ApiResult<()> {
        let HttpSettings { https, roots, .. } = &*self.settings;
        if *https || roots.has_file() {
            roots.config()?;
        }
        Ok(())
    }

    /// Waits `time`, or ends at once with [`ApiError::ShutDown`].
    pub fn pause(&self, time: Duration) -> ApiResult<()> {
        let state = self.state();
        let (state, _) = self
            .stopped
            .wait_timeout_while(state, time, |state| !state.down)
            .unwrap_or_else(PoisonError::into_inner);
        if state.down { Err(ApiError::ShutDown) } else { Ok(()) }
    }

    /// Sends and reads the whole answer, at most `limit` bytes of it.
    ///
    /// # Errors
    /// A transport error, or [`ApiError::ShutDown`] whatever the error looks like when the switch was used.
    pub fn send(&self, request: &Outgoing<'_>, limit: u64) -> ApiResult<Answer> {
        let response = self.open(request)?;
        self.read_whole(response, limit)
    }

    /// Sends and gives the answer with its body still on the way.
    pub fn open(&self, request: &Outgoing<'_>) -> ApiResult<Response<Body>> {
        let agent = self.agent()?;
        crash::point(|| place("before", request));
        let result = match request.body {
            Some(bytes) => build(request, bytes).and_then(|r| agent.run(self.timed(&agent, r, request))),
            None => build(request, ()).and_then(|r| agent.run(self.timed(&agent, r, request))),
        };
        crash::point(|| place("after", request));
        result.map_err(|error| self.failure(&error))
    }

    /// Reads the rest of an answer to its end, so that the connection can be used again.
    pub fn read_whole(&self, response: Response<Body>, limit: u64) -> ApiResult<Answer> {
        let (parts, mut body) = response.into_parts();
        if body.content_length().is_some_and(|announced| announced > limit) {
            return Err(TransportError::TooLong.into());
        }
        let mut bytes = Vec::new();
        let read = body.as_reader().take(limit.saturating_add(1)).read_to_end(&mut bytes);
        if let Err(error) = read {
            return Err(self.failure(&error.into()));
        }
        if bytes.len() as u64 > limit {
            return Err(TransportError::TooLong.into());
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: bytes })
    }

    /// What an error means. The switch is looked at first, or a stop would be retried (architecture, "Threads").
    pub fn failure(&self, error: &ureq::Error) -> ApiError {
        if self.is_shut_down() { ApiError::ShutDown } else { classify(error).into() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent, made at the first use. Made and stored under the lock, so no request can miss a shutdown.
    fn agent(&self) -> ApiResult<Agent> {
        if self.is_shut_down() {
            return Err(ApiError::ShutDown);
        }
        let tls = if self.settings.https { Some(self.settings.roots.config()?) } else { None };
        let mut state = self.state();
        if state.down {
            return Err(ApiError::ShutDown);
        }
        if let Some(agent) = &state.agent {
            return Ok(agent.clone());
        }
        let agent = self.new_agent(tls)?;
        state.agent = Some(agent.clone());
        Ok(agent)
    }

    fn new_agent(&self, tls: Option<ureq::tls::TlsConfig>) -> ApiResult<Agent> {
        let proxy = match &self.settings.proxy {
            Some(address) => Some(Proxy::new(address).map_err(|_| TransportError::Connect)?),
            None => None,
        };
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .https_only(self.settings.https)
            .no_delay(true)
            .proxy(proxy)
            .user_agent(USER_AGENT)
            .input_buffer_size(BUFFER_BYTES)
            .output_buffer_size(BUFFER_BYTES)
            .max_idle_age(MAX_IDLE_AGE)
            .timeout_resolve(Some(RESOLVE_LIMIT))
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_global(Some(self.settings.timeout));
        if let Some(tls) = tls {
            builder = builder.tls_config(tls);
        }
        Ok(Agent::with_parts(builder.build(), DefaultConnector::default(), LiteralFirst::default()))
    }

    /// Puts the time limits on a request. Ordinary ones keep the agent's own, so that TLS set-up is cached.
    fn timed<B: ureq::AsSendBody>(
        &self,
        agent: &Agent,
        request: Request<B>,
        outgoing: &Outgoing<'_>,
    ) -> Request<B> {
        let timeout = self.settings.timeout;
        let total = |limit: Duration| outgoing.at_most.map_or(limit, |left| left.min(limit));
        match outgoing.timing {
            Timing::Ordinary if outgoing.at_most.is_none() => request,
            Timing::Ordinary => agent.configure_request(request).timeout_global(Some(total(timeout))).build(),
            Timing::Poll(wait) => {
                let read = wait.saturating_add(POLL_SLACK);
                agent
                    .configure_request(request)
                    .timeout_per_read(Some(read))
                    .timeout_global(Some(total(read.saturating_add(timeout))))
                    .build()
            }
            Timing::Transfer => agent
                .configure_request(request)
                .timeout_per_read(Some(timeout))
                .timeout_per_write(Some(timeout))
                .timeout_global(outgoing.at_most)
                .build(),
        }
    }
}

fn build<B>(outgoing: &Outgoing<'_>, body: B) -> Result<Request<B>, ureq::Error> {
    let mut request = Request::builder().method(outgoing.method).uri(outgoing.url).body(body)?;
    request.headers_mut().extend(outgoing.headers.clone());
    Ok(request)
}

/// The kind of a failed exchange. Kinds only: no address and no text leaves this function.
fn classify(error: &ureq::Error) -> TransportError {
    use std::io::ErrorKind;
    match error {
        ureq::Error::Timeout(_) => TransportError::Timeout,
        ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => TransportError::TooLong,
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::TlsRequired
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::ConnectProxyFailed(_) => TransportError::Connect,
        ureq::Error::Io(io) => match io.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => TransportError::Timeout,
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::AddrNotAvailable
            | ErrorKind::NotConnected
            // rustls reports a bad certificate as invalid data during the handshake
            | ErrorKind::InvalidData => TransportError::Connect,
            _ => TransportError::Broken,
        },
        ureq::Error::Protocol(_) => TransportError::Garbage,
        _ => TransportError::Broken,
    }
}

fn place(when: &str, request: &Outgoing<'_>) -> String {
    let path = request.url.splitn(4, '/').nth(3).unwrap_or_default();
    format!("{when} {} /{}", request.method, crash::shape(path))
}

/// A header value that debug output hides.
///
/// # Errors
/// [`TransportError::Credentials`] when the value cannot stand in a header, a line break for example.
pub(super) fn secret_value(text: &str) -> Result<HeaderValue, TransportError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| TransportError::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The header `name`, when it is there exactly once and is text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

/// Answers for address literals itself: with a time limit ureq would start a thread for each look-up.
#[derive(Debug, Default)]
struct LiteralFirst(DefaultResolver);

impl Resolver for LiteralFirst {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match (host.parse(), uri.port_u16()) {
            (Ok(ip), Some(port)) => {
                let mut addresses = self.empty();
                addresses.push(std::net::SocketAddr::new(ip, port));
                Ok(addresses)
            }
            _ => self.0.resolve(uri, config, timeout),
        }
    }
}
