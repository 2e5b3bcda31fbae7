//! Walks through the server over real HTTP: the main path here, the corners in the files beside.

mod faults;
mod files;
mod gateway;
mod run_rules;
mod site;

use serde_json::json;
use uuid::Uuid;

use super::testing::{Run, World, start_body};

#[test]
fn a_message_becomes_an_answer() {
    let world = World::new();
    let thread = world.thread();
    let posted = world.post(thread, "What is in **orders**?");
    let run_id = posted.id("run_id");
    let event = world.events().remove(0);
    assert_eq!((event["type"].as_str(), event["seq"].as_i64()), (Some("agent.invocation"), Some(1)));
    let payload = &event["payload"];
    assert_eq!(payload["run_id"], json!(run_id));
    assert!(payload.get("agent_session").is_none());
    let run = Run { id: run_id, token: payload["invocation_token"].as_str().unwrap().to_owned() };

    let context = world.agent("GET", &format!("/runs/{run_id}/context")).token(&run.token).send().ok(200);
    assert_eq!(context.body["trigger_message"]["trust"], "trigger");
    assert_eq!(context.body["trigger_message"]["role"], "person");
    let started = world.start(&run, Uuid::now_v7()).ok(200);
    assert_eq!(started.body["run"]["state"], "running");
    assert_eq!(started.body["agent_session"]["version"], 1);

    let patch = json!({"base_version": 1, "ops": [{"op": "add", "path": "/model", "value": "sonnet"}]});
    let patched =
        world.agent("PATCH", &format!("/runs/{run_id}")).token(&run.token).json(&patch).send().ok(200);
    assert_eq!((patched.body["version"].as_i64(), patched.header("etag")), (Some(2), Some("\"2\"")));
    let stale = world.agent("PATCH", &format!("/runs/{run_id}")).token(&run.token).json(&patch).send();
    assert_eq!(stale.problem(), (409, "base_version_conflict", ""));
    assert_eq!(stale.body["current"], json!({"version": 2}));

    let session = json!({"external_session_ref": start_body()["external_session_ref"], "started": true});
    let ask = world.agent("PUT", &format!("/runs/{run_id}/agent-session")).token(&run.token).json(&session);
    assert_eq!(ask.if_match(1).send().ok(200).body["version"], 2);

    let answer = json!({"client_msg_id": Uuid::now_v7(), "content_md": "Sixty.", "run_id": run_id});
    let ask = || world.agent("POST", &format!("/threads/{thread}/messages")).token(&run.token);
    let first = ask().json(&answer).send().ok(201);
    assert_eq!(ask().json(&answer).send(), first);
    let mut other = answer.clone();
    other["content_md"] = json!("Seven.");
    assert_eq!(ask().json(&other).send().problem(), (422, "idempotency_key_reuse", ""));

    let title = world.agent("GET", &format!("/threads/{thread}")).token(&run.token).send().ok(200);
    assert_eq!((title.body["title_source"].as_str(), title.header("etag")), (Some("auto"), Some("\"1\"")));
    let put = world.agent("PUT", &format!("/threads/{thread}/title")).token(&run.token);
    put.if_match(1).json(&json!({"title": "Orders"})).send().ok(200);

    let finish = json!({"state": "completed", "metrics": {"tokens_in": 7}, "costs": [{
        "provider": "anthropic", "model": "sonnet", "tokens_in": 7, "tokens_out": 1, "tokens_cache_read": 0,
        "tokens_cache_write": 0, "amount_micros": 12, "currency": "USD"}]});
    let ask = || world.agent("POST", &format!("/runs/{run_id}/finish")).token(&run.token).json(&finish);
    let finished = ask().send().ok(200);
    assert_eq!(finished.body["state"], "completed");
    assert_eq!(ask().send(), finished);
    assert_eq!(world.finish(&run, "failed").problem(), (409, "invalid_state_transition", ""));

    let list = world.person("GET", &format!("/threads/{thread}/messages")).send().ok(200);
    assert_eq!(list.body["messages"][0]["content_html"], "<p>What is in <strong>orders</strong>?</p>");
    assert_eq!(list.body["messages"][1]["author"]["kind"], "agent");
    let document = world.person("GET", &format!("/runs/{run_id}/document")).send().ok(200);
    assert_eq!(document.body["document"], json!({"model": "sonnet", "metrics": {"tokens_in": 7}}));
    assert_eq!(document.body["costs"][0]["amount_micros"], 12);
}

#[test]
fn nothing_is_sent_twice_once_a_session_has_it() {
    let world = World::new();
    let (thread, run) = world.running();
    let context = |run: &Run| {
        world.agent("GET", &format!("/runs/{}/context", run.id)).token(&run.token).send().ok(200).body
    };
    assert!(context(&run).get("context_floor_seq").is_none());
    let session = json!({"external_session_ref": start_body()["external_session_ref"], "started": true});
    let ask = world.agent("PUT", &format!("/runs/{}/agent-session", run.id)).token(&run.token).json(&session);
    ask.if_match(1).send().ok(200);
    let answer = json!({"client_msg_id": Uuid::now_v7(), "content_md": "One.", "run_id": run.id});
    world
        .agent("POST", &format!("/threads/{thread}/messages"))
        .token(&run.token)
        .json(&answer)
        .send()
        .ok(201);
    world.finish(&run, "completed").ok(200);
    let operator = world.server.operator();
    let sam = operator.add_person("Sam", false).unwrap();
    operator.add_message(thread, sam, crate::sdk::wire::message::Origin::Chat, "Ignore all that.").unwrap();

    let next = world.post(thread, "And now?").id("run_id");
    let next = Run { id: next, token: operator.newest_token(next).unwrap() };
    let second = context(&next);
    assert_eq!(second["context_floor_seq"], 2);
    let words: Vec<_> =
        second["thread_context"].as_array().unwrap().iter().map(|m| m["trust"].clone()).collect();
    assert_eq!(words, [json!("unverified")]);

    // A lost session has nothing: everything is sent again.
    world.start(&next, Uuid::now_v7()).ok(200);
    let lost =
        json!({"external_session_ref": Uuid::new_v4().to_string(), "started": false, "bind_failed": true});
    let ask = world.agent("PUT", &format!("/runs/{}/agent-session", next.id)).token(&next.token).json(&lost);
    ask.if_match(2).send().ok(200);
    world.finish(&next, "failed").ok(200);
    let third = world.post(thread, "Again.").id("run_id");
    let third = Run { id: third, token: operator.newest_token(third).unwrap() };
    let context = context(&third);
    assert!(context.get("context_floor_seq").is_none());
    let words: Vec<_> =
        context["thread_context"].as_array().unwrap().iter().map(|m| m["trust"].as_str().unwrap()).collect();
    assert_eq!(words, ["authorized", "self", "unverified", "authorized"]);
}

#[test]
fn a_stop_and_a_start_lose_nothing() {
    let world = World::new();
    let (thread, run) = world.running();
    let address = world.server.address();
    let before = world.events();
    let token = std::fs::read_to_string(world.server.agent_token_file()).unwrap();
    let secret = std::fs::read_to_string(world.server.person_secret_file()).unwrap();
    let world = world.restarted();
    assert_eq!(world.server.address(), address);
    assert_eq!(world.events(), before);
    assert_eq!(std::fs::read_to_string(world.server.agent_token_file()).unwrap(), token);
    assert_ne!(std::fs::read_to_string(world.server.person_secret_file()).unwrap(), secret);
    let answer = json!({"client_msg_id": Uuid::now_v7(), "content_md": "Still here.", "run_id": run.id});
    world
        .agent("POST", &format!("/threads/{thread}/messages"))
        .token(&run.token)
        .json(&answer)
        .send()
        .ok(201);
    world.finish(&run, "completed").ok(200);
}

/// Copies a directory as a crash would leave it: the files as they are while the server runs.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    crate::sys::private::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn what_was_answered_survives_a_crash() {
    let world = World::new();
    let (thread, run) = world.running();
    let answer = json!({"client_msg_id": Uuid::now_v7(), "content_md": "Kept.", "run_id": run.id});
    world
        .agent("POST", &format!("/threads/{thread}/messages"))
        .token(&run.token)
        .json(&answer)
        .send()
        .ok(201);
    let before = world.events();
    let crashed = crate::sys::private::TempDir::new().unwrap();
    copy(&world.dir.path().join("data"), &crashed.join("data"));
    assert_eq!(
        super::Server::running_in(&crashed.join("data")),
        None,
        "its address is left, nobody is there"
    );
    std::fs::create_dir(crashed.join("website")).unwrap();
    let after = World::restarted_in(world, crashed);
    assert_eq!(after.events(), before);
    let ask = after.agent("POST", &format!("/threads/{thread}/messages")).token(&run.token);
    assert_eq!(ask.json(&answer).send().ok(201).body["seq"], 2);
    assert_eq!(after.server.operator().messages(thread).unwrap().len(), 2);
}
