//! The adapter's check of an invocation token, points 1 to 6 of the contract, in their order.
//!
//! Pure: the time is given, keys are loaded by the caller when [`Verifier::needs_reload`] says so. Point 7
//! (a `jti` seen before) is the inbox's, 8 and 10 (billing mode, tool class) are the caller's.

use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use uuid::Uuid;

use super::jws::{self, JwkSet, JwsError};
use super::wire::Time;
use super::wire::event::AgentInvocation;
use super::wire::run::{BillingMode, ToolClass};

/// `typ` of every invocation token.
pub const TOKEN_TYPE: &str = "invocation+jwt";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Claims {
    /// The instance that issued it.
    pub iss: Uuid,
    /// The agent it is for.
    pub aud: Uuid,
    /// Its identity.
    pub jti: String,
    /// When it was issued, seconds since 1970.
    #[serde(deserialize_with = "numeric_date")]
    pub iat: i64,
    /// From when on it counts, seconds since 1970.
    #[serde(default, deserialize_with = "optional_numeric_date")]
    pub nbf: Option<i64>,
    /// Until when it counts, seconds since 1970.
    #[serde(deserialize_with = "numeric_date")]
    pub exp: i64,
    /// The run.
    pub run_id: Uuid,
    /// Its thread.
    pub thread_id: Uuid,
    /// The channel of the thread.
    pub channel_id: Uuid,
    /// The person it acts for.
    pub acting_for: Uuid,
    /// Who pays.
    pub billing_mode: BillingMode,
    /// What the server allows.
    pub tool_class: ToolClass,
}

/// What a token says, unchecked: for a token that the server itself has just handed out over its own
/// connection and that only goes back to it. `None` when it cannot be read.
pub fn peek_claims(token: &str) -> Option<Claims> {
    serde_json::from_value(jws::peek(token).ok()?.claims).ok()
}

/// The points of the check that can fail for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// 1: compact form, header, algorithm, type.
    Form,
    /// 3: the signature.
    Signature,
    /// 4: `iss`.
    Issuer,
    /// 5: `aud`.
    Audience,
    /// 6: the times.
    Time,
    /// 6: a claim that is missing, malformed or not the payload's.
    Payload,
}

impl Point {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Form => "token_form",
            Self::Signature => "token_signature",
            Self::Issuer => "token_issuer",
            Self::Audience => "token_audience",
            Self::Time => "token_time",
            Self::Payload => "token_payload",
        }
    }
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every point holds.
    Valid(Claims),
    /// Every point holds but `exp`: accepted, and renewed before the start.
    Expired(Claims),
    /// 2: the key is not known. Reload when allowed; still unknown: neither acknowledged nor answered.
    UnknownKid,
    /// Refused at this point, the first that failed.
    Invalid(Point),
}

/// The expected issuer and audience, and the server's keys.
pub struct Verifier {
    issuer: Uuid,
    audience: Uuid,
    leeway: Duration,
    keys: JwkSet,
    min_interval: Duration,
    last_reload: Option<Instant>,
}

impl Verifier {
    /// `issuer` is `runner.instance_id`, `audience` the agent's own id, `leeway`
    /// `adapter.invocation_token_leeway`, `min_interval` `adapter.jwks_refresh_min_interval`.
    pub fn new(issuer: Uuid, audience: Uuid, leeway: Duration, min_interval: Duration) -> Verifier {
        Verifier { issuer, audience, leeway, keys: JwkSet::default(), min_interval, last_reload: None }
    }

    /// Whether the keys may be loaded (again) at `now`: never two loads within the least interval, failed
    /// ones included.
    pub fn needs_reload(&self, now: Instant) -> bool {
        self.next_reload().is_none_or(|next| now >= next)
    }

    /// When the next load is allowed; `None`: at once.
    pub fn next_reload(&self) -> Option<Instant> {
        self.last_reload.and_then(|last| last.checked_add(self.min_interval))
    }

    /// A load begins at `now`.
    pub fn reload_started(&mut self, now: Instant) {
        self.last_reload = Some(now);
    }

    /// A load gave these keys, which replace the old ones.
    pub fn loaded(&mut self, keys: JwkSet) {
        self.keys = keys;
    }

    /// Checks `token` against the payload it came with, at the time `now`. First failure wins.
    pub fn check(&self, token: &str, payload: &AgentInvocation, now: Time) -> Verdict {
        match self.check_points(token, payload, now) {
            Ok(claims) if self.is_expired(&claims, now) => Verdict::Expired(claims),
            Ok(claims) => Verdict::Valid(claims),
            Err(Refusal::UnknownKid) => Verdict::UnknownKid,
            Err(Refusal::At(point)) => Verdict::Invalid(point),
        }
    }

    fn check_points(&self, token: &str, payload: &AgentInvocation, now: Time) -> Result<Claims, Refusal> {
        let raw = self.signed_claims(token)?;
        require(is_uuid(&raw, "iss", self.issuer), Point::Issuer)?;
        require(is_uuid(&raw, "aud", self.audience), Point::Audience)?;
        let claims: Claims = serde_json::from_value(raw).map_err(|_| Refusal::At(Point::Payload))?;
        require(self.has_begun(&claims, now), Point::Time)?;
        require(says_the_same(&claims, payload), Point::Payload)?;
        Ok(claims)
    }

    /// Points 1 to 3.
    fn signed_claims(&self, token: &str) -> Result<Value, Refusal> {
        let header = jws::header(token).map_err(refusal)?;
        require(header.typ.as_deref() == Some(TOKEN_TYPE), Point::Form)?;
        let verified = jws::verify(token, &self.keys).map_err(refusal)?;
        serde_json::from_slice(&verified.claims).map_err(|_| Refusal::At(Point::Form))
    }

    /// `nbf` and `iat` may be ahead of this clock by the leeway, no more (C7-09).
    fn has_begun(&self, claims: &Claims, now: Time) -> bool {
        let latest = now.as_seconds().saturating_add(self.leeway_seconds());
        claims.iat <= latest && claims.nbf.is_none_or(|nbf| nbf <= latest)
    }

    fn is_expired(&self, claims: &Claims, now: Time) -> bool {
        claims.exp.saturating_add(self.leeway_seconds()) <= now.as_seconds()
    }

    fn leeway_seconds(&self) -> i64 {
        i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX)
    }
}

/// Where the check ends.
enum Refusal {
    UnknownKid,
    At(Point),
}

fn refusal(error: JwsError) -> Refusal {
    match error {
        JwsError::UnknownKid => Refusal::UnknownKid,
        JwsError::Signature => Refusal::At(Point::Signature),
        JwsError::Form | JwsError::Algorithm | JwsError::Key => Refusal::At(Point::Form),
    }
}

fn require(holds: bool, point: Point) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::At(point)) }
}

fn is_uuid(claims: &Value, name: &str, expected: Uuid) -> bool {
    claims.get(name).and_then(Value::as_str).and_then(|text| Uuid::parse_str(text).ok()) == Some(expected)
}

/// Every member that stands in both (contract, point 6).
fn says_the_same(claims: &Claims, payload: &AgentInvocation) -> bool {
    !claims.jti.is_empty()
        && claims.run_id == payload.run_id
        && claims.thread_id == payload.thread_id
        && claims.channel_id == payload.channel_id
        && claims.billing_mode == payload.billing_mode
        && claims.tool_class == payload.tool_class
}

/// Seconds since 1970, whole or with a fraction (RFC 7519 section 2); the fraction is cut.
fn numeric_date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    if let Some(seconds) = number.as_i64() {
        return Ok(seconds);
    }
    let bounded = |seconds: &f64| seconds.abs() < i64::MAX as f64;
    let seconds = number.as_f64().filter(bounded).ok_or_else(|| de::Error::custom("not a time"))?;
    Ok(seconds.floor() as i64)
}

fn optional_numeric_date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    numeric_date(deserializer).map(Some)
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
