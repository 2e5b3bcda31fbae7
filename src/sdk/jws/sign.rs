//! Private keys: Ed25519 for the embedded server, ES256 for DPoP proofs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::{Algorithm, JwsError, encode};

/// An Ed25519 key that signs.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    pkcs8: Vec<u8>,
}

impl SigningKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`JwsError::Key`] when the system gives no random bytes.
    pub fn generate() -> Result<SigningKey, JwsError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| JwsError::Key)?;
        SigningKey::from_pkcs8(document.as_ref())
    }

    /// The key that [`SigningKey::pkcs8`] gave.
    ///
    /// # Errors
    /// [`JwsError::Key`] for anything else.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<SigningKey, JwsError> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).map_err(|_| JwsError::Key)?;
        Ok(SigningKey { pair, pkcs8: bytes.to_vec() })
    }

    /// The private key in PKCS#8 form (RFC 5958), to keep it in an owner-only file.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public half as a member of a JWK set, named `kid`.
    pub fn public_jwk(&self, kid: &str) -> Value {
        let x = encode(self.pair.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": x})
    }

    /// The compact form of `claims` under `header`, whose `alg` is set here.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = signing_input(header, Algorithm::EdDsa, claims);
        let signature = self.pair.sign(signed.as_bytes());
        format!("{signed}.{}", encode(signature.as_ref()))
    }
}

/// The P-256 key of DPoP proofs (RFC 9449).
pub struct DpopKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl DpopKey {
    /// Reads a PKCS#8 PEM text (`BEGIN PRIVATE KEY`), as `openssl genpkey` writes it.
    ///
    /// # Errors
    /// [`JwsError::Key`] for anything else.
    pub fn from_pem(text: &str) -> Result<DpopKey, JwsError> {
        let body = text
            .trim()
            .strip_prefix("-----BEGIN PRIVATE KEY-----")
            .and_then(|rest| rest.strip_suffix("-----END PRIVATE KEY-----"))
            .ok_or(JwsError::Key)?;
        let packed: String = body.split_ascii_whitespace().collect();
        DpopKey::from_pkcs8(&STANDARD.decode(packed).map_err(|_| JwsError::Key)?)
    }

    /// Reads a PKCS#8 key.
    ///
    /// # Errors
    /// [`JwsError::Key`] for anything else.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<DpopKey, JwsError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random)
            .map_err(|_| JwsError::Key)?;
        Ok(DpopKey { pair, random })
    }

    /// The public half, as a proof carries it.
    pub fn public_jwk(&self) -> Value {
        // the point is 0x04, x, y (SEC 1), so the two halves after the mark are the coordinates
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
        json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)})
    }

    /// The compact form of `claims` under `header`, whose `alg` is set here.
    ///
    /// # Errors
    /// [`JwsError::Key`] when the system gives no random bytes.
    pub fn sign(&self, header: &Value, claims: &Value) -> Result<String, JwsError> {
        let signed = signing_input(header, Algorithm::Es256, claims);
        let signature = self.pair.sign(&self.random, signed.as_bytes()).map_err(|_| JwsError::Key)?;
        Ok(format!("{signed}.{}", encode(signature.as_ref())))
    }
}

/// Header and payload, encoded; `alg` can only be the key's own.
fn signing_input(header: &Value, algorithm: Algorithm, claims: &Value) -> String {
    let mut header = header.clone();
    if let Value::Object(members) = &mut header {
        members.insert("alg".to_owned(), algorithm.name().into());
    }
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}
