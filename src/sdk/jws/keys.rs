//! Public keys: a JWK set (RFC 7517) reduced to the keys that can be used here.

use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Algorithm, JwsError, decode};

/// Most keys of a set that are kept; a server rotates between two or three.
const MAX_KEYS: usize = 64;

/// Length of an Ed25519 public key and of one P-256 coordinate, bytes.
const COORDINATE_BYTES: usize = 32;

/// Mark of an uncompressed point (SEC 1 section 2.3.3).
const UNCOMPRESSED: u8 = 0x04;

/// One public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwk {
    kid: String,
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

/// The usable keys of a server; a key of another kind, without `kid` or with faults is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    crv: String,
    kid: String,
    x: String,
    y: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
}

impl<'de> Deserialize<'de> for JwkSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JwkSet, D::Error> {
        let raw = RawSet::deserialize(deserializer)?;
        Ok(raw.keys.into_iter().filter_map(Jwk::from_value).take(MAX_KEYS).collect())
    }
}

impl FromIterator<Jwk> for JwkSet {
    fn from_iter<I: IntoIterator<Item = Jwk>>(keys: I) -> JwkSet {
        JwkSet { keys: keys.into_iter().collect() }
    }
}

impl JwkSet {
    /// Whether a key has this `kid`.
    pub fn knows(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid == kid)
    }

    #[cfg(test)]
    pub(super) fn any_fits(&self, message: &[u8], signature: &[u8]) -> bool {
        self.keys.iter().any(|key| key.fits(message, signature))
    }

    /// The key `kid` of the kind that the header's algorithm needs.
    pub(super) fn find(&self, kid: &str, algorithm: Algorithm) -> Result<&Jwk, JwsError> {
        if !self.knows(kid) {
            return Err(JwsError::UnknownKid);
        }
        let fits = |key: &&Jwk| key.kid == kid && key.algorithm == algorithm;
        self.keys.iter().find(fits).ok_or(JwsError::Algorithm)
    }
}

impl Jwk {
    /// Reads one member of a set; `None` when it cannot be used.
    pub fn from_value(value: Value) -> Option<Jwk> {
        let raw: RawKey = serde_json::from_value(value).ok()?;
        let algorithm = match (raw.kty.as_str(), raw.crv.as_str()) {
            ("OKP", "Ed25519") => Algorithm::EdDsa,
            ("EC", "P-256") => Algorithm::Es256,
            _ => return None,
        };
        let other_alg = raw.alg.as_deref().is_some_and(|name| name != algorithm.name());
        let other_use = raw.usage.as_deref().is_some_and(|usage| usage != "sig");
        if raw.kid.is_empty() || other_alg || other_use {
            return None;
        }
        let bytes = match algorithm {
            Algorithm::EdDsa => coordinate(&raw.x)?,
            Algorithm::Es256 => {
                [vec![UNCOMPRESSED], coordinate(&raw.x)?, coordinate(raw.y.as_deref()?)?].concat()
            }
        };
        Some(Jwk { kid: raw.kid, algorithm, bytes })
    }

    /// Whether `signature` is this key's over `message`. ES256 signatures are two fixed numbers, never DER.
    pub(super) fn fits(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.algorithm {
            Algorithm::EdDsa => UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature),
            Algorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

fn coordinate(text: &str) -> Option<Vec<u8>> {
    decode(text).ok().filter(|bytes| bytes.len() == COORDINATE_BYTES)
}
