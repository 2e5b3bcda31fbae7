//! A faulty or hostile server: whatever it says, nothing panics, nothing goes elsewhere, and the good
//! runs beside it come to their end.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::openapi::contract;
use crate::support::trap::Trap;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Texts in the place of an id.
const NO_IDS: &[&str] = &[
    "",
    "..",
    "../../../etc/passwd",
    "01980000-0000-7000-8000-00000000000g",
    "01980000-0000-7000-8000-000000000001/../x",
    "01980000-0000-7000-8000-000000000001?x=1",
    "a\r\nX-Injected: 1",
    "\u{0}",
    "%2e%2e%2f",
];

/// Nothing was asked for that the contract does not know.
#[track_caller]
fn only_known_requests(world: &World) {
    for request in world.hooks.requests() {
        assert_ne!(request.operation, "unknown", "{} {}", request.method, request.path);
        if request.status.is_none() {
            // Still on its way, its body perhaps too.
            continue;
        }
        let path = match request.query.as_str() {
            "" => request.path.clone(),
            query => format!("{}?{query}", request.path),
        };
        let body = request.json();
        let judged = contract().check_request(&request.method, &path, &request.headers, body.as_ref());
        assert!(judged.is_ok(), "{judged:?}: {} {path}", request.method);
    }
}

#[test]
fn every_request_of_an_ordinary_run_is_one_that_the_contract_describes() {
    let world = World::new();
    world.claude.plays(&json!({"turns": [{"title": "Orders", "steps": [
        {"tool": {"name": "Bash", "input": {"command": "make"}, "output": "made", "do": [
            {"write": {"path": "{{tmpdir}}/sum.txt", "content": "seven"}},
        ]}},
        {"text": "Seven orders.\nATTACH: {{tmpdir}}/sum.txt"},
    ]}]}));
    let file = world.person.uploads(world.channel(), "orders.csv", b"id,quantity\n1,7\n");
    let thread = world.thread();
    let run = world.person.says_with(thread, "How many orders?", &[file]).run_id.unwrap();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answers(thread)[0].attachments.len(), 1);
    only_known_requests(&world);
}

#[test]
fn malformed_events_do_not_stop_the_good_ones() {
    let mut world = World::without_runner(Setup::default());
    let operator = world.server.operator();
    let now = "2026-01-02T03:04:05.678Z";
    let odd = [
        json!("text"),
        json!(7),
        json!([]),
        json!({}),
        json!({"seq": "1"}),
        json!({"seq": -1}),
        json!({"seq": 1.5, "event_id": Uuid::now_v7()}),
        json!({"event_id": "x", "type": "agent.invocation", "occurred_at": now, "payload": {}}),
        json!({"event_id": Uuid::now_v7(), "type": "agent.invocation", "occurred_at": now}),
        json!({"event_id": Uuid::now_v7(), "type": "agent.invocation", "occurred_at": "yesterday", "payload": {}}),
        json!({"event_id": Uuid::now_v7(), "type": "agent.invocation", "occurred_at": now, "payload": []}),
        json!({"event_id": Uuid::now_v7(), "type": "", "occurred_at": now, "payload": null}),
        json!({"event_id": Uuid::now_v7(), "type": "a\r\nb".repeat(1_000), "occurred_at": now, "payload": {}}),
    ];
    let mut runs = Vec::new();
    for event in &odd {
        operator.publish_raw(event).unwrap();
        runs.push(world.asks("How many orders?").1);
    }
    for kind in ["agent.invocation", "run.cancel_requested", "agent.followup", "agent.config_changed"] {
        for payload in [json!({}), json!([1]), json!("x"), json!({"run_id": 5}), deep(100)] {
            operator.publish(kind, &payload).unwrap();
        }
    }
    // The last ones have no position, so a poll at once would only bring them again.
    operator.publish_raw(&json!("no position")).unwrap();
    operator.publish_raw(&json!(["no", "position"])).unwrap();
    world.start_runner();
    for run in runs {
        world.ends_as(run, RunState::Completed, None);
    }
    let (_, late) = world.asks("And one more.");
    world.ends_as(late, RunState::Completed, None);
    assert_eq!(world.claude.argvs().len(), odd.len() + 1);
    let polls = world.hooks.count("pollEvents");
    assert!(polls < 400, "{polls} polls are too many");
    only_known_requests(&world);
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"inner": inner}))
}

#[test]
fn ids_that_are_none_reach_no_path() {
    let mut world = World::without_runner(Setup::default());
    for id in NO_IDS {
        for member in
            ["run_id", "thread_id", "channel_id", "trigger_message_id", "triggered_by", "agent_session"]
        {
            let (_, run) = world.asks("How many orders?");
            let token = world.server.operator().newest_token(run).unwrap();
            let change = |payload: &mut Value| {
                payload[member] = match member {
                    "triggered_by" => json!({"principal_id": id, "display_name": id}),
                    "agent_session" => json!({"external_session_ref": id, "started": true, "version": 1}),
                    _ => json!(id),
                };
            };
            world.server.operator().lose_events().unwrap();
            world.server.operator().redeliver_with(run, token, change).unwrap();
            if member == "run_id" {
                let stop = json!({"run_id": id, "reason": "user_stop"});
                world.server.operator().publish("run.cancel_requested", &stop).unwrap();
                let followup = json!({"run_id": id, "followup_id": id, "thread_id": id, "message": {}});
                world.server.operator().publish("agent.followup", &followup).unwrap();
                let changed = json!({"channel_id": id, "settings_version": 3});
                world.server.operator().publish("agent.config_changed", &changed).unwrap();
            }
            if world.hooks.count("getMe") == 0 {
                world.start_runner();
            }
            let taken = || world.server.operator().unacknowledged("default").unwrap().is_empty();
            eventually(member, || taken().then_some(()));
        }
    }
    let (thread, good) = world.asks("How many orders?");
    world.ends_as(good, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    only_known_requests(&world);
}

#[test]
fn ids_that_are_none_in_answers_are_no_answers() {
    let context = |id: &str| {
        json!({
            "run_id": id, "thread": {"id": id, "title": "", "title_source": "auto", "version": 1},
            "channel": {"id": id, "name": "", "kind": "forum"}, "channel_context": [], "thread_context": [],
            "trigger_message": {},
        })
    };
    let config = |id: &str| json!({"channel_id": id, "space_id": id, "kind": "forum", "name": id, "settings_version": 1, "behavior": {}});
    for id in NO_IDS {
        let mut world = World::without_runner(Setup::default());
        world.claude.plays(&json!({"turns": [{"steps": [
            {"do": [{"write": {"path": "{{tmpdir}}/sum.txt", "content": "seven"}}]},
            {"text": "Seven.\nATTACH: {{tmpdir}}/sum.txt"},
        ]}]}));
        let answers = [
            (
                "getDiscovery",
                json!({"instance_id": id, "api_base": id, "jwks_uri": id, "protocol_version": id}),
            ),
            ("getMe", json!({"principal": {"id": id, "kind": "agent", "display_name": id}})),
            ("listServedChannels", json!({"channels": [config(id)], "next_cursor": id})),
            ("getRunContext", context(id)),
            (
                "startRun",
                json!({"run": {"run_id": id, "state": "running", "version": 1}, "agent_session": {}}),
            ),
            ("patchRun", json!({"version": id})),
            ("createMessage", json!({"message_id": id, "seq": 1, "client_msg_id": id})),
            ("finishRun", json!({"run_id": id, "state": "completed", "version": 1})),
            ("getThread", json!({"id": id, "title": id, "title_source": "auto", "version": 1})),
            ("createUpload", json!({"file_id": id, "mode": "direct", "part_size_bytes": 1, "parts": []})),
            ("uploadPart", json!({"part_number": 7, "etag": id})),
            ("completeUpload", json!({"file_id": id, "name": id, "size_bytes": 1, "sha256": id})),
        ];
        for (operation, body) in answers {
            world.hooks.next(operation, Fault::DoneThenBody(body.to_string()));
        }
        let (thread, run) = world.asks("How many orders?");
        world.start_runner();
        let ended = world.ends(run);
        assert_eq!((ended.state, ended.reason), (RunState::Completed, None), "{id:?}");
        assert_eq!(world.answer_texts(thread), ["Seven."], "{id:?}");
        only_known_requests(&world);
    }
}

#[test]
fn nothing_is_sent_to_another_origin() {
    let trap = Trap::new();
    let rows: [(&str, fn(&Trap, &World) -> (String, String)); 6] = [
        ("api_base", |trap, world| (format!("{}/api/v1", trap.url()), world.server.url() + "/jwks")),
        ("jwks_uri", |trap, world| (world.server.url() + "/api/v1", format!("{}/jwks", trap.url()))),
        ("both", |trap, _| (format!("{}/api/v1", trap.url()), format!("{}/jwks", trap.url()))),
        ("scheme", |_, world| {
            (world.server.url().replace("http:", "ftp:") + "/api/v1", world.server.url() + "/jwks")
        }),
        ("userinfo", |trap, world| {
            let host = trap.url().replace("http://", "");
            (format!("{}@{host}/api/v1", world.server.url()), world.server.url() + "/jwks")
        }),
        ("relative", |_, _| ("/api/v1".to_owned(), "/jwks".to_owned())),
    ];
    for (name, make) in rows {
        let mut world = World::without_runner(Setup::default());
        let (api_base, jwks_uri) = make(&trap, &world);
        let instance_id = world.server.instance_id();
        let body = json!({
            "instance_id": instance_id, "api_base": api_base, "jwks_uri": jwks_uri, "protocol_version": "1",
        });
        world.hooks.always("getDiscovery", Fault::DoneThenBody(body.to_string()));
        let (_, run) = world.asks("How many orders?");
        world.start_runner();
        eventually(name, || (world.hooks.count("getDiscovery") >= 2).then_some(()));
        let all = world.hooks.requests();
        let ours = |it: &&claude_code_runner::local::hooks::Captured| {
            it.operation == "getMe" || it.operation == "getJwks"
        };
        assert_eq!(all.iter().filter(ours).count(), 0, "{name}: no credential leaves");
        world.hooks.clear();
        world.ends_as(run, RunState::Completed, None);
        assert!(trap.is_untouched(), "{name}");
    }
}

#[test]
fn part_headers_may_not_set_what_belongs_to_the_connection() {
    let mut world = World::without_runner(Setup::default());
    world.claude.plays(&json!({"turns": [{"steps": [
        {"do": [{"write": {"path": "{{tmpdir}}/sum.txt", "content": "seven"}}]},
        {"text": "Seven.\nATTACH: {{tmpdir}}/sum.txt"},
    ]}]}));
    let evil = [
        ("Host", "example.com"),
        ("Authorization", "Bearer stolen"),
        ("authorization", "Basic stolen"),
        ("Invocation-Token", "stolen"),
        ("DPoP", "stolen"),
        ("Content-Length", "1"),
        ("content-digest", "sha-256=:AAAA:"),
        ("Content-Type", "text/html"),
        ("Content-Encoding", "gzip"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Keep-Alive", "timeout=1"),
        ("Proxy-Authorization", "Basic stolen"),
        ("TE", "trailers"),
        ("Trailer", "X"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("X-Bad\r\nX-Injected", "1"),
        ("X-Split", "a\r\nX-Injected: 1"),
        ("", "empty"),
        ("X-Harmless", "kept"),
    ];
    let headers: Vec<Value> =
        evil.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let file = Uuid::now_v7();
    let session = json!({
        "file_id": file, "mode": "direct", "part_size_bytes": 1024, "expires_at": "2099-01-02T03:04:05.678Z",
        "parts": [{"part_number": 1, "headers": headers}],
    });
    world.hooks.always("createUpload", Fault::DoneThenBody(session.to_string()));
    let (_, run) = world.asks("How many orders?");
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    let parts = world.hooks.requests_of("uploadPart");
    assert!(!parts.is_empty());
    let token = std::fs::read_to_string(world.server.agent_token_file()).unwrap();
    for part in parts {
        let all = |name: &str| {
            let same = part.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            same.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(all("host"), [world.server.address().to_string()]);
        assert_eq!(all("authorization"), [format!("Bearer {}", token.trim())]);
        assert_eq!((all("content-length"), all("x-harmless")), (vec!["5"], vec!["kept"]));
        assert_eq!((all("invocation-token").len(), all("content-digest").len()), (1, 1));
        for (name, value) in &part.headers {
            assert!(!value.contains("stolen") && !name.contains("Injected"), "{name}");
        }
        for name in ["transfer-encoding", "upgrade", "te", "trailer", "expect", "dpop", "proxy-authorization"]
        {
            assert!(all(name).is_empty(), "{name}");
        }
    }
}

#[test]
fn absurd_intervals_and_part_sizes_are_bounded() {
    for number in [json!(0), json!(1), json!(u64::MAX), json!(-1), json!(1.5), json!("soon")] {
        let mut world = World::without_runner(Setup::default());
        world.claude.plays(&json!({"turns": [{"steps": [
            {"do": [{"write": {"path": "{{tmpdir}}/sum.txt", "content": "seven"}}]},
            {"text": "Seven.\nATTACH: {{tmpdir}}/sum.txt"},
        ]}]}));
        let ack = json!({"server_time": "2026-01-02T03:04:05.678Z", "heartbeat_interval_ms": number});
        world.hooks.always("sendHeartbeat", Fault::DoneThenBody(ack.to_string()));
        let session = json!({
            "file_id": Uuid::now_v7(), "mode": "direct", "part_size_bytes": number,
            "expires_at": "2026-01-02T03:04:05.678Z", "parts": [{"part_number": 1, "headers": []}],
        });
        world.hooks.always("createUpload", Fault::DoneThenBody(session.to_string()));
        let (thread, run) = world.asks("How many orders?");
        world.start_runner();
        let ended = world.ends(run);
        assert_eq!(ended.state, RunState::Completed, "{number}");
        assert!(world.answer_texts(thread)[0].starts_with("Seven."), "{number}");
        let beats = world.hooks.count("sendHeartbeat");
        assert!(beats < 30, "{number}: {beats} heartbeats");
    }
}

#[test]
fn a_flood_and_giant_events_only_delay() {
    /// Few, because a server without optimisation takes seconds for each; more than one answer may hold is
    /// proven beside the gateway.
    const GIANTS: usize = 2;
    const GIANT_BYTES: usize = 5 * 1024 * 1024;
    let mut world = World::without_runner(Setup::default());
    let operator = world.server.operator();
    for number in 0..400 {
        let kind = ["interaction.created", "command.invoked", "not.known.yet"][number % 3];
        operator.publish(kind, &json!({"number": number})).unwrap();
    }
    let changed = json!({"channel_id": world.channel(), "settings_version": 2});
    for _ in 0..100 {
        operator.publish("agent.config_changed", &changed).unwrap();
    }
    let giant = "x".repeat(GIANT_BYTES);
    for _ in 0..GIANTS {
        operator.publish("interaction.created", &json!({"text": giant})).unwrap();
    }
    let (thread, run) = world.asks("How many orders?");
    // The first acknowledgement waits until every event has been handled: the others go together.
    let gate = world.hooks.hold_next("ackEvents");
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    gate.open();
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    let settled = || world.server.operator().unacknowledged("default").unwrap().is_empty();
    eventually("everything is acknowledged", || settled().then_some(()));
    let acks = world.hooks.count("ackEvents");
    assert!(acks < 20, "{acks} requests for 503 acknowledgements");
}
