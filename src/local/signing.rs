//! The server's Ed25519 keys: make, keep, publish, sign. Only `EdDSA` can be expressed (RFC 8037).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// One signing key with its published name.
pub struct SigningKey {
    kid: String,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// A new key: its PKCS#8 form to keep. `None` when the system gives no random bytes.
    pub fn generate() -> Option<Vec<u8>> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
        Some(document.as_ref().to_vec())
    }

    /// The key kept as `pkcs8` under the name `kid`; `None` when the bytes are no key.
    pub fn from_pkcs8(kid: &str, pkcs8: &[u8]) -> Option<SigningKey> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).ok()?;
        Some(SigningKey { kid: kid.to_owned(), pair })
    }

    /// The name of the key in JWKS and headers.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public half as a JWK (RFC 8037 section 2).
    pub fn public_jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.kid, "x": x})
    }

    /// The compact JWS of `claims` under exactly `header` (RFC 7515 section 3.1).
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(input.as_bytes()).as_ref());
        format!("{input}.{signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    #[test]
    fn a_signature_verifies_with_the_published_half() {
        let key = SigningKey::from_pkcs8("k", &SigningKey::generate().unwrap()).unwrap();
        let jws = key.sign(&json!({"alg": "EdDSA"}), &json!({"a": 1}));
        let (input, signature) = jws.rsplit_once('.').unwrap();
        let x = URL_SAFE_NO_PAD.decode(key.public_jwk()["x"].as_str().unwrap()).unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ED25519, x).verify(input.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn other_bytes_are_no_key() {
        assert!(SigningKey::from_pkcs8("k", b"not a key").is_none());
    }
}
