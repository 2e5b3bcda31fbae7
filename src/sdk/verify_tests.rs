//! Tests of the token check: one attack per point, times, reloads.

use serde_json::json;

use super::super::jws::SigningKey;
use super::*;

const NOW: i64 = 1_800_000_000;
const LEEWAY: i64 = 60;

struct Bench {
    key: SigningKey,
    verifier: Verifier,
    payload: AgentInvocation,
    claims: Value,
}

impl Bench {
    fn new() -> Bench {
        let key = SigningKey::generate().unwrap();
        let (issuer, audience) = (Uuid::now_v7(), Uuid::now_v7());
        let limits = (Duration::from_secs(LEEWAY as u64), Duration::from_secs(60));
        let mut verifier = Verifier::new(issuer, audience, limits.0, limits.1);
        verifier.loaded(serde_json::from_value(json!({"keys": [key.public_jwk("k")]})).unwrap());
        let claims = json!({
            "iss": issuer, "aud": audience, "jti": "j-1", "iat": NOW - 5, "exp": NOW + 300,
            "run_id": Uuid::now_v7(), "thread_id": Uuid::now_v7(), "channel_id": Uuid::now_v7(),
            "acting_for": Uuid::now_v7(), "billing_mode": "organization", "tool_class": "scoped",
        });
        let payload = serde_json::from_value(json!({
            "run_id": claims["run_id"], "thread_id": claims["thread_id"], "channel_id": claims["channel_id"],
            "trigger_kind": "message", "settings_version": 1, "invocation_token": "",
            "triggered_by": {"principal_id": Uuid::now_v7(), "display_name": "Alex"},
            "billing_mode": "organization", "tool_class": "scoped",
        }))
        .unwrap();
        Bench { key, verifier, payload, claims }
    }

    fn check_with(&self, header: &Value, claims: &Value) -> Verdict {
        let token = self.key.sign(header, claims);
        self.verifier.check(&token, &self.payload, Time::from_millis(NOW * 1000))
    }

    fn check(&self, change: impl FnOnce(&mut Value)) -> Verdict {
        let mut claims = self.claims.clone();
        change(&mut claims);
        self.check_with(&json!({"kid": "k", "typ": TOKEN_TYPE}), &claims)
    }
}

#[test]
fn a_good_token_is_valid() {
    let bench = Bench::new();
    let Verdict::Valid(claims) = bench.check(|_| {}) else { panic!("not valid") };
    assert_eq!(claims.run_id, bench.payload.run_id);
    assert_eq!((claims.jti.as_str(), claims.iat, claims.exp), ("j-1", NOW - 5, NOW + 300));
    assert_eq!((claims.billing_mode, claims.tool_class), (BillingMode::Organization, ToolClass::Scoped));
}

#[test]
fn every_point_refuses_its_attack() {
    let bench = Bench::new();
    let header = json!({"kid": "k", "typ": TOKEN_TYPE});
    let other = Uuid::now_v7();
    let rows: Vec<(&str, Verdict, Verdict)> = vec![
        (
            "1_type",
            bench.check_with(&json!({"kid": "k", "typ": "JWT"}), &bench.claims),
            Verdict::Invalid(Point::Form),
        ),
        (
            "1_type_missing",
            bench.check_with(&json!({"kid": "k"}), &bench.claims),
            Verdict::Invalid(Point::Form),
        ),
        (
            "1_type_before_kid",
            bench.check_with(&json!({"kid": "x"}), &bench.claims),
            Verdict::Invalid(Point::Form),
        ),
        (
            "1_kid_missing",
            bench.check_with(&json!({"typ": TOKEN_TYPE}), &bench.claims),
            Verdict::Invalid(Point::Form),
        ),
        ("1_no_claims", bench.check_with(&header, &json!("x")), Verdict::Invalid(Point::Issuer)),
        (
            "2_kid",
            bench.check_with(&json!({"kid": "x", "typ": TOKEN_TYPE}), &bench.claims),
            Verdict::UnknownKid,
        ),
        ("4_issuer", bench.check(|c| c["iss"] = json!(other)), Verdict::Invalid(Point::Issuer)),
        ("4_issuer_number", bench.check(|c| c["iss"] = json!(1)), Verdict::Invalid(Point::Issuer)),
        ("5_audience", bench.check(|c| c["aud"] = json!(other)), Verdict::Invalid(Point::Audience)),
        ("5_audience_list", bench.check(|c| c["aud"] = json!([c["aud"]])), Verdict::Invalid(Point::Audience)),
        ("6_iat_ahead", bench.check(|c| c["iat"] = json!(NOW + LEEWAY + 1)), Verdict::Invalid(Point::Time)),
        ("6_nbf_ahead", bench.check(|c| c["nbf"] = json!(NOW + LEEWAY + 1)), Verdict::Invalid(Point::Time)),
        ("6_iat_text", bench.check(|c| c["iat"] = json!("1")), Verdict::Invalid(Point::Payload)),
        ("6_exp_huge", bench.check(|c| c["exp"] = json!(1e300)), Verdict::Invalid(Point::Payload)),
        ("6_jti_empty", bench.check(|c| c["jti"] = json!("")), Verdict::Invalid(Point::Payload)),
        ("6_run", bench.check(|c| c["run_id"] = json!(other)), Verdict::Invalid(Point::Payload)),
        ("6_run_no_uuid", bench.check(|c| c["run_id"] = json!("../x")), Verdict::Invalid(Point::Payload)),
        ("6_thread", bench.check(|c| c["thread_id"] = json!(other)), Verdict::Invalid(Point::Payload)),
        ("6_channel", bench.check(|c| c["channel_id"] = json!(other)), Verdict::Invalid(Point::Payload)),
        (
            "6_billing",
            bench.check(|c| c["billing_mode"] = json!("personal")),
            Verdict::Invalid(Point::Payload),
        ),
        ("6_class", bench.check(|c| c["tool_class"] = json!("host")), Verdict::Invalid(Point::Payload)),
        (
            "6_class_unknown",
            bench.check(|c| c["tool_class"] = json!("root")),
            Verdict::Invalid(Point::Payload),
        ),
    ];
    for (name, verdict, expected) in rows {
        assert_eq!(verdict, expected, "{name}");
    }
}

#[test]
fn every_claim_is_required() {
    let bench = Bench::new();
    let names: Vec<String> = bench.claims.as_object().unwrap().keys().cloned().collect();
    for name in names {
        let verdict = bench.check(|claims| {
            claims.as_object_mut().unwrap().remove(&name);
        });
        assert!(matches!(verdict, Verdict::Invalid(_)), "{name}");
    }
}

#[test]
fn a_signature_of_another_key_is_refused() {
    let (bench, other) = (Bench::new(), SigningKey::generate().unwrap());
    let token = other.sign(&json!({"kid": "k", "typ": TOKEN_TYPE}), &bench.claims);
    let verdict = bench.verifier.check(&token, &bench.payload, Time::from_millis(NOW * 1000));
    assert_eq!(verdict, Verdict::Invalid(Point::Signature));
}

#[test]
fn c7_09_times_have_the_stated_leeway() {
    let bench = Bench::new();
    type Change = Box<dyn FnOnce(&mut Value)>;
    let set = |name: &'static str, value: Value| -> Change { Box::new(move |c| c[name] = value) };
    let rows: Vec<(&str, Change, bool)> = vec![
        ("issued_3_s_ahead", set("iat", json!(NOW + 3)), false),
        ("issued_at_the_leeway", set("iat", json!(NOW + LEEWAY)), false),
        ("not_before_at_the_leeway", set("nbf", json!(NOW + LEEWAY)), false),
        ("issued_with_a_fraction", set("iat", json!(NOW as f64 - 0.5)), false),
        ("expired_2_s_ago", set("exp", json!(NOW - 2)), false),
        ("expired_at_the_leeway", set("exp", json!(NOW - LEEWAY)), true),
        ("expired_10_min_ago", set("exp", json!(NOW - 600)), true),
        ("expired_with_a_fraction", set("exp", json!(NOW as f64 - 600.5)), true),
        ("expired_for_ever", set("exp", json!(i64::MIN)), true),
    ];
    for (name, change, expired) in rows {
        let verdict = bench.check(change);
        match verdict {
            Verdict::Valid(_) => assert!(!expired, "{name}"),
            Verdict::Expired(_) => assert!(expired, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let both = bench.check(|c| {
        c["exp"] = json!(NOW - 600);
        c["run_id"] = json!(Uuid::now_v7());
    });
    assert_eq!(both, Verdict::Invalid(Point::Payload), "expired and wrong is wrong");
}

#[test]
fn keys_are_reloaded_at_most_once_per_interval() {
    let mut bench = Bench::new();
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert!(bench.verifier.needs_reload(at(0)));
    bench.verifier.reload_started(at(0));
    assert!(!bench.verifier.needs_reload(at(59)), "a load that failed counts too");
    assert!(bench.verifier.needs_reload(at(60)));
    assert_eq!(bench.verifier.next_reload(), Some(at(60)));
    bench.verifier.loaded(JwkSet::default());
    assert_eq!(bench.check(|_| {}), Verdict::UnknownKid, "a retired key is unknown");
}
