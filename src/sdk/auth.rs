//! Credentials of a request: the agent token, plain or bound to a key (RFC 6750, RFC 9449).
//!
//! Everything secret is read anew for each request, so a rotated file works without a restart. Knows
//! nothing of invocation tokens.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};
use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderMap, HeaderName};
use uuid::Uuid;

use super::error::TransportError;
use super::http::{secret_value, single};
use super::jws::DpopKey;
use super::wire::Time;
use crate::config::secret::SecretRef;

/// Header of a proof and of the server's nonce (RFC 9449 sections 4.1 and 8).
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Longest nonce that is kept, bytes.
const NONCE_LIMIT: usize = 1024;

/// Where the secrets are, and the server's newest nonce, shared by all clients of a runner.
#[derive(Clone)]
pub(super) struct Credentials {
    token: SecretRef,
    dpop_key: Option<SecretRef>,
    nonce: Arc<Mutex<Option<String>>>,
}

impl Credentials {
    /// Credentials read from `token`, bound to `dpop_key` when there is one.
    pub fn new(token: SecretRef, dpop_key: Option<SecretRef>) -> Credentials {
        Credentials { token, dpop_key, nonce: Arc::default() }
    }

    /// Puts the credentials for one request on `headers`. `url` may carry a query, which a proof leaves out.
    ///
    /// # Errors
    /// [`TransportError::Credentials`] when a secret cannot be read or used.
    pub fn apply(&self, headers: &mut HeaderMap, method: &str, url: &str) -> Result<(), TransportError> {
        let token = self.token.read().map_err(|_| TransportError::Credentials)?;
        let token = token.expose();
        let scheme = match &self.dpop_key {
            None => "Bearer",
            Some(reference) => {
                let proof = self.proof(reference, method, url, token)?;
                headers.insert(DPOP, secret_value(&proof)?);
                "DPoP"
            }
        };
        headers.insert(AUTHORIZATION, secret_value(&format!("{scheme} {token}"))?);
        Ok(())
    }

    /// Keeps the nonce of an answer; any answer may bring a newer one (RFC 9449 section 8.2).
    pub fn learn(&self, headers: &HeaderMap) {
        if self.dpop_key.is_none() {
            return;
        }
        if let Some(nonce) = single(headers, &DPOP_NONCE).filter(|nonce| nonce.len() <= NONCE_LIMIT) {
            *self.nonce.lock().unwrap_or_else(PoisonError::into_inner) = Some(nonce.to_owned());
        }
    }

    /// A proof for exactly one request (RFC 9449 section 4.2).
    fn proof(&self, key: &SecretRef, method: &str, url: &str, token: &str) -> Result<String, TransportError> {
        let pem = key.read().map_err(|_| TransportError::Credentials)?;
        let key = DpopKey::from_pem(pem.expose()).map_err(|_| TransportError::Credentials)?;
        let mut claims = json!({
            "jti": Uuid::new_v4(),
            "htm": method,
            "htu": url.split('?').next().unwrap_or(url),
            "iat": Time::now().as_seconds(),
            "ath": URL_SAFE_NO_PAD.encode(Sha256::digest(token)),
        });
        if let Some(nonce) = self.nonce.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
            claims["nonce"] = nonce.into();
        }
        let header = json!({"typ": "dpop+jwt", "jwk": key.public_jwk()});
        key.sign(&header, &claims).map_err(|_| TransportError::Credentials)
    }
}
