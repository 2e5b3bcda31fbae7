//! Compact JSON Web Signatures (RFC 7515) with the two algorithms of the contract.
//!
//! Only `EdDSA` (Ed25519) and `ES256` can be expressed here: there is no value for `none`, for HMAC or for
//! anything else, so no header can ask for them. Knows nothing of invocation tokens and their claims.

mod keys;
mod sign;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

pub use keys::{Jwk, JwkSet};
pub use sign::{DpopKey, SigningKey};

/// Longest compact form that is looked at, bytes; an invocation token has well below a tenth of it.
pub const MAX_COMPACT_BYTES: usize = 16 * 1024;

/// The signature algorithms (contract, "Invocation token").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Ed25519 (RFC 8037).
    EdDsa,
    /// ECDSA on P-256 with SHA-256 (RFC 7518 section 3.4).
    Es256,
}

impl Algorithm {
    /// The name in a header.
    pub fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
        }
    }

    fn from_name(name: &str) -> Option<Algorithm> {
        [Self::EdDsa, Self::Es256].into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Why a signed text is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwsError {
    /// Not three parts of canonical base64url, too long, or a header that is not understood.
    Form,
    /// Another algorithm than the two, or a key of another kind than the header says.
    Algorithm,
    /// No key has the header's `kid`.
    UnknownKid,
    /// The signature does not fit.
    Signature,
    /// A key cannot be made or read.
    Key,
}

impl JwsError {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Form => "jws_form",
            Self::Algorithm => "jws_algorithm",
            Self::UnknownKid => "jws_unknown_kid",
            Self::Signature => "jws_signature",
            Self::Key => "jws_key",
        }
    }
}

impl std::fmt::Display for JwsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

impl std::error::Error for JwsError {}

/// The header of an accepted signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Which key.
    pub kid: String,
    /// The type of the content.
    pub typ: Option<String>,
}

/// A text whose signature fits a key of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its header.
    pub header: Header,
    /// The signed bytes, not yet parsed.
    pub claims: Vec<u8>,
}

/// What a text says without any proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Unverified {
    /// The key it names.
    pub kid: String,
    /// Its content.
    pub claims: Value,
}

/// Checks form, algorithm, key and signature, in this order (contract, points 1 to 3).
///
/// # Errors
/// The first of them that fails.
pub fn verify(compact: &str, keys: &JwkSet) -> Result<Verified, JwsError> {
    let parts = Parts::split(compact)?;
    let header = parts.header()?;
    // All of the form first: what can never be accepted must not wait for a key.
    let (claims, signature) = (decode(parts.payload)?, decode(parts.signature)?);
    let key = keys.find(&header.kid, header.algorithm)?;
    if !key.fits(parts.signed.as_bytes(), &signature) {
        return Err(JwsError::Signature);
    }
    Ok(Verified { header, claims })
}

/// Reads the header without checking the signature (contract, point 1).
///
/// # Errors
/// [`JwsError::Form`] or [`JwsError::Algorithm`].
pub fn header(compact: &str) -> Result<Header, JwsError> {
    Parts::split(compact)?.header()
}

/// Reads header and content without checking the signature; only for a token that was checked when it was
/// taken, or to find its `jti` for a renewal.
///
/// # Errors
/// [`JwsError::Form`] or [`JwsError::Algorithm`].
pub fn peek(compact: &str) -> Result<Unverified, JwsError> {
    let parts = Parts::split(compact)?;
    let header = parts.header()?;
    let claims = serde_json::from_slice(&decode(parts.payload)?).map_err(|_| JwsError::Form)?;
    Ok(Unverified { kid: header.kid, claims })
}

/// The three parts of a compact form.
struct Parts<'a> {
    header: &'a str,
    payload: &'a str,
    signature: &'a str,
    /// Header, dot and payload, as they were signed.
    signed: &'a str,
}

#[derive(Deserialize)]
struct RawHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'a> Parts<'a> {
    fn split(compact: &'a str) -> Result<Parts<'a>, JwsError> {
        if compact.len() > MAX_COMPACT_BYTES {
            return Err(JwsError::Form);
        }
        let (signed, signature) = compact.rsplit_once('.').ok_or(JwsError::Form)?;
        let (header, payload) = signed.split_once('.').ok_or(JwsError::Form)?;
        if payload.contains('.') || signature.is_empty() {
            return Err(JwsError::Form);
        }
        Ok(Parts { header, payload, signature, signed })
    }

    /// `crit` names extensions that must be understood (RFC 7515 section 4.1.11); none is understood here.
    /// Keys and addresses in a header are never looked at: only `kid` chooses.
    fn header(&self) -> Result<Header, JwsError> {
        let raw: RawHeader = serde_json::from_slice(&decode(self.header)?).map_err(|_| JwsError::Form)?;
        if raw.crit.is_some() {
            return Err(JwsError::Form);
        }
        let algorithm = Algorithm::from_name(&raw.alg).ok_or(JwsError::Algorithm)?;
        let kid = raw.kid.filter(|kid| !kid.is_empty()).ok_or(JwsError::Form)?;
        Ok(Header { algorithm, kid, typ: raw.typ })
    }
}

/// base64url without padding; a form that another encoder would not print is refused (RFC 4648 section 3.5).
fn decode(text: &str) -> Result<Vec<u8>, JwsError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JwsError::Form)
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether any key of the set signed `compact`; for proofs, whose header names no key.
#[cfg(test)]
pub(super) fn fits_any(compact: &str, keys: &JwkSet) -> bool {
    Parts::split(compact).is_ok_and(|parts| {
        keys.any_fits(parts.signed.as_bytes(), &decode(parts.signature).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
