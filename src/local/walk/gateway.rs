//! Gateway and changes: at least once, in order, woken at once; grants, keys and the runner's state.

use std::thread;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::local::testing::{SOON, World};

fn ack(world: &World, consumer: &str, seqs: &[i64]) {
    world.agent("POST", "/gateway/acks").json(&json!({"consumer": consumer, "seqs": seqs})).send().ok(204);
}

fn seqs(world: &World, query: &str) -> Vec<i64> {
    let reply = world.agent("GET", &format!("/gateway/events?{query}")).send().ok(200);
    reply.body["events"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[test]
fn events_stay_until_each_consumer_has_them() {
    let world = World::new();
    assert!(seqs(&world, "consumer=b").is_empty());
    let (_, run) = world.queued();
    world.queued();
    assert_eq!(seqs(&world, "consumer=a"), [1, 2]);
    assert_eq!(world.events()[0]["event_id"], world.events()[0]["event_id"], "a repeat is the same event");
    assert_eq!(seqs(&world, "consumer=a&after=1"), [2]);
    assert_eq!(seqs(&world, "consumer=a&max=1"), [1]);
    ack(&world, "a", &[2, 2, 99]);
    assert_eq!(seqs(&world, "consumer=a"), [1]);
    assert_eq!(seqs(&world, "consumer=b"), [1, 2]);
    ack(&world, "a", &[1]);
    assert!(seqs(&world, "consumer=a").is_empty());
    assert_eq!(world.server.operator().redeliver(run.id), Ok(3));
    assert_eq!(seqs(&world, "consumer=a"), [3], "a repeat after its acknowledgement is new");
    for query in ["consumer=", "consumer=a%20b", "", "consumer=a&after=-1", "consumer=a&wait_ms=x"] {
        assert_eq!(world.agent("GET", &format!("/gateway/events?{query}")).send().status, 400, "{query}");
    }
    world.server.operator().lose_events().unwrap();
    let lost = world.agent("GET", "/gateway/events?consumer=a").send().ok(200);
    assert_eq!(lost.body["gap"], true);
    assert!(world.agent("GET", "/gateway/events?consumer=a").send().body.get("gap").is_none());
}

#[test]
fn a_waiting_poll_wakes_with_its_event() {
    let world = World::new();
    let thread = world.thread();
    let ask = world.agent("GET", &format!("/gateway/events?consumer=a&wait_ms={}", SOON.as_millis()));
    let poll = thread::spawn(move || ask.send());
    assert!(
        world.hooks.wait_until(SOON, |seen| seen.iter().any(|request| request.operation == "pollEvents"))
    );
    world.post(thread, "hello");
    let reply = poll.join().unwrap().ok(200);
    assert_eq!(reply.body["events"][0]["type"], "agent.invocation");
}

#[test]
fn the_newer_poll_of_a_consumer_wins() {
    let world = World::new();
    let ask = world.agent("GET", &format!("/gateway/events?consumer=a&wait_ms={}", SOON.as_millis()));
    let older = thread::spawn(move || ask.send());
    let waiting = |seen: &[crate::local::hooks::Captured]| seen.iter().any(|r| r.operation == "pollEvents");
    assert!(world.hooks.wait_until(SOON, waiting));
    let mut newer = None;
    // The older one may not have begun to wait yet; then it supersedes, and is superseded by the next.
    while newer.is_none() || !older.is_finished() {
        newer = Some(world.agent("GET", "/gateway/events?consumer=a").send());
    }
    assert_eq!(older.join().unwrap().problem(), (409, "superseded_poll", ""));
}

#[test]
fn a_poll_whose_client_has_gone_swallows_no_gap() {
    let world = World::new();
    // Only a consumer that asked before can lose something.
    assert!(seqs(&world, "consumer=a").is_empty());
    let ask = world.agent("GET", "/gateway/events?consumer=a&wait_ms=60000");
    let stream = ask.begin();
    let waits = |seen: &[crate::local::hooks::Captured]| {
        seen.iter().filter(|one| one.operation == "pollEvents").count() == 2
    };
    assert!(world.hooks.wait_until(SOON, waits));
    drop(stream);
    world.server.operator().lose_events().unwrap();
    let answered = |seen: &[crate::local::hooks::Captured]| {
        seen.iter().filter(|one| one.operation == "pollEvents" && one.status.is_some()).count() == 2
    };
    assert!(world.hooks.wait_until(SOON, answered));
    let next = world.agent("GET", "/gateway/events?consumer=a").send().ok(200);
    assert_eq!(next.body["gap"], true, "nobody was told yet");
    assert!(world.agent("GET", "/gateway/events?consumer=a").send().body.get("gap").is_none());
}

#[test]
fn what_the_contract_does_not_name_is_refused() {
    let world = World::new();
    for query in ["consumer=a&since=1", "consumer=a&consumer=b", "consumer=a&max=%"] {
        assert_eq!(world.agent("GET", &format!("/gateway/events?{query}")).send().status, 400, "{query}");
    }
    assert_eq!(world.person("GET", "/projects?x=1").send().status, 400);
    assert_eq!(world.agent("GET", "/instance?").send().status, 200);
}

#[test]
fn a_stop_ends_every_wait_at_once() {
    let mut world = World::new();
    let ask = world.agent("GET", "/gateway/events?consumer=a&wait_ms=60000");
    let poll = thread::spawn(move || ask.try_send());
    let changes = world.person("GET", "/changes?after=999&wait_ms=60000");
    let changes = thread::spawn(move || changes.try_send());
    let gate = world.hooks.hold_next("getInstance");
    let held = world.agent("GET", "/instance");
    let held = thread::spawn(move || held.try_send());
    assert!(gate.reached(SOON));
    let both = |seen: &[crate::local::hooks::Captured]| {
        ["pollEvents", "pollChanges"].iter().all(|name| seen.iter().any(|r| r.operation == *name))
    };
    assert!(world.hooks.wait_until(SOON, both));
    let begun = std::time::Instant::now();
    world.server.stop();
    for wait in [poll, changes, held] {
        let _ = wait.join().unwrap();
    }
    assert!(begun.elapsed() < SOON);
}

#[test]
fn a_changed_grant_is_counted_and_told() {
    let world = World::new();
    let projects = world.person("GET", "/projects").send().ok(200).body;
    assert_eq!(projects["projects"][0]["workspace_write"], false);
    let config = || world.agent("GET", &format!("/agents/me/channels/{}", world.channel)).send().ok(200).body;
    assert_eq!(config()["behavior"]["project_binding"]["runner_config"]["workspace_write"], false);
    let put = |version: i64, body: Value| {
        world
            .person("PUT", &format!("/projects/{}/grant", world.channel))
            .if_match(version)
            .json(&body)
            .send()
    };
    let granted = put(1, json!({"workspace_write": true})).ok(200);
    assert_eq!((granted.body["grant_revision"].as_i64(), granted.header("etag")), (Some(2), Some("\"2\"")));
    assert_eq!(put(1, json!({"workspace_write": false})).problem(), (412, "version_conflict", ""));
    assert_eq!(put(2, json!({"workspace_write": true})).ok(200).body["grant_revision"], 2, "no change");
    let event = world.events().pop().unwrap();
    assert_eq!(
        (event["type"].as_str(), &event["payload"]["settings_version"]),
        (Some("agent.config_changed"), &json!(2))
    );
    let config = config();
    assert_eq!(config["settings_version"], 2);
    assert_eq!(config["behavior"]["project_binding"]["runner_config"]["grant_revision"], 2);
    assert_eq!(world.agent("GET", "/agents/me/channels").send().ok(200).body["channels"][0], config);
    assert_eq!(world.agent("GET", &format!("/agents/me/channels/{}", Uuid::now_v7())).send().status, 404);
}

#[test]
fn rotated_keys_stay_published_until_they_retire() {
    let world = World::new();
    let kids = || -> Vec<String> {
        let reply = world.nobody("GET", "/.well-known/jwks.json").send().ok(200);
        let keys = reply.body["keys"].as_array().unwrap().clone();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    };
    let first = kids();
    let operator = world.server.operator();
    operator.rotate_keys().unwrap();
    let both = kids();
    assert_eq!((both.len(), &both[0]), (2, &first[0]));
    operator.retire_older_keys().unwrap();
    assert_eq!(kids(), both[1..]);
}

#[test]
fn changes_tell_each_thing_once_as_it_is() {
    let world = World::new();
    let (thread, run) = world.running();
    let changes = world.person("GET", "/changes?after=0").send().ok(200).body;
    let kinds: Vec<_> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thread", "message", "run"]);
    assert_eq!(changes["changes"][2]["payload"]["state"], "running");
    assert_eq!(changes["changes"][2]["ids"]["thread_id"], json!(thread));
    assert_eq!(changes["oldest_seq"], 0);
    let newest = world.person("GET", "/changes").send().ok(200).body;
    assert_eq!(newest["changes"].as_array().unwrap().len(), 1);
    let after = newest["changes"][0]["seq"].as_i64().unwrap();
    world.finish(&run, "completed").ok(200);
    let next = world.person("GET", &format!("/changes?after={after}")).send().ok(200).body;
    assert_eq!(next["changes"][0]["payload"]["state"], "completed");
}

#[test]
fn the_runner_is_as_its_last_heartbeat_says() {
    let world = World::new();
    let state = || world.person("GET", "/runner").send().ok(200).body;
    assert_eq!(state(), json!({"reachable": false}));
    let heartbeat = json!({
        "state": "degraded", "reported_tool_class": "scoped", "details": {
            "capabilities": {"title": true, "components": false, "voice_input": false, "files_out": true, "followups": true},
            "active_runs": 0, "degraded_reasons": ["host_as_root"], "adapter": {"name": "a", "version": "1"},
            "runtime": {"name": "claude-code"}, "protocol_version": "1"},
        "project_readiness": [{"channel_id": world.channel, "ready": true}]});
    let ack = world.agent("POST", "/agents/me/heartbeat").json(&heartbeat).send().ok(200);
    assert!(ack.body["server_time"].is_string());
    assert_eq!((&state()["reachable"], &state()["heartbeat"]), (&json!(true), &heartbeat));
    assert_eq!(world.person("GET", "/projects").send().body["projects"][0]["ready"], true);
    let changes = world.person("GET", "/changes?after=0").send().body;
    assert_eq!(changes["changes"].as_array().unwrap().len(), 2, "runner and project");
}
