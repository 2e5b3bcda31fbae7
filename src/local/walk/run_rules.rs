//! Runs: binding, start, follow-ups, stop, the end, tokens.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::local::testing::{Run, SOON, World, start_body};
use crate::sdk::wire::run::RunState;

#[test]
fn a_request_without_its_own_token_is_refused() {
    let world = World::new();
    let (thread, run) = world.running();
    let (_, other) = world.running();
    let message = json!({"client_msg_id": Uuid::now_v7(), "content_md": "x", "run_id": run.id});
    let upload = json!({"name": "a", "size_bytes": 1, "sha256": "a".repeat(64)});
    let patch = json!({"base_version": 1, "ops": [{"op": "remove", "path": "/model"}]});
    let session = json!({"external_session_ref": "a", "started": true});
    let rows: Vec<(&str, String, Value)> = vec![
        ("GET", format!("/runs/{}/context", run.id), Value::Null),
        ("PATCH", format!("/runs/{}", run.id), patch),
        ("PUT", format!("/runs/{}/agent-session", run.id), session),
        ("POST", format!("/runs/{}/start", run.id), start_body()),
        ("POST", format!("/runs/{}/followups/{}", run.id, Uuid::now_v7()), json!({"state": "delivered"})),
        ("POST", format!("/threads/{thread}/messages"), message),
        ("GET", format!("/threads/{thread}"), Value::Null),
        ("PUT", format!("/threads/{thread}/title"), json!({"title": "x"})),
        ("POST", format!("/channels/{}/uploads", Uuid::now_v7()), upload),
    ];
    for (method, path, body) in &rows {
        let ask = || {
            let ask = world.agent(method, path).key(Uuid::now_v7()).if_match(1);
            if body.is_null() { ask } else { ask.json(body) }
        };
        let refused = (403, "invocation_token_invalid", "invalid");
        assert_eq!(ask().send().problem(), refused, "none: {method} {path}");
        assert_eq!(ask().token("a.b.c").send().problem(), refused, "nonsense: {method} {path}");
        assert_eq!(ask().token(&other.token).send().problem(), refused, "foreign: {method} {path}");
    }
}

#[test]
fn token_reasons_say_what_to_do() {
    let world = World::new();
    let (_, run) = world.queued();
    let operator = world.server.operator();
    let context = |token: &str| {
        world.agent("GET", &format!("/runs/{}/context", run.id)).token(token).send().problem().2.to_owned()
    };
    let newer = operator.mint_token(run.id).unwrap();
    assert_eq!(context(&run.token), "superseded");
    assert_eq!(context(&newer), "");
    operator.expire_tokens(run.id).unwrap();
    assert_eq!(context(&newer), "expired");
    operator.end_run(run.id, RunState::Failed, None).unwrap();
    assert_eq!(context(&newer), "run_inactive");
}

#[test]
fn the_same_expired_token_gets_the_same_grant() {
    let world = World::new();
    let (_, run) = world.queued();
    let operator = world.server.operator();
    let (_, claims) = operator.token_parts(run.id).unwrap();
    assert_eq!(claims["run_id"], json!(run.id));
    let jti = |token: &str| -> String {
        use base64::Engine;
        let part = token.split('.').nth(1).unwrap();
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["jti"].as_str().unwrap().to_owned()
    };
    let renew = |jti: &str| {
        world
            .agent("POST", &format!("/runs/{}/invocation-token", run.id))
            .json(&json!({"expired_jti": jti}))
            .send()
    };
    let granted = renew(&jti(&run.token)).ok(200);
    assert_eq!(renew(&jti(&run.token)).ok(200), granted);
    let first = granted.body["invocation_token"].as_str().unwrap().to_owned();
    let second = renew(&jti(&first)).ok(200).body["invocation_token"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert_eq!(renew("unknown").problem(), (403, "agent_invocation_denied", ""));
    world.finish(&Run { id: run.id, token: second.clone() }, "failed").ok(200);
    assert_eq!(renew(&jti(&second)).problem(), (403, "agent_invocation_denied", ""));
}

#[test]
fn a_run_starts_once() {
    let world = World::new();
    let (_, run) = world.queued();
    let ask = |body: &Value, key: Uuid| {
        world.agent("POST", &format!("/runs/{}/start", run.id)).token(&run.token).key(key).json(body).send()
    };
    for (member, value, code) in [
        ("billing_mode_used", "personal", "billing_mode_mismatch"),
        ("tool_class_used", "host", "tool_class_mismatch"),
    ] {
        let mut body = start_body();
        body[member] = json!(value);
        assert_eq!(ask(&body, Uuid::now_v7()).problem(), (409, code, ""));
    }
    let key = Uuid::now_v7();
    let started = ask(&start_body(), key).ok(200);
    assert_eq!(ask(&start_body(), key), started);
    let mut other = start_body();
    other["model"] = json!("opus");
    assert_eq!(ask(&other, key).problem(), (422, "idempotency_key_reuse", ""));
    assert_eq!(ask(&start_body(), Uuid::now_v7()).problem(), (409, "already_started", ""));
    assert_eq!(ask(&start_body(), Uuid::new_v4()).status, 400);
}

#[test]
fn a_message_while_a_run_works_is_its_followup() {
    let world = World::new();
    let (thread, run) = world.running();
    let followup = world.post(thread, "And the total?");
    assert!(followup.body.get("run_id").is_none());
    let id = followup.id("followup_id");
    let event = world.events().pop().unwrap();
    assert_eq!(
        (event["type"].as_str(), &event["payload"]["followup_id"]),
        (Some("agent.followup"), &json!(id))
    );
    assert_eq!(event["payload"]["message"]["trust"], "trigger");
    let report = |state: &str| {
        let ask = world.agent("POST", &format!("/runs/{}/followups/{id}", run.id)).token(&run.token);
        ask.json(&json!({"state": state})).send()
    };
    report("delivered").ok(200);
    report("delivered").ok(200);
    report("refused").ok(200);
    report("refused").ok(200);
    assert_eq!(report("answered").problem(), (409, "invalid_state_transition", ""));
    let opened = &world.server.operator().runs(thread).unwrap()[0];
    assert_eq!((opened.state, opened.run_id == run.id), (RunState::Queued, false));
    assert_eq!(world.events().len(), 2, "the next run waits for the first");
    world.finish(&run, "completed").ok(200);
    assert_eq!(report("refused").status, 200, "a repeat after the end is no error");
    let sent = world.events().pop().unwrap();
    assert_eq!(sent["payload"]["run_id"], json!(opened.run_id));
    assert_eq!(sent["payload"]["agent_session"]["version"], 1);
}

#[test]
fn every_followup_ends_with_its_run() {
    for (end, said, state, runs) in [
        ("completed", None, "refused", 2),
        ("failed", Some("delivered"), "absorbed", 1),
        ("cancelled", None, "absorbed", 1),
        ("completed", Some("answered"), "answered", 1),
    ] {
        let world = World::new();
        let (thread, run) = world.running();
        let id = world.post(thread, "more").id("followup_id");
        if let Some(said) = said {
            let ask = world.agent("POST", &format!("/runs/{}/followups/{id}", run.id)).token(&run.token);
            ask.json(&json!({"state": said})).send().ok(200);
        }
        world.finish(&run, end).ok(200);
        let all = world.server.operator().runs(thread).unwrap();
        let first = all.iter().find(|found| found.run_id == run.id).unwrap();
        assert_eq!(json!(first.followups[0].state), json!(state), "{end} {said:?}");
        assert_eq!(all.len(), runs, "{end} {said:?}");
    }
}

#[test]
fn a_stop_reaches_running_and_queued_runs() {
    let world = World::new();
    let (thread, run) = world.running();
    let cancel = |id: Uuid| world.person("POST", &format!("/runs/{id}/cancel")).send();
    assert_eq!(cancel(run.id).ok(202).body["state"], "cancelling");
    assert_eq!(cancel(run.id).status, 202);
    let event = world.events().pop().unwrap();
    assert_eq!(
        (event["type"].as_str(), &event["payload"]["reason"]),
        (Some("run.cancel_requested"), &json!("user_stop"))
    );
    let late = json!({"client_msg_id": Uuid::now_v7(), "content_md": "late", "run_id": run.id});
    let ask = world.agent("POST", &format!("/threads/{thread}/messages")).token(&run.token);
    assert_eq!(ask.json(&late).send().problem(), (409, "invalid_state_transition", ""));
    let waiting = world.post(thread, "next").id("run_id");
    assert_eq!(cancel(waiting).ok(202).body["state"], "cancelled", "never sent, so nobody has to stop");
    world.finish(&run, "cancelled").ok(200);
    assert_eq!(cancel(run.id).problem(), (409, "invalid_state_transition", ""));

    let (_, queued) = world.queued();
    assert_eq!(cancel(queued.id).ok(202).body["state"], "cancelling");
    assert_eq!(world.events().pop().unwrap()["payload"]["run_id"], json!(queued.id));
    assert_eq!(world.start(&queued, Uuid::now_v7()).problem(), (403, "agent_invocation_denied", ""));
    assert_eq!(world.agent("GET", &format!("/runs/{}", queued.id)).send().body["state"], "cancelled");
}

#[test]
fn a_silent_runner_loses_its_run() {
    let world = World::new();
    let (_, run) = world.running();
    world.server.operator().change_settings(|settings| settings.run_silence_limit = Duration::ZERO);
    let mut after = 0;
    loop {
        let path = format!("/changes?after={after}&wait_ms={}", SOON.as_millis());
        let changes = world.person("GET", &path).send().ok(200).body;
        let changes = changes["changes"].as_array().unwrap().clone();
        assert!(!changes.is_empty());
        after = changes.last().unwrap()["seq"].as_i64().unwrap();
        if changes.iter().any(|change| change["payload"]["state"] == "interrupted") {
            break;
        }
    }
    let context = world.agent("GET", &format!("/runs/{}/context", run.id)).token(&run.token).send();
    assert_eq!(context.problem(), (403, "invocation_token_invalid", "run_inactive"));
}

#[test]
fn finishing_needs_no_token_and_fits_the_state() {
    let world = World::new();
    let (_, run) = world.queued();
    let finish = |body: Value| world.agent("POST", &format!("/runs/{}/finish", run.id)).json(&body).send();
    assert_eq!(finish(json!({"state": "running"})).status, 400);
    assert_eq!(finish(json!({"state": "completed"})).problem(), (409, "invalid_state_transition", ""));
    assert_eq!(finish(json!({"state": "failed", "reason": "just so"})).status, 400);
    finish(json!({"state": "failed", "reason": "invalid_invocation_token"})).ok(200);
    finish(json!({"state": "failed", "reason": "invalid_invocation_token"})).ok(200);
    let (_, token) = world.server.operator().add_agent("Pilot").unwrap();
    let ask =
        world.agent("GET", &format!("/runs/{}", run.id)).with("Authorization", format!("Bearer {token}"));
    assert_eq!(ask.send().problem(), (404, "not_found", ""));
}

#[test]
fn sessions_change_by_version_only() {
    let world = World::new();
    let (_, run) = world.running();
    let put = |version: i64, body: &Value| {
        world
            .agent("PUT", &format!("/runs/{}/agent-session", run.id))
            .token(&run.token)
            .if_match(version)
            .json(body)
            .send()
    };
    let same = json!({"external_session_ref": start_body()["external_session_ref"], "started": true});
    let other = json!({"external_session_ref": "8b0c9b4e-7c8c-4a86-9d0c-0d3b0b7f8f12", "started": false});
    let conflict = put(7, &same);
    assert_eq!(conflict.problem(), (412, "version_conflict", ""));
    assert_eq!(conflict.body["current"]["version"], 1);
    put(1, &same).ok(200);
    assert_eq!(put(2, &other).problem(), (409, "invalid_state_transition", ""));
    let mut lost = other.clone();
    lost["bind_failed"] = json!(true);
    put(2, &lost).ok(200);
    let kept = world.agent("PUT", &format!("/runs/{}/agent-session", run.id)).token(&run.token).json(&same);
    assert_eq!(kept.send().problem(), (428, "precondition_required", ""));
}

#[test]
fn somebody_without_the_right_triggers_nothing() {
    let world = World::new();
    let operator = world.server.operator();
    let sam = operator.add_person("Sam", false).unwrap();
    let thread = world.thread();
    assert_eq!(operator.post_as(thread, sam, "Run this.").unwrap().1, crate::local::Became::Nothing);
    assert!(world.events().is_empty());
    let run_id = world.post(thread, "Hello").id("run_id");
    let run = Run { id: run_id, token: operator.newest_token(run_id).unwrap() };
    world.start(&run, Uuid::now_v7()).ok(200);
    let (_, became) = operator.post_as(thread, sam, "And this.").unwrap();
    assert!(matches!(became, crate::local::Became::Followup(_)));
    assert_eq!(world.events().pop().unwrap()["payload"]["message"]["trust"], "unverified");
}
