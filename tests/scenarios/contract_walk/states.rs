//! What the state of a run, a session, a title or a grant does not allow, and what a repeat gives.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::good;
use super::site::{Run, SESSION, Site, start_body};
use crate::support::raw_http::Ask;
use crate::support::wait::DEADLINE;

pub fn walk(site: &Site) {
    polls(site);
    starts(site);
    documents(site);
    finishes(site);
    sessions(site);
    followups(site);
    titles(site);
    messages(site);
    renewals(site);
    grants(site);
    stops(site);
}

/// The older of two polls is told at once.
fn polls(site: &Site) {
    let poll = site.agent("GET", "/gateway/events?consumer=twice&after=999999&wait_ms=30000");
    let before = site.hooks.count("pollEvents");
    let older = poll.clone();
    let waiting = std::thread::spawn(move || older.try_send());
    let came = |seen: &[claude_code_runner::local::hooks::Captured]| {
        seen.iter().filter(|it| it.operation == "pollEvents").count() as u64 > before
    };
    assert!(site.hooks.wait_until(DEADLINE, came));
    // The first poll is known once it has its number; asking again until it was answered needs no clock. Where it gets
    // its number after one of these, that one is the older.
    let short = poll.clone().at("/api/v1/gateway/events?consumer=twice&after=999999&wait_ms=0");
    while !waiting.is_finished() {
        let answer = short.try_send().unwrap();
        assert!(matches!(answer.status, 200 | 409), "{answer:?}");
    }
    let answer = waiting.join().unwrap().unwrap();
    assert_eq!(answer.status, 409);
    let replayed = site.hooks.clone();
    let problem = claude_code_runner::sdk::wire::problem::Problem::new(409, "superseded_poll");
    replayed.next("pollEvents", claude_code_runner::local::hooks::Fault::Refuse(problem, None));
    let judged = site.refused(&poll, 409, "superseded_poll");
    assert_eq!(judged.body()["code"], answer.body()["code"]);
}

fn starts(site: &Site) {
    let run = site.queued();
    let start = site.start(&run);
    let keyless = start.clone().without("Idempotency-Key");
    site.refused(&keyless, 400, "validation_failed");
    let version_4 = start.clone().with("Idempotency-Key", &Uuid::new_v4().to_string());
    site.refused(&version_4, 400, "validation_failed");
    let with = |member: &str, value: Value| {
        let mut body = start_body();
        body[member] = value;
        site.start(&run).json(&body)
    };
    site.refused(&with("billing_mode_used", json!("personal")), 409, "billing_mode_mismatch");
    site.refused(&with("tool_class_used", json!("host")), 409, "tool_class_mismatch");
    site.refused(&with("external_session_ref", json!("")), 400, "validation_failed");
    let gate = site.hooks.hold_next("startRun");
    let first = start.clone();
    let held = std::thread::spawn(move || first.try_send());
    assert!(gate.reached(DEADLINE));
    site.refused(&start, 409, "request_in_progress");
    gate.open();
    let answer = held.join().unwrap().unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(site.ok(&start).json, answer.json, "the stored answer");
    site.refused(
        &with("model", json!("opus")).with("Idempotency-Key", key_of(&start)),
        422,
        "idempotency_key_reuse",
    );
    site.refused(&site.start(&run), 409, "already_started");
    let stopped = site.queued();
    site.ok(&site.person("POST", &format!("/runs/{}/cancel", stopped.id)));
    site.refused(&site.start(&stopped), 403, "agent_invocation_denied");
}

fn key_of(ask: &Ask) -> &str {
    ask.headers.iter().find(|(name, _)| name == "Idempotency-Key").map(|(_, value)| value).unwrap()
}

fn documents(site: &Site) {
    let run = site.running();
    let patch = |run: &Run, version: i64, op: Value| {
        let body = json!({"base_version": version, "ops": [op]});
        site.bound(run, "PATCH", &format!("/runs/{}", run.id)).json(&body)
    };
    let status = json!({"op": "add", "path": "/status_line", "value": "reading"});
    let moved = site.refused(&patch(&run, 7, status.clone()), 409, "base_version_conflict");
    assert_eq!(moved.body()["current"]["version"], 1);
    let step = "01980000-0000-7000-8000-000000000001";
    let rows = [
        json!({"op": "add", "path": "/state", "value": "completed"}),
        json!({"op": "add", "path": "/metrics/mood", "value": 1}),
        json!({"op": "add", "path": "/metrics/tokens_in", "value": "many"}),
        json!({"op": "add", "path": format!("/steps/{step}"), "value": {"id": step}}),
        json!({"op": "add", "path": "/steps/x", "value": {}}),
        json!({"op": "add", "path": "/status_line"}),
        json!({"op": "move", "path": "/status_line", "value": ""}),
        json!({"op": "remove", "path": "/status_line", "value": ""}),
    ];
    for row in rows {
        site.refused(&patch(&run, 1, row), 400, "validation_failed");
    }
    let none = site.bound(&run, "PATCH", &format!("/runs/{}", run.id));
    site.refused(&none.json(&json!({"base_version": 1, "ops": []})), 400, "validation_failed");
    let queued = site.queued();
    site.ok(&patch(&queued, 1, status.clone()));
    let stopping = site.cancelling();
    site.refused(&patch(&stopping, 1, status), 409, "invalid_state_transition");
}

fn finishes(site: &Site) {
    let finish =
        |run: &Run, body: Value| site.bound(run, "POST", &format!("/runs/{}/finish", run.id)).json(&body);
    let run = site.running();
    site.refused(&finish(&run, json!({"state": "running"})), 400, "validation_failed");
    site.refused(&finish(&run, json!({"state": "failed", "reason": "bad luck"})), 400, "validation_failed");
    let done = finish(&run, json!({"state": "completed"}));
    site.ok(&done);
    site.ok(&done);
    site.ok(&done.clone().without("Invocation-Token"));
    site.refused(&finish(&run, json!({"state": "failed"})), 409, "invalid_state_transition");
    site.refused(&finish(&site.queued(), json!({"state": "completed"})), 409, "invalid_state_transition");
    let gone = site.agent("POST", &format!("/runs/{}/finish", Uuid::now_v7()));
    site.refused(&gone.json(&json!({"state": "failed"})), 404, "not_found");
    site.refused(&site.agent("GET", &format!("/runs/{}", Uuid::now_v7())), 404, "not_found");
}

fn sessions(site: &Site) {
    let run = site.running();
    let path = format!("/runs/{}/agent-session", run.id);
    let put =
        |body: Value, version: &str| site.bound(&run, "PUT", &path).with("If-Match", version).json(&body);
    let same = json!({"external_session_ref": SESSION, "started": true});
    let moved = site.refused(&put(same.clone(), "\"9\""), 412, "version_conflict");
    assert_eq!(moved.body()["current"]["version"], 1);
    site.refused(&put(same.clone(), "*"), 400, "validation_failed");
    site.refused(&put(same.clone(), "1"), 400, "validation_failed");
    let unversioned = site.bound(&run, "PUT", &path).json(&same);
    site.refused(&unversioned, 428, "precondition_required");
    site.ok(&put(same, "\"1\""));
    let other = json!({"external_session_ref": Uuid::new_v4(), "started": false});
    site.refused(&put(other.clone(), "\"2\""), 409, "invalid_state_transition");
    let mut lost = other;
    lost["bind_failed"] = json!(true);
    site.ok(&put(lost, "\"2\""));
    let queued = site.queued();
    let early = site.bound(&queued, "PUT", &format!("/runs/{}/agent-session", queued.id));
    let body = json!({"external_session_ref": SESSION, "started": true});
    site.refused(&early.with("If-Match", "\"1\"").json(&body), 404, "not_found");
}

fn followups(site: &Site) {
    let run = site.running();
    let followup = site.post(run.thread, "And the total?").id("followup_id");
    let path = format!("/runs/{}/followups/{followup}", run.id);
    let report = |state: &str| site.bound(&run, "POST", &path).json(&json!({"state": state}));
    site.refused(&report("lost"), 400, "validation_failed");
    for state in ["delivered", "delivered", "absorbed", "absorbed"] {
        site.ok(&report(state));
    }
    site.refused(&report("answered"), 409, "invalid_state_transition");
    site.finish(&run);
    site.ok(&report("absorbed"));
    let foreign = site.bound(&run, "POST", &format!("/runs/{}/followups/{}", run.id, Uuid::now_v7()));
    site.refused(&foreign.json(&json!({"state": "delivered"})), 404, "not_found");
}

fn titles(site: &Site) {
    let run = site.running();
    let path = format!("/threads/{}/title", run.thread);
    let by_agent = |title: &str, version: i64| {
        let ask = site.bound(&run, "PUT", &path).json(&json!({"title": title}));
        ask.with("If-Match", &format!("\"{version}\""))
    };
    site.refused(&by_agent(" ", 1), 400, "validation_failed");
    site.refused(&by_agent("a\nb", 1), 400, "validation_failed");
    site.refused(&by_agent("Orders", 1).without("If-Match"), 428, "precondition_required");
    site.refused(&by_agent("Orders", 9), 412, "version_conflict");
    site.ok(&by_agent("Orders", 1));
    let nowhere = format!("/threads/{}", Uuid::now_v7());
    site.refused(&site.person("GET", &nowhere), 404, "not_found");
    let untitled = site.person("PUT", &format!("{nowhere}/title")).json(&json!({"title": "Mine"}));
    site.refused(&untitled.with("If-Match", "\"1\""), 404, "not_found");
    let manual = site.person("PUT", &path).json(&json!({"title": "Mine"})).with("If-Match", "\"2\"");
    site.ok(&manual);
    site.refused(&by_agent("Orders", 3), 409, "title_manual");
    assert_eq!(
        site.ok(&site.person("GET", &format!("/threads/{}", run.thread))).header("etag"),
        Some("\"3\"")
    );
}

fn messages(site: &Site) {
    let (run, file) = site.run_with_file(b"1,2,3");
    site.ok(&site.start(&run));
    let message = site.message(&run);
    let first = site.ok(&message);
    assert_eq!(site.ok(&message).json, first.json, "the stored answer");
    let mut body: Value = serde_json::from_slice(&message.body).unwrap();
    body["content_md"] = json!("Eight.");
    site.refused(&message.clone().json(&body), 422, "idempotency_key_reuse");
    let other = |change: &dyn Fn(&mut Value)| {
        let mut body = body.clone();
        body["client_msg_id"] = json!(Uuid::now_v7());
        change(&mut body);
        message.clone().json(&body)
    };
    site.refused(&other(&|body| body["content_md"] = json!(" ")), 400, "validation_failed");
    site.refused(&other(&|body| body["content_md"] = json!("a\u{0}")), 400, "validation_failed");
    site.refused(&other(&|body| body["content_md"] = json!("a".repeat(600_000))), 400, "validation_failed");
    let many: Vec<Uuid> = (0..30).map(|_| Uuid::now_v7()).collect();
    site.refused(&other(&|body| body["attachment_file_ids"] = json!(many)), 400, "validation_failed");
    let foreign = other(&|body| body["attachment_file_ids"] = json!([file]));
    site.refused_because(&foreign, 409, "conflict", "file_not_attachable");
    let own = site.file(&run, b"seven");
    let with_file = |body: &mut Value| {
        body["content_md"] = json!("");
        body["attachment_file_ids"] = json!([own]);
    };
    site.ok(&other(&with_file));
    site.refused_because(&other(&with_file), 409, "conflict", "file_not_attachable");
    let stopping = site.cancelling();
    site.refused(&site.message(&stopping), 409, "invalid_state_transition");
    by_the_person(site, file);
}

fn by_the_person(site: &Site, attached: Uuid) {
    let thread = site.thread();
    let post = |body: &Value| site.person("POST", &format!("/threads/{thread}/messages")).json(body);
    let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "How many?"});
    let first = site.ok(&post(&body));
    assert_eq!(site.ok(&post(&body)).json, first.json, "the stored answer");
    let mut other = body.clone();
    other["content_md"] = json!("How much?");
    site.refused(&post(&other), 422, "idempotency_key_reuse");
    other["client_msg_id"] = json!(Uuid::now_v7());
    other["attachment_file_ids"] = json!([attached]);
    site.refused_because(&post(&other), 409, "conflict", "file_not_attachable");
    let away =
        site.ok(&site.person("POST", &format!("/projects/{}/threads", site.other_channel)).json(&json!({})));
    site.operator().unbind(site.other_channel).unwrap();
    let late = site.person("POST", &format!("/threads/{}/messages", away.id("id")));
    let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "Still there?"});
    site.refused(&late.json(&body), 403, "channel_read_only");
}

fn renewals(site: &Site) {
    let run = site.running();
    let path = format!("/runs/{}/invocation-token", run.id);
    let renew = |jti: &str| site.agent("POST", &path).json(&json!({"expired_jti": jti}));
    let first = site.ok(&renew(&good::jti(&run.token)));
    assert_eq!(site.ok(&renew(&good::jti(&run.token))).json, first.json, "the same grant");
    site.refused(&renew("unheard"), 403, "agent_invocation_denied");
    let token = first.body()["invocation_token"].as_str().unwrap().to_owned();
    site.finish(&Run { token: token.clone(), ..run.clone() });
    site.refused(&renew(&good::jti(&token)), 403, "agent_invocation_denied");
}

fn grants(site: &Site) {
    let path = format!("/projects/{}/grant", site.channel);
    let put = |body: Value| site.person("PUT", &path).json(&body);
    site.refused(&put(json!({"workspace_write": true})), 428, "precondition_required");
    let stale = put(json!({"workspace_write": true})).with("If-Match", "\"9999\"");
    site.refused(&stale, 412, "version_conflict");
}

fn stops(site: &Site) {
    let cancel = |run: &Run| site.person("POST", &format!("/runs/{}/cancel", run.id));
    let run = site.running();
    site.ok(&cancel(&run));
    site.ok(&cancel(&run));
    site.finish(&run);
    site.refused(&cancel(&run), 409, "invalid_state_transition");
    assert!(site.hooks.wait_for("cancelRun", 1, Duration::ZERO));
}
