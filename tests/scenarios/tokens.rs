//! Attacks on the invocation token, on the whole way from the event to its consequence.
//!
//! Every point of the check has a row. A row's run is opened by a real message, its real event is taken away,
//! and a forged one is sent in its place; a good run behind all of them shows that the runner has seen them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claude_code_runner::local::Signer;
use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::{BillingMode, RunState, ToolClass};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::raw_http::Ask;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// The runner's consumer.
const CONSUMER: &str = "default";

/// Changes header and claims of a good token.
type Forge = fn(&mut Value, &mut Value);

/// What makes the token out of header and claims.
#[derive(Clone, Copy)]
enum Make {
    /// Signed with the published key.
    Signed,
    /// Signed with a key that nobody published.
    Foreign,
    /// Without a signature.
    Bare,
    /// With an HMAC whose secret is the published key.
    Hmac,
    /// Signed, then given another header or other claims.
    Altered,
    /// This text.
    Text(&'static str),
}

use Make::{Altered, Bare, Foreign, Hmac, Signed, Text};

/// Every attack that fails the run as `invalid_invocation_token`.
const ATTACKS: &[(&str, Make, Forge)] = &[
    ("alg_none", Bare, |header, _| header["alg"] = json!("none")),
    ("alg_none_in_other_letters", Bare, |header, _| header["alg"] = json!("nOnE")),
    ("alg_missing", Bare, |header, _| drop(header.as_object_mut().unwrap().remove("alg"))),
    ("alg_eddsa_without_signature", Bare, |_, _| {}),
    ("hmac_256", Hmac, |header, _| header["alg"] = json!("HS256")),
    ("hmac_384", Hmac, |header, _| header["alg"] = json!("HS384")),
    ("hmac_512", Hmac, |header, _| header["alg"] = json!("HS512")),
    ("hmac_named_eddsa", Hmac, |_, _| {}),
    ("good_signature_named_hmac", Altered, |header, _| header["alg"] = json!("HS256")),
    ("good_signature_named_rsa", Altered, |header, _| header["alg"] = json!("RS256")),
    ("good_signature_named_es256", Altered, |header, _| header["alg"] = json!("ES256")),
    ("no_kid", Signed, |header, _| drop(header.as_object_mut().unwrap().remove("kid"))),
    ("kid_of_another_type", Signed, |header, _| header["kid"] = json!(7)),
    ("own_key_in_header", Foreign, |header, _| {
        header["jwk"] = json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"});
    }),
    ("typ_missing", Signed, |header, _| drop(header.as_object_mut().unwrap().remove("typ"))),
    ("typ_of_another_token", Signed, |header, _| header["typ"] = json!("JWT")),
    ("critical_extension", Signed, |header, _| header["crit"] = json!(["exp"])),
    ("key_from_the_wrong_set", Foreign, |_, _| {}),
    ("claims_altered", Altered, |_, claims| claims["exp"] = json!(9_999_999_999_i64)),
    ("empty", Text(""), |_, _| {}),
    ("no_dots", Text("token"), |_, _| {}),
    ("two_parts", Text("e30.e30"), |_, _| {}),
    ("four_parts", Text("e30.e30.e30.e30"), |_, _| {}),
    ("no_base64", Text("{}.{}.{}"), |_, _| {}),
    ("issuer_wrong", Signed, |_, claims| claims["iss"] = json!(Uuid::new_v4())),
    ("issuer_missing", Signed, |_, claims| drop(claims.as_object_mut().unwrap().remove("iss"))),
    ("audience_wrong", Signed, |_, claims| claims["aud"] = json!(Uuid::new_v4())),
    ("audience_is_a_list", Signed, |_, claims| claims["aud"] = json!([claims["aud"], Uuid::new_v4()])),
    ("not_yet_valid", Signed, |_, claims| claims["nbf"] = json!(claims["iat"].as_i64().unwrap() + 3_600)),
    ("issued_in_the_future", Signed, |_, claims| {
        claims["iat"] = json!(claims["iat"].as_i64().unwrap() + 3_600);
    }),
    ("times_are_texts", Signed, |_, claims| claims["exp"] = json!("tomorrow")),
    ("no_end", Signed, |_, claims| drop(claims.as_object_mut().unwrap().remove("exp"))),
    ("no_jti", Signed, |_, claims| drop(claims.as_object_mut().unwrap().remove("jti"))),
    ("nobody_acted_for", Signed, |_, claims| drop(claims.as_object_mut().unwrap().remove("acting_for"))),
    ("other_run", Signed, |_, claims| claims["run_id"] = json!(Uuid::now_v7())),
    ("other_thread", Signed, |_, claims| claims["thread_id"] = json!(Uuid::now_v7())),
    ("other_channel", Signed, |_, claims| claims["channel_id"] = json!(Uuid::now_v7())),
    ("other_billing_mode", Signed, |_, claims| claims["billing_mode"] = json!("personal")),
    ("other_tool_class", Signed, |_, claims| claims["tool_class"] = json!("host")),
    ("no_tool_class", Signed, |_, claims| drop(claims.as_object_mut().unwrap().remove("tool_class"))),
];

/// Members of the payload, each changed behind a good token.
const PAYLOADS: &[(&str, fn(&mut Value))] = &[
    ("payload_of_another_thread", |payload| payload["thread_id"] = json!(Uuid::now_v7())),
    ("payload_of_another_channel", |payload| payload["channel_id"] = json!(Uuid::now_v7())),
    ("payload_of_another_billing_mode", |payload| payload["billing_mode"] = json!("personal")),
    ("payload_of_a_lower_class", |payload| payload["tool_class"] = json!("chat")),
    ("payload_of_a_higher_class", |payload| payload["tool_class"] = json!("host")),
];

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A forged token for a run.
fn token(world: &World, run: Uuid, make: Make, forge: Forge) -> String {
    let operator = world.server.operator();
    let (mut header, mut claims) = operator.token_parts(run).unwrap();
    let honest = claims.clone();
    forge(&mut header, &mut claims);
    match make {
        Signed => operator.sign(&header, &claims, Signer::Current).unwrap(),
        Foreign => operator.sign(&header, &claims, Signer::Stranger).unwrap(),
        Bare => format!("{}.{}.", part(&header), part(&claims)),
        Hmac => {
            let signed = format!("{}.{}", part(&header), part(&claims));
            let algorithm = match header["alg"].as_str() {
                Some("HS384") => ring::hmac::HMAC_SHA384,
                Some("HS512") => ring::hmac::HMAC_SHA512,
                _ => ring::hmac::HMAC_SHA256,
            };
            let key = ring::hmac::Key::new(algorithm, &public_key(world));
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())))
        }
        Altered => {
            let signed = operator.sign(&header, &honest, Signer::Current).unwrap();
            let signature = signed.rsplit('.').next().unwrap();
            format!("{}.{}.{signature}", part(&header), part(&claims))
        }
        Text(text) => text.to_owned(),
    }
}

fn public_key(world: &World) -> Vec<u8> {
    let address = world.server.address();
    let keys = Ask::new(address, "GET", "/.well-known/jwks.json").try_send().unwrap();
    URL_SAFE_NO_PAD.decode(keys.body()["keys"][0]["x"].as_str().unwrap()).unwrap()
}

/// A run whose real event is gone.
fn run_without_event(world: &World) -> Uuid {
    let (_, run) = world.asks("Add them up.");
    let waiting = world.server.operator().unacknowledged(CONSUMER).unwrap();
    let seq = waiting.iter().find(|event| event["payload"]["run_id"] == json!(run)).unwrap()["seq"].clone();
    let token = std::fs::read_to_string(world.server.agent_token_file()).unwrap();
    let ask = Ask::new(world.server.address(), "POST", "/api/v1/gateway/acks");
    let ask = ask.with("Authorization", &format!("Bearer {}", token.trim()));
    let done = ask.json(&json!({"consumer": CONSUMER, "seqs": [seq]})).try_send().unwrap();
    assert_eq!(done.status, 204);
    run
}

/// How many `-p` calls there were.
fn turns(world: &World) -> usize {
    world.claude.argvs().len()
}

fn acknowledged(world: &World, seq: i64) -> bool {
    let waiting = world.server.operator().unacknowledged(CONSUMER).unwrap();
    waiting.iter().all(|event| event["seq"] != json!(seq))
}

#[test]
fn every_forged_token_fails_its_run_and_starts_nothing() {
    let mut world = World::without_runner(Setup::default());
    let mut rows = Vec::new();
    for (name, make, forge) in ATTACKS {
        let run = run_without_event(&world);
        let forged = token(&world, run, *make, *forge);
        rows.push((*name, run, world.server.operator().redeliver_with(run, forged, |_| {}).unwrap()));
    }
    for (name, change) in PAYLOADS {
        let run = run_without_event(&world);
        let honest = token(&world, run, Signed, |_, _| {});
        rows.push((*name, run, world.server.operator().redeliver_with(run, honest, change).unwrap()));
    }
    let (_, good) = world.asks("And this one?");
    world.start_runner();
    world.ends_as(good, RunState::Completed, None);
    for (name, run, seq) in rows {
        let ended = eventually(name, || Some(world.person.run(run)).filter(|run| run.state.is_final()));
        assert_eq!(
            (ended.state, ended.reason.as_deref()),
            (RunState::Failed, Some("invalid_invocation_token")),
            "{name}"
        );
        eventually(name, || acknowledged(&world, seq).then_some(()));
        let starts = world.hooks.requests_of("startRun");
        assert!(starts.iter().all(|start| !start.path.contains(&run.to_string())), "{name}");
    }
    assert_eq!(turns(&world), 1, "only the good run");
}

/// a refusal is a request of its run like any other, and waits until the server had nothing more to say.
#[test]
fn a_refusal_waits_until_the_server_had_nothing_more_to_say() {
    let mut world = World::without_runner(Setup::default());
    let run = run_without_event(&world);
    let forged = token(&world, run, Foreign, |_, _| {});
    world.server.operator().redeliver_with(run, forged, |_| {}).unwrap();
    let polls = world.hooks.count("pollEvents");
    let gate = Gate::new();
    world.hooks.nth("pollEvents", polls + 2, Fault::HoldBefore(gate.clone()));
    world.start_runner();
    assert!(gate.reached(DEADLINE), "the first answer was read");
    // The refusal would be queued before this acknowledgement.
    eventually("the event is acknowledged", || (world.hooks.count("ackEvents") > 1).then_some(()));
    assert_eq!(world.hooks.count("finishRun"), 0);
    gate.open();
    world.ends_as(run, RunState::Failed, Some("invalid_invocation_token"));
}

#[test]
fn a_payload_for_another_run_fails_the_named_run_only_when_it_is_unknown() {
    let mut world = World::without_runner(Setup::default());
    let (victim, bait) = (run_without_event(&world), run_without_event(&world));
    let of_bait = token(&world, bait, Signed, |_, _| {});
    let change = |payload: &mut Value| payload["run_id"] = json!(victim);
    let seq = world.server.operator().redeliver_with(bait, of_bait, change).unwrap();
    world.start_runner();
    world.ends_as(victim, RunState::Failed, Some("invalid_invocation_token"));
    eventually("acknowledged", || acknowledged(&world, seq).then_some(()));
    assert_eq!(world.person.run(bait).state, RunState::Queued, "finishRun names the payload's run");
    assert_eq!(turns(&world), 0);
}

#[test]
fn an_unknown_key_is_neither_acknowledged_nor_answered_and_seen_again() {
    let interval = Duration::from_secs(1);
    let mut world = World::without_runner(Setup {
        adapter: vec!["jwks_refresh_min_interval = \"1s\"".to_owned()],
        ..Setup::default()
    });
    let old_keys = Ask::new(world.server.address(), "GET", "/.well-known/jwks.json").try_send().unwrap();
    world.server.operator().rotate_keys().unwrap();
    world.hooks.always("getJwks", Fault::DoneThenBody(old_keys.body().to_string()));
    let (thread, run) = world.asks("Add them up.");
    let (_, second) = world.asks("And these.");
    world.start_runner();
    let reloads = eventually("three loads of the keys", || {
        let loads = world.hooks.requests_of("getJwks");
        (loads.len() >= 4).then_some(loads)
    });
    // The first one is this test's own.
    for pair in reloads[1..].windows(2) {
        let apart = pair[1].at.as_millis() - pair[0].at.as_millis();
        // The requests are stamped where they arrive, so a little of the interval may be missing.
        assert!(apart >= i64::try_from(interval.as_millis()).unwrap() - 50, "{apart} ms");
    }
    let anew = world.hooks.requests_of("pollEvents").iter().filter(|it| !it.query.contains("after=")).count();
    assert!(anew >= 3, "polled {anew} times without a position");
    for run in [run, second] {
        assert_eq!(world.person.run(run).state, RunState::Queued);
    }
    assert_eq!(world.server.operator().unacknowledged(CONSUMER).unwrap().len(), 2);
    assert_eq!((world.hooks.count("ackEvents"), world.hooks.count("finishRun"), turns(&world)), (0, 0, 0));
    world.hooks.clear();
    world.ends_as(run, RunState::Completed, None);
    world.ends_as(second, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

#[test]
fn an_expired_token_is_renewed_before_the_start() {
    let mut world = World::without_runner(Setup::default());
    let run = run_without_event(&world);
    let operator = world.server.operator();
    let (header, mut claims) = operator.token_parts(run).unwrap();
    let exp = claims["iat"].as_i64().unwrap() - 7_200;
    claims["iat"] = json!(exp - 600);
    claims["nbf"] = json!(exp - 600);
    claims["exp"] = json!(exp);
    let expired = operator.sign(&header, &claims, Signer::Current).unwrap();
    let jti = claims["jti"].as_str().unwrap();
    operator.accept_token(run, &expired, jti, exp).unwrap();
    operator.redeliver_with(run, expired.clone(), |_| {}).unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    let renewals = world.hooks.requests_of("renewInvocationToken");
    assert_eq!(renewals.len(), 1);
    assert_eq!(renewals[0].json().unwrap(), json!({"expired_jti": jti}));
    let starts = world.hooks.requests_of("startRun");
    let good = starts.iter().filter(|start| start.status == Some(200)).collect::<Vec<_>>();
    assert_eq!(good.len(), 1);
    assert_ne!(good[0].header("Invocation-Token"), Some(expired.as_str()));
    assert_eq!(turns(&world), 1);
}

#[test]
fn a_replayed_token_starts_nothing_twice() {
    let mut world = World::without_runner(Setup::default());
    let (thread, run) = world.asks("Add them up.");
    let token = world.server.operator().newest_token(run).unwrap();
    let again = world.server.operator().redeliver_with(run, token.clone(), |_| {}).unwrap();
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    let after = world.server.operator().redeliver_with(run, token, |_| {}).unwrap();
    eventually("both repeats are acknowledged", || {
        (acknowledged(&world, again) && acknowledged(&world, after)).then_some(())
    });
    let (_, fence) = world.asks("Something else.");
    world.ends_as(fence, RunState::Completed, None);
    assert_eq!(turns(&world), 2, "one for each run");
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    assert_eq!(world.hooks.count("finishRun"), 2);
}

#[test]
fn the_identity_of_another_runs_token_starts_nothing() {
    let mut world = World::without_runner(Setup::default());
    let (_, first) = world.asks("Add them up.");
    let jti = claims_of(&world.server.operator().newest_token(first).unwrap())["jti"].clone();
    let second = run_without_event(&world);
    let operator = world.server.operator();
    let (header, mut claims) = operator.token_parts(second).unwrap();
    claims["jti"] = jti;
    let stolen = operator.sign(&header, &claims, Signer::Current).unwrap();
    let seq = operator.redeliver_with(second, stolen, |_| {}).unwrap();
    world.start_runner();
    world.ends_as(first, RunState::Completed, None);
    eventually("acknowledged", || acknowledged(&world, seq).then_some(()));
    let (_, fence) = world.asks("Something else.");
    world.ends_as(fence, RunState::Completed, None);
    assert_eq!(world.person.run(second).state, RunState::Queued, "acknowledged and nothing more");
    assert_eq!(turns(&world), 2);
}

fn claims_of(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

#[test]
fn a_bad_redelivery_does_not_hurt_a_known_run() {
    let world = World::new();
    world.claude.steps(json!([{"do": [{"mark": "reached"}, {"hold": "go"}]}, {"text": "an answer"}]));
    let (thread, run) = world.asks("Add them up.");
    eventually("the turn works", || world.claude.reached("reached").then_some(()));
    let mut seqs = Vec::new();
    for (_, make, forge) in ATTACKS {
        let forged = token(&world, run, *make, *forge);
        seqs.push(world.server.operator().redeliver_with(run, forged, |_| {}).unwrap());
    }
    eventually("every forged one is acknowledged", || {
        seqs.iter().all(|seq| acknowledged(&world, *seq)).then_some(())
    });
    assert_eq!(world.person.run(run).state, RunState::Running);
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!((world.answer_texts(thread), turns(&world)), (vec!["an answer".to_owned()], 1));
}

#[test]
fn what_the_runner_may_not_do_is_refused_whoever_signed() {
    let personal = Setup { billing: BillingMode::Personal, ..Setup::default() };
    let host = Setup { runner_class: ToolClass::Host, ..Setup::default() };
    let rows = [("personal", personal, "billing_mode_mismatch"), ("class", host, "tool_class_mismatch")];
    for (name, setup, reason) in rows {
        let world = World::with(setup);
        let (thread, run) = world.asks("Add them up.");
        let ended = world.ends(run);
        assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Failed, Some(reason)), "{name}");
        assert_eq!(
            (turns(&world), world.answers(thread).len(), world.hooks.count("startRun")),
            (0, 0, 0),
            "{name}"
        );
        assert!(
            world.claude.captured("auth").is_empty(),
            "{name}: refused before anything is asked of the CLI"
        );
    }
}

/// The event of a token that nobody accepts; its position.
fn refused_event(world: &World, run: Uuid) -> i64 {
    let forged = token(world, run, Foreign, |_, _| {});
    world.server.operator().redeliver_with(run, forged, |_| {}).unwrap()
}

/// the end of a refused run waits for good credentials like any other.
#[test]
fn a_refusal_waits_until_the_agent_token_is_good_again() {
    let mut world = World::without_runner(Setup::default());
    let run = run_without_event(&world);
    refused_event(&world, run);
    for nth in [1, 2] {
        world.hooks.nth("finishRun", nth, Fault::Refuse(Problem::new(401, "unauthenticated"), None));
    }
    world.start_runner();
    world.ends_as(run, RunState::Failed, Some("invalid_invocation_token"));
}

/// before the first polls have brought nothing more, no request of a run is sent, its refusal included.
#[test]
fn a_refusal_waits_for_the_first_polls() {
    let mut world = World::without_runner(Setup::default());
    let run = run_without_event(&world);
    let seq = refused_event(&world, run);
    let gate = Gate::new();
    world.hooks.nth("pollEvents", 2, Fault::HoldBefore(gate.clone()));
    world.start_runner();
    // The acknowledgement is sent behind everything that the event had sent at once.
    eventually("acknowledged", || acknowledged(&world, seq).then_some(()));
    assert_eq!(world.hooks.count("finishRun"), 0);
    gate.open();
    world.ends_as(run, RunState::Failed, Some("invalid_invocation_token"));
}

#[test]
fn refusals_that_come_together_are_sent_once_each() {
    let mut world = World::without_runner(Setup::default());
    let runs: Vec<Uuid> = (0..20).map(|_| run_without_event(&world)).collect();
    world.start_runner();
    eventually("it serves", || {
        let polls = world.hooks.requests_of("pollEvents");
        polls.iter().any(|poll| !poll.query.contains("wait_ms=0")).then_some(())
    });
    let gate = world.hooks.hold_next("finishRun");
    let seqs: Vec<i64> = runs.iter().map(|run| refused_event(&world, *run)).collect();
    let last = seqs.iter().max().unwrap();
    eventually("all are handled", || {
        let polls = world.hooks.requests_of("pollEvents");
        polls.iter().any(|poll| poll.query.contains(&format!("after={last}&"))).then_some(())
    });
    gate.open();
    for run in &runs {
        world.ends_as(*run, RunState::Failed, Some("invalid_invocation_token"));
    }
    assert_eq!(world.hooks.count("finishRun"), 20);
}

/// The first point that fails wins: a `jti` of another run is point 7, who pays point 8.
#[test]
fn a_stolen_identity_is_seen_before_who_pays() {
    let mut world = World::without_runner(Setup::default());
    let (_, first) = world.asks("Add them up.");
    let jti = claims_of(&world.server.operator().newest_token(first).unwrap())["jti"].clone();
    world.server.operator().change_settings(|settings| settings.billing_mode = BillingMode::Personal);
    let second = run_without_event(&world);
    let stolen = token(&world, second, Signed, |_, _| {});
    let mut claims = claims_of(&stolen);
    claims["jti"] = jti;
    let header = world.server.operator().token_parts(second).unwrap().0;
    let stolen = world.server.operator().sign(&header, &claims, Signer::Current).unwrap();
    let seq = world.server.operator().redeliver_with(second, stolen, |_| {}).unwrap();
    world.start_runner();
    world.ends_as(first, RunState::Completed, None);
    eventually("acknowledged", || acknowledged(&world, seq).then_some(()));
    world.server.operator().change_settings(|settings| settings.billing_mode = BillingMode::Organization);
    let (_, fence) = world.asks("Something else.");
    world.ends_as(fence, RunState::Completed, None);
    assert_eq!(world.person.run(second).state, RunState::Queued, "acknowledged and nothing more");
}
