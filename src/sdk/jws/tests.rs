//! Vectors of the RFCs and a table of attacks.

use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

use super::*;

fn set(keys: Vec<Value>) -> JwkSet {
    serde_json::from_value(json!({"keys": keys})).unwrap()
}

/// Whether a signature fits, header rules left aside: the RFC vectors carry no `kid`.
fn vector_fits(compact: &str, key: Value) -> bool {
    let parts = Parts::split(compact).unwrap();
    let key = Jwk::from_value(key).unwrap();
    key.fits(parts.signed.as_bytes(), &decode(parts.signature).unwrap())
}

fn es256_key() -> (DpopKey, Vec<u8>) {
    let document =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    (DpopKey::from_pkcs8(document.as_ref()).unwrap(), document.as_ref().to_vec())
}

fn named(mut jwk: Value, kid: &str) -> Value {
    jwk["kid"] = kid.into();
    jwk
}

#[test]
fn rfc_7515_es256_vector() {
    // RFC 7515 appendix A.3
    let compact = concat!(
        "eyJhbGciOiJFUzI1NiJ9.",
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    );
    let key = json!({"kty": "EC", "crv": "P-256", "kid": "a",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    assert!(vector_fits(compact, key.clone()));
    assert!(!vector_fits(&compact.replace(".DtEh", ".EtEh"), key.clone()));
    assert_eq!(verify(compact, &set(vec![key])), Err(JwsError::Form), "a kid is required");
}

#[test]
fn rfc_8037_ed25519_vector() {
    // RFC 8037 appendix A.4 and A.5
    let compact = concat!(
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    );
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    assert!(vector_fits(compact, key.clone()));
    assert!(!vector_fits(&compact.replace(".hgyY", ".igyY"), key));
}

#[test]
fn both_algorithms_sign_and_verify() {
    let ed = SigningKey::generate().unwrap();
    let again = SigningKey::from_pkcs8(ed.pkcs8()).unwrap();
    let (es, _) = es256_key();
    let keys = set(vec![ed.public_jwk("ed"), named(es.public_jwk(), "es")]);
    let claims = json!({"jti": "1"});
    let rows = [
        ("ed", again.sign(&json!({"kid": "ed", "typ": "x", "alg": "none"}), &claims), Algorithm::EdDsa),
        ("es", es.sign(&json!({"kid": "es", "typ": "x"}), &claims).unwrap(), Algorithm::Es256),
    ];
    for (kid, compact, algorithm) in rows {
        let verified = verify(&compact, &keys).unwrap();
        let expected = Header { algorithm, kid: kid.to_owned(), typ: Some("x".to_owned()) };
        assert_eq!(verified.header, expected);
        assert_eq!(serde_json::from_slice::<Value>(&verified.claims).unwrap(), claims);
        assert_eq!(peek(&compact).unwrap(), Unverified { kid: kid.to_owned(), claims: claims.clone() });
    }
}

#[test]
fn attacks_on_the_form_are_refused() {
    let key = SigningKey::generate().unwrap();
    let (es, es_pkcs8) = es256_key();
    let keys = set(vec![key.public_jwk("ed"), named(es.public_jwk(), "es")]);
    let claims = json!({"jti": "1"});
    let good = key.sign(&json!({"kid": "ed"}), &claims);
    assert!(verify(&good, &keys).is_ok());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let with = |header: &str, signature: &str| {
        format!("{}.{}.{signature}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()))
    };
    let hmac = {
        let input = with(r#"{"alg":"HS256","kid":"ed"}"#, "");
        let public = decode(key.public_jwk("ed")["x"].as_str().unwrap()).unwrap();
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public);
        let input = input.trim_end_matches('.');
        format!("{input}.{}", encode(ring::hmac::sign(&secret, input.as_bytes()).as_ref()))
    };
    let der = {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &es_pkcs8, &random).unwrap();
        let input = with(r#"{"alg":"ES256","kid":"es"}"#, "");
        let input = input.trim_end_matches('.');
        format!("{input}.{}", encode(pair.sign(&random, input.as_bytes()).unwrap().as_ref()))
    };
    // 64 bytes end in a character of which only two bits count: any other low bits are not canonical
    let last = signature.chars().last().unwrap();
    let twin = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = twin.find(last).unwrap();
    let twisted = format!("{signed}.{}{}", &signature[..signature.len() - 1], &twin[place + 1..=place + 1]);
    let rows = [
        ("alg_none", with(r#"{"alg":"none","kid":"ed"}"#, signature), JwsError::Algorithm),
        ("alg_none_unsigned", with(r#"{"alg":"none","kid":"ed"}"#, ""), JwsError::Form),
        ("alg_case", with(r#"{"alg":"eddsa","kid":"ed"}"#, signature), JwsError::Algorithm),
        ("hmac_with_public_key", hmac, JwsError::Algorithm),
        ("alg_missing", with(r#"{"kid":"ed"}"#, signature), JwsError::Form),
        ("alg_twice", with(r#"{"alg":"none","alg":"EdDSA","kid":"ed"}"#, signature), JwsError::Form),
        ("kid_missing", with(r#"{"alg":"EdDSA"}"#, signature), JwsError::Form),
        ("kid_empty", with(r#"{"alg":"EdDSA","kid":""}"#, signature), JwsError::Form),
        ("kid_number", with(r#"{"alg":"EdDSA","kid":1}"#, signature), JwsError::Form),
        ("kid_unknown", with(r#"{"alg":"EdDSA","kid":"x"}"#, signature), JwsError::UnknownKid),
        ("kid_of_the_other_kind", with(r#"{"alg":"ES256","kid":"ed"}"#, signature), JwsError::Algorithm),
        ("crit", with(r#"{"alg":"EdDSA","kid":"ed","crit":["b64"],"b64":false}"#, signature), JwsError::Form),
        (
            "own_key_in_header",
            with(r#"{"alg":"EdDSA","kid":"ed","jwk":{"kty":"OKP"}}"#, signature),
            JwsError::Signature,
        ),
        ("header_no_object", with("[]", signature), JwsError::Form),
        ("two_parts", signed.to_owned(), JwsError::Form),
        ("four_parts", format!("{good}.AA"), JwsError::Form),
        ("leading_dot", format!(".{good}"), JwsError::Form),
        ("empty", String::new(), JwsError::Form),
        ("only_dots", "..".to_owned(), JwsError::Form),
        ("signature_empty", format!("{signed}."), JwsError::Form),
        ("signature_padded", format!("{good}=="), JwsError::Form),
        ("signature_not_canonical", twisted, JwsError::Form),
        ("signature_standard_alphabet", format!("{signed}.+/+/"), JwsError::Form),
        ("signature_short", format!("{signed}.AAAA"), JwsError::Signature),
        ("signature_of_other", format!("{signed}.{}", encode(&[7; 64])), JwsError::Signature),
        (
            "signature_zero_es256",
            with(r#"{"alg":"ES256","kid":"es"}"#, &encode(&[0; 64])),
            JwsError::Signature,
        ),
        ("signature_der_es256", der, JwsError::Signature),
        ("white_space", format!(" {good}"), JwsError::Form),
        ("line_break", format!("{good}\n"), JwsError::Form),
        ("json_form", json!({"payload": "", "signatures": []}).to_string(), JwsError::Form),
        ("huge", "A".repeat(MAX_COMPACT_BYTES + 1), JwsError::Form),
        ("changed_payload", good.replacen(".ey", ".eY", 1), JwsError::Signature),
    ];
    for (name, compact, expected) in rows {
        assert_eq!(verify(&compact, &keys), Err(expected), "{name}");
    }
}

#[test]
fn unusable_keys_are_left_out_of_a_set() {
    let good = SigningKey::generate().unwrap().public_jwk("good");
    let with = |name: &str, value: &str| {
        let mut key = good.clone();
        key["kid"] = "bad".into();
        key[name] = value.into();
        key
    };
    let rows = [
        ("hmac", json!({"kty": "oct", "kid": "bad", "k": "AAAA"})),
        ("rsa", json!({"kty": "RSA", "kid": "bad", "n": "AAAA", "e": "AQAB"})),
        ("curve", with("crv", "X25519")),
        ("kty", with("kty", "EC")),
        ("alg", with("alg", "HS256")),
        ("use", with("use", "enc")),
        ("short", with("x", "AAAA")),
        ("no_kid", with("kid", "")),
        ("text", json!("key")),
        ("es256_without_y", json!({"kty": "EC", "crv": "P-256", "kid": "bad", "x": encode(&[1; 32])})),
    ];
    for (name, key) in rows {
        let keys = set(vec![key, good.clone()]);
        assert!(!keys.knows("bad"), "{name}");
        assert!(keys.knows("good"), "{name}");
    }
    assert!(serde_json::from_value::<JwkSet>(json!({"keys": "none"})).is_err());
}

#[test]
fn dpop_keys_are_read_from_pem() {
    let (key, pkcs8) = es256_key();
    let body = STANDARD.encode(&pkcs8);
    let (first, rest) = body.split_at(64);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{first}\n{rest}\n-----END PRIVATE KEY-----\n");
    assert_eq!(DpopKey::from_pem(&pem).unwrap().public_jwk(), key.public_jwk());
    let rows = [
        ("other_label", pem.replace("PRIVATE KEY", "EC PRIVATE KEY")),
        ("not_base64", pem.replace(first, "?")),
        ("other_key", pem.replace(&format!("{first}\n{rest}"), &STANDARD.encode([1, 2, 3]))),
        ("empty", String::new()),
    ];
    for (name, text) in rows {
        assert_eq!(DpopKey::from_pem(&text).err(), Some(JwsError::Key), "{name}");
    }
}

#[test]
fn signatures_outside_their_range_are_refused() {
    // the order of the base point: L of Ed25519 (RFC 8032 section 5.1), n of P-256 (FIPS 186-5)
    let l = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
    let n = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    };
    let ed = SigningKey::generate().unwrap();
    let (es, _) = es256_key();
    let keys = set(vec![ed.public_jwk("ed"), named(es.public_jwk(), "es")]);
    let claims = json!({"jti": "1"});
    let with = |good: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let mut bytes = decode(signature).unwrap();
        change(&mut bytes);
        format!("{signed}.{}", encode(&bytes))
    };
    let ed_good = ed.sign(&json!({"kid": "ed"}), &claims);
    let es_good = es.sign(&json!({"kid": "es"}), &claims).unwrap();
    let add_l = |bytes: &mut Vec<u8>| {
        let mut carry = 0;
        for (byte, part) in bytes[32..].iter_mut().zip(hex(l)) {
            let sum = u16::from(*byte) + u16::from(part) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
    };
    let put = |from: usize, value: Vec<u8>| {
        move |bytes: &mut Vec<u8>| {
            bytes[from..from + 32].copy_from_slice(&value);
        }
    };
    let rows = [
        ("ed_s_plus_l", with(&ed_good, &add_l)),
        ("ed_r_zero", with(&ed_good, &put(0, vec![0; 32]))),
        ("ed_s_zero", with(&ed_good, &put(32, vec![0; 32]))),
        ("ed_one_byte_more", with(&ed_good, &|bytes| bytes.push(0))),
        ("ed_one_byte_less", with(&ed_good, &|bytes| bytes.truncate(63))),
        ("es_r_zero", with(&es_good, &put(0, vec![0; 32]))),
        ("es_s_zero", with(&es_good, &put(32, vec![0; 32]))),
        ("es_r_is_n", with(&es_good, &put(0, hex(n)))),
        ("es_s_is_n", with(&es_good, &put(32, hex(n)))),
        ("es_all_ones", with(&es_good, &|bytes| bytes.fill(0xff))),
        ("es_one_byte_more", with(&es_good, &|bytes| bytes.insert(0, 0))),
        ("es_swapped", with(&es_good, &|bytes| bytes.rotate_left(32))),
    ];
    assert!(verify(&ed_good, &keys).is_ok() && verify(&es_good, &keys).is_ok());
    for (name, compact) in rows {
        assert_eq!(verify(&compact, &keys), Err(JwsError::Signature), "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[A-Za-z0-9_.=+/ -]{0,80}", header in ".{0,40}", rest in ".{0,20}") {
        let keys = JwkSet::default();
        let built = format!("{}.{}.{rest}", encode(header.as_bytes()), encode(rest.as_bytes()));
        for compact in [text, built] {
            assert!(verify(&compact, &keys).is_err());
            let _ = peek(&compact);
        }
    }
}

#[test]
fn the_form_of_every_part_is_checked_before_the_key_is_looked_for() {
    let token = SigningKey::generate().unwrap().sign(&json!({"kid": "nobody"}), &json!({}));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let header = signed.split_once('.').unwrap().0;
    let rows = [
        ("whole", token.clone(), JwsError::UnknownKid),
        ("signature", format!("{signed}.!"), JwsError::Form),
        ("payload", format!("{header}.!.{signature}"), JwsError::Form),
    ];
    for (name, compact, expected) in rows {
        assert_eq!(verify(&compact, &set(Vec::new())), Err(expected), "{name}");
    }
}
