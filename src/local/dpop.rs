//! Proofs of possession (RFC 9449): one signed statement per request that the sender holds a key. ES256 only.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::lock;

/// How far the proof's clock may be from ours, seconds; both are on one machine.
const LEEWAY_SECONDS: i64 = 60;
/// Longest proof, bytes.
const MAX_PROOF_BYTES: usize = 8 * 1024;

/// What a proof must fit.
pub struct Expected<'a> {
    /// `htm`
    pub method: &'a str,
    /// `htu`, without query and fragment.
    pub url: &'a str,
    /// The token whose hash is `ath`.
    pub token: &'a str,
    /// `nonce`, when one is asked for.
    pub nonce: Option<&'a str>,
    /// The present, seconds since 1970.
    pub now: i64,
}

/// The ids of proofs that were used and may not be used again.
#[derive(Default)]
pub struct Used(Mutex<HashMap<String, i64>>);

impl Used {
    fn first_use(&self, jti: &str, now: i64) -> bool {
        let mut used = lock(&self.0);
        used.retain(|_, at| (now - *at).abs() <= 2 * LEEWAY_SECONDS);
        used.insert(jti.to_owned(), now).is_none()
    }
}

/// The thumbprint (RFC 7638) of the key that made `proof`; `None` when the proof does not hold.
pub fn check(proof: &str, expected: &Expected<'_>, used: &Used) -> Option<String> {
    let mut parts = proof.split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || proof.len() > MAX_PROOF_BYTES {
        return None;
    }
    let head: Value = decoded(header)?;
    let (x, y) = key_of(&head)?;
    let point = [&[4u8][..], &URL_SAFE_NO_PAD.decode(x).ok()?, &URL_SAFE_NO_PAD.decode(y).ok()?].concat();
    let input = &proof[..header.len() + 1 + claims.len()];
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(input.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?)
        .ok()?;
    holds(&decoded(claims)?, expected, used).then(|| thumbprint(x, y))
}

fn decoded(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn key_of(header: &Value) -> Option<(&str, &str)> {
    let jwk = &header["jwk"];
    let fits = header["typ"] == "dpop+jwt"
        && header["alg"] == "ES256"
        && jwk["kty"] == "EC"
        && jwk["crv"] == "P-256"
        && jwk.get("d").is_none();
    fits.then_some((jwk["x"].as_str()?, jwk["y"].as_str()?))
}

fn holds(claims: &Value, expected: &Expected<'_>, used: &Used) -> bool {
    let text = |name: &str| claims[name].as_str().unwrap_or_default();
    let young =
        claims["iat"].as_i64().is_some_and(|iat| iat.abs_diff(expected.now) <= LEEWAY_SECONDS.unsigned_abs());
    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(expected.token.as_bytes()));
    text("htm") == expected.method
        && text("htu") == expected.url
        && text("ath") == hash
        && expected.nonce.is_none_or(|nonce| text("nonce") == nonce)
        && young
        && !text("jti").is_empty()
        && used.first_use(text("jti"), expected.now)
}

/// RFC 7638: the required members in order, without white space.
fn thumbprint(x: &str, y: &str) -> String {
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    /// A key that signs under any header, also one that no honest client makes.
    struct Key(EcdsaKeyPair);

    impl Key {
        fn new() -> Key {
            let (alg, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let document = EcdsaKeyPair::generate_pkcs8(alg, &random).unwrap();
            Key(EcdsaKeyPair::from_pkcs8(alg, document.as_ref(), &random).unwrap())
        }

        fn public_jwk(&self) -> Value {
            let point = self.0.public_key().as_ref();
            let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
            json!({"kty": "EC", "crv": "P-256", "x": part(1..33), "y": part(33..65)})
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let input = format!("{}.{}", part(header), part(claims));
            let signature = self.0.sign(&SystemRandom::new(), input.as_bytes()).unwrap();
            format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    fn expected<'a>(nonce: Option<&'a str>) -> Expected<'a> {
        Expected { method: "GET", url: "http://127.0.0.1/a", token: "token", nonce, now: 1_000 }
    }

    fn claims() -> Value {
        let ath = URL_SAFE_NO_PAD.encode(Sha256::digest(b"token"));
        json!({"htm": "GET", "htu": "http://127.0.0.1/a", "iat": 1_000, "jti": "1", "ath": ath, "nonce": "n"})
    }

    #[test]
    fn a_proof_holds_for_exactly_its_request() {
        let key = Key::new();
        let good = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.public_jwk()});
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            claims
        };
        let rows = [
            ("good", good.clone(), claims(), true),
            ("method", good.clone(), with("htm", json!("POST")), false),
            ("address", good.clone(), with("htu", json!("http://127.0.0.1/b")), false),
            ("token", good.clone(), with("ath", json!("x")), false),
            ("nonce", good.clone(), with("nonce", json!("m")), false),
            ("old", good.clone(), with("iat", json!(1_000 - LEEWAY_SECONDS - 1)), false),
            ("absurd time", good.clone(), with("iat", json!(i64::MIN)), false),
            ("no id", good.clone(), with("jti", json!("")), false),
            ("other type", json!({"typ": "JWT", "alg": "ES256", "jwk": key.public_jwk()}), claims(), false),
            (
                "no algorithm",
                json!({"typ": "dpop+jwt", "alg": "none", "jwk": key.public_jwk()}),
                claims(),
                false,
            ),
            ("no key", json!({"typ": "dpop+jwt", "alg": "ES256"}), claims(), false),
        ];
        for (name, header, claims, holds) in rows {
            let proof = key.sign(&header, &claims);
            let found = check(&proof, &expected(Some("n")), &Used::default());
            assert_eq!(found.is_some(), holds, "{name}");
        }
    }

    #[test]
    fn a_proof_is_used_once_and_by_its_key() {
        let (key, other) = (Key::new(), Key::new());
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.public_jwk()});
        let used = Used::default();
        let proof = key.sign(&header, &claims());
        assert!(check(&proof, &expected(None), &used).is_some());
        assert!(check(&proof, &expected(None), &used).is_none());
        let stolen = other.sign(&header, &claims());
        assert!(check(&stolen, &expected(None), &Used::default()).is_none());
        for nonsense in ["", "a.b", "a.b.c", "a.b.c.d"] {
            assert!(check(nonsense, &expected(None), &Used::default()).is_none(), "{nonsense}");
        }
    }
}
