//! Tests of the client against the scripted server.

use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::super::jws::{self, Jwk, JwkSet};
use super::super::retry::RETRY_AFTER_MAX;
use super::super::test_server::{PATIENCE, Seen, Step, TestServer, answer, empty, hold, problem};
use super::*;

/// A step that a test plays in every attempt.
type Repeated = fn() -> Step;

fn me() -> Value {
    json!({"principal": {"id": Uuid::now_v7(), "kind": "agent", "display_name": "Runner"}})
}

fn channel(id: Uuid) -> Value {
    json!({"channel_id": id, "space_id": Uuid::now_v7(), "kind": "forum", "name": "Projekt-A",
        "settings_version": 1, "behavior": {}})
}

fn acks() -> AckEvents {
    AckEvents { consumer: "default".to_owned(), seqs: vec![1, 2] }
}

fn page(status: u16, media: &str, body: &str) -> Step {
    Step::Answer(status, vec![("content-type", media.to_owned())], body.into())
}

#[test]
fn requests_carry_the_agent_token_and_no_invocation_token() {
    let server = TestServer::start(vec![answer(200, me()), empty(204)]);
    let client = server.client();
    client.get_me().unwrap();
    client.ack_events(&acks()).unwrap();
    let first = server.next_request();
    assert_eq!((first.method.as_str(), first.target.as_str()), ("GET", "/api/v1/me"));
    assert_eq!(first.header("authorization"), "Bearer agent-token");
    assert_eq!(first.header("accept"), "application/json");
    assert!(first.header("user-agent").starts_with("claude-code-runner/"));
    let second = server.next_request();
    assert_eq!((second.method.as_str(), second.target.as_str()), ("POST", "/api/v1/gateway/acks"));
    assert_eq!(second.header("content-type"), "application/json");
    assert_eq!(second.json(), json!({"consumer": "default", "seqs": [1, 2]}));
    for seen in [first, second] {
        assert_eq!(seen.header("invocation-token"), "");
        assert_eq!(seen.header("dpop"), "");
    }
}

#[test]
fn connections_are_kept_across_answers_and_problems() {
    let gone = problem(404, "not_found", None);
    let server = TestServer::start(vec![answer(200, me()), gone, empty(204), answer(200, me())]);
    let client = server.client();
    client.get_me().unwrap();
    assert_eq!(client.get_run(Uuid::now_v7()).unwrap(), None);
    client.ack_events(&acks()).unwrap();
    client.get_me().unwrap();
    let connections: Vec<usize> = (0..4).map(|_| server.next_request().connection).collect();
    assert_eq!(connections, [0; 4]);
}

#[test]
fn a_fork_has_its_own_connection_and_switch() {
    let server = TestServer::start(vec![answer(200, me()), answer(200, me())]);
    let client = server.client();
    client.get_me().unwrap();
    let fork = client.fork();
    client.shutdown();
    assert_eq!(client.get_me(), Err(ApiError::ShutDown));
    fork.get_me().unwrap();
    assert_eq!((server.next_request().connection, server.next_request().connection), (0, 1));
    assert!(client.is_shut_down() && client.clone().is_shut_down() && !fork.is_shut_down());
    assert!(!client.fork().is_shut_down());
}

#[test]
fn answers_that_are_no_answers_are_transport_errors() {
    let garbage = TransportError::Garbage;
    let rows: Vec<(&str, Repeated, TransportError)> = vec![
        ("gateway_page", || page(502, "text/html", "<html>"), TransportError::Status(502)),
        ("login_page", || page(200, "text/html", "<html>"), garbage),
        ("empty_200", || empty(200), garbage),
        ("no_content", || empty(204), garbage),
        ("truncated_json", || page(200, "application/json", "{\"principal\": {\"id\""), garbage),
        ("wrong_shape", || page(200, "application/json", "{\"principal\": 1}"), garbage),
        ("internal", || page(500, "text/plain", "stack"), TransportError::Status(500)),
        ("cut_before", || Step::Raw(Vec::new()), TransportError::Broken),
        ("cut_head", || Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-le".into()), TransportError::Broken),
        (
            "cut_body",
            || Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".into()),
            TransportError::Broken,
        ),
        ("no_http", || Step::Raw(b"SSH-2.0-x\r\n\r\n".into()), garbage),
    ];
    for (name, step, expected) in rows {
        let server = TestServer::start((0..3).map(|_| step()).collect());
        assert_eq!(server.client().get_me(), Err(expected.into()), "{name}");
    }
}

#[test]
fn an_empty_answer_may_not_be_a_page() {
    let steps = (0..3).map(|_| page(200, "text/html", "<html>login")).collect();
    let server = TestServer::start(steps);
    assert_eq!(server.client().ack_events(&acks()), Err(TransportError::Garbage.into()));
}

#[test]
fn credentials_never_follow_a_redirect() {
    let other = TestServer::start(vec![answer(200, me())]);
    for status in [301, 302, 303, 307, 308] {
        let target = format!("{}/api/v1/me", other.url());
        let step = || Step::Answer(status, vec![("location", target.clone())], Vec::new());
        let server = TestServer::start((0..3).map(|_| step()).collect());
        assert_eq!(server.client().get_me(), Err(TransportError::Garbage.into()), "{status}");
    }
    assert!(other.saw_no_more());
}

#[test]
fn transport_errors_and_busy_answers_are_retried_with_the_same_bytes() {
    let rows: Vec<(&str, Step)> = vec![
        ("cut", Step::Raw(Vec::new())),
        ("rate_limited", problem(429, "rate_limited", None)),
        ("bad_gateway", page(502, "text/html", "<html>")),
        ("unavailable", problem(503, "unavailable", None)),
        ("gateway_time", page(504, "text/html", "<html>")),
        ("in_progress", problem(409, "request_in_progress", None)),
        ("garbage", page(200, "text/html", "<html>")),
    ];
    for (name, step) in rows {
        let server = TestServer::start(vec![step, empty(204)]);
        server.client().ack_events(&acks()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (first, second) = (server.next_request(), server.next_request());
        assert_eq!((&first.target, &first.body), (&second.target, &second.body), "{name}");
    }
}

#[test]
fn attempts_are_limited_and_a_final_no_is_not_repeated() {
    let rows: Vec<(&str, Repeated, usize, ApiError)> = vec![
        ("unavailable", || problem(503, "unavailable", None), 3, TransportError::Status(503).into()),
        ("in_progress", || problem(409, "request_in_progress", None), 3, TransportError::Status(409).into()),
        ("internal", || problem(500, "", None), 1, TransportError::Status(500).into()),
    ];
    for (name, step, attempts, expected) in rows {
        let server = TestServer::start((0..4).map(|_| step()).collect());
        assert_eq!(server.client().get_me(), Err(expected), "{name}");
        (0..attempts).for_each(|_| drop(server.next_request()));
        assert!(server.saw_no_more(), "{name}");
    }
}

#[test]
fn final_problems_keep_code_and_reason_and_count_by_status_without_a_body() {
    let rows = [
        ("problem", problem(403, "forbidden", Some("capability_missing")), "forbidden", "capability_missing"),
        ("storage", problem(503, "unavailable", Some("storage_full")), "unavailable", "storage_full"),
        ("not_enabled", problem(501, "not_enabled", None), "not_enabled", ""),
        ("too_large_page", page(413, "text/html", "<html>"), "payload_too_large", ""),
        ("gone_empty", empty(410), "gone", ""),
        ("odd_code", problem(400, "Alex said\nhello", Some("<b>")), "validation_failed", ""),
        ("teapot", empty(418), "status_without_code", ""),
    ];
    for (name, step, code, reason) in rows {
        let server = TestServer::start(vec![step]);
        let error = server.client().get_me().unwrap_err();
        let problem = error.problem().unwrap_or_else(|| panic!("{name}: {error}"));
        assert_eq!(
            (problem.code.as_str(), problem.reason.as_deref().unwrap_or("")),
            (code, reason),
            "{name}"
        );
    }
}

#[test]
fn c6_07_retry_after_waits_end_at_shutdown() {
    let values = [vec!["9999999999"], vec!["18446744073709551616"], vec!["Thu, 01 Jan 2099 00:00:00 GMT"]];
    for value in values {
        let headers = value.iter().map(|text| ("retry-after", (*text).to_owned())).collect();
        let server = TestServer::start(vec![Step::Answer(429, headers, Vec::new())]);
        let client = server.client();
        let worker = client.clone();
        let thread = std::thread::spawn(move || worker.get_me());
        server.next_request();
        client.shutdown();
        assert_eq!(thread.join().unwrap(), Err(ApiError::ShutDown), "{value:?}");
    }
    assert!(RETRY_AFTER_MAX > PATIENCE, "the rows above would show a wait that goes on");
}

#[test]
fn c6_07_bad_retry_after_values_fall_back_to_the_own_backoff() {
    let values =
        [vec!["-5"], vec!["1.5"], vec![""], vec!["Fri, 31 Dec 1999 23:59:59 GMT"], vec!["200", "100"]];
    for value in values {
        let headers = value.iter().map(|text| ("retry-after", (*text).to_owned())).collect();
        let server = TestServer::start(vec![Step::Answer(503, headers, Vec::new()), answer(200, me())]);
        assert!(server.client().get_me().is_ok(), "{value:?}");
    }
}

#[test]
fn a_total_limit_cuts_waits_and_held_answers() {
    let (_release, held) = hold();
    let later = vec![("retry-after", "200".to_owned())];
    let server = TestServer::start(vec![Step::Answer(503, later, Vec::new()), Step::Hold(Vec::new(), held)]);
    let short = server.client().with_total_limit(Duration::from_millis(50));
    assert_eq!(short.get_me(), Err(TransportError::Status(503).into()));
    assert_eq!(short.get_me(), Err(TransportError::Timeout.into()));
}

#[test]
fn a_timed_out_connection_is_not_used_again() {
    let (_release, held) = hold();
    let server = TestServer::start(vec![Step::Hold(Vec::new(), held), answer(200, me())]);
    let settings = ClientSettings { http_timeout: Duration::from_millis(50), ..server.settings() };
    assert!(Client::new(settings).unwrap().get_me().is_ok());
    assert_eq!((server.next_request().connection, server.next_request().connection), (0, 1));
}

#[test]
fn a_dripping_answer_ends_at_the_timeout() {
    let (drip, tokens) = bounded(0);
    let server = TestServer::start(vec![Step::Drip(b"HTTP/1.1 200 OK\r\n".to_vec(), tokens)]);
    let timeout = Duration::from_millis(200);
    let settings = ClientSettings { http_timeout: timeout, retry_max_attempts: 1, ..server.settings() };
    let client = Client::new(settings).unwrap();
    let thread = std::thread::spawn(move || client.get_me());
    (0..3).for_each(|_| drip.send_timeout((), PATIENCE).unwrap());
    assert_eq!(thread.join().unwrap(), Err(TransportError::Timeout.into()));
}

#[test]
fn a_refused_connection_is_a_connect_error() {
    let server = TestServer::start(Vec::new());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = ClientSettings { server_url: format!("http://{free}"), ..server.settings() };
    assert_eq!(Client::new(settings).unwrap().get_me(), Err(TransportError::Connect.into()));
}

#[test]
fn shutdown_ends_a_request_blocked_on_head_or_body() {
    let rows: [(&str, &[u8]); 3] = [
        ("before_the_head", b""),
        ("in_the_head", b"HTTP/1.1 200 OK\r\ncontent-"),
        ("in_the_body", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"),
    ];
    for (name, sent) in rows {
        let (_release, held) = hold();
        let server = TestServer::start(vec![Step::Hold(sent.to_vec(), held)]);
        let client = server.client();
        let worker = client.clone();
        let thread = std::thread::spawn(move || worker.get_me());
        server.next_request();
        client.shutdown();
        assert_eq!(thread.join().unwrap(), Err(ApiError::ShutDown), "{name}");
        assert_eq!(client.get_me(), Err(ApiError::ShutDown), "{name}");
    }
}

#[test]
fn a_rotated_token_file_is_read_for_each_request_and_after_a_401() {
    let server = TestServer::start(vec![answer(200, me()), problem(401, "unauthenticated", None)]);
    let client = server.client();
    client.get_me().unwrap();
    server.write_secret("token", "second-token\n");
    server.push(answer(200, me()));
    client.get_me().unwrap();
    let tokens: Vec<String> =
        (0..3).map(|_| server.next_request().header("authorization").to_owned()).collect();
    assert_eq!(tokens, ["Bearer agent-token", "Bearer second-token", "Bearer second-token"]);
}

#[test]
fn a_lasting_401_ends_after_two_tries() {
    let server = TestServer::start((0..4).map(|_| problem(401, "unauthenticated", None)).collect());
    let error = server.client().get_me().unwrap_err();
    assert_eq!(error.code(), "unauthenticated");
    (0..2).for_each(|_| drop(server.next_request()));
    assert!(server.saw_no_more());
}

#[test]
fn an_unreadable_token_sends_nothing() {
    let server = TestServer::start(vec![answer(200, me())]);
    server.write_secret("token", "");
    assert_eq!(server.client().get_me(), Err(TransportError::Credentials.into()));
    server.write_secret("token", "two\r\nHost: lines");
    assert_eq!(server.client().get_me(), Err(TransportError::Credentials.into()));
    assert!(server.saw_no_more());
}

/// A client with a DPoP key, and the key's public half as a set.
fn dpop_client(server: &TestServer) -> (Client, JwkSet) {
    use base64::Engine as _;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let random = ring::rand::SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let body = base64::engine::general_purpose::STANDARD.encode(&pkcs8);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    let mut public = jws::DpopKey::from_pem(&pem).unwrap().public_jwk();
    public["kid"] = "dpop".into();
    let settings = ClientSettings { dpop_key: Some(server.write_secret("dpop", &pem)), ..server.settings() };
    (Client::new(settings).unwrap(), [Jwk::from_value(public).unwrap()].into_iter().collect())
}

/// Header and claims of a proof whose signature fits.
fn proof(seen: &Seen, keys: &JwkSet) -> (Value, Value) {
    let part = |n: usize| {
        use base64::Engine as _;
        let text = seen.header("dpop").split('.').nth(n).unwrap().to_owned();
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    assert!(jws::fits_any(seen.header("dpop"), keys));
    (part(0), part(1))
}

#[test]
fn dpop_proofs_are_fresh_and_carry_the_newest_nonce() {
    let nonce = |text: &str| vec![("dpop-nonce", text.to_owned())];
    let body = me().to_string().into_bytes();
    let server = TestServer::start(vec![
        Step::Answer(401, nonce("n-1"), Vec::new()),
        Step::Answer(200, nonce("n-2"), body),
        answer(200, json!({"events": []})),
    ]);
    let (client, keys) = dpop_client(&server);
    client.get_me().unwrap();
    client.fork().poll_events("default", Some(7), Duration::from_millis(5), 10).unwrap();
    let seen: Vec<Seen> = (0..3).map(|_| server.next_request()).collect();
    let proofs: Vec<(Value, Value)> = seen.iter().map(|seen| proof(seen, &keys)).collect();
    let nonces: Vec<&Value> = proofs.iter().map(|(_, claims)| &claims["nonce"]).collect();
    assert_eq!(nonces, [&Value::Null, &json!("n-1"), &json!("n-2")]);
    let ids: HashSet<&str> = proofs.iter().map(|(_, claims)| claims["jti"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    let (header, claims) = &proofs[2];
    assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
    assert_eq!(header["jwk"].as_object().unwrap().len(), 4, "the public half only");
    assert_eq!(claims["htm"], "GET");
    assert_eq!(claims["htu"], format!("{}/api/v1/gateway/events", server.url()));
    // SHA-256 of "agent-token", base64url
    assert_eq!(claims["ath"], "60e5zkhApbPqE4uGkSU7eANbkonZAUQJBn6YRMJy75k");
    assert_eq!(seen[2].header("authorization"), "DPoP agent-token");
    assert_eq!(seen[2].target, "/api/v1/gateway/events?consumer=default&after=7&wait_ms=5&max=10");
}

#[test]
fn discovery_sets_the_base_and_refuses_other_origins() {
    let good = |server: &TestServer| {
        json!({"instance_id": Uuid::now_v7(), "api_base": format!("{}/chat/api/v1", server.url()),
            "jwks_uri": format!("{}/keys/", server.url()), "protocol_version": "1"})
    };
    let server = TestServer::start(Vec::new());
    let keys = json!({"keys": [jws::SigningKey::generate().unwrap().public_jwk("k")]});
    [good(&server), keys, me()].into_iter().for_each(|body| server.push(answer(200, body)));
    let client = server.client();
    assert!(client.fork().get_jwks().unwrap().knows("k"), "a fork's discovery counts for all");
    client.get_me().unwrap();
    let seen: Vec<Seen> = (0..3).map(|_| server.next_request()).collect();
    let targets: Vec<&str> = seen.iter().map(|seen| seen.target.as_str()).collect();
    assert_eq!(targets, ["/.well-known/agent-server", "/keys/", "/chat/api/v1/me"]);
    assert_eq!((seen[0].header("authorization"), seen[1].header("authorization")), ("", ""));

    for (member, value) in [
        ("api_base", "https://chat.example.com/api/v1"),
        ("jwks_uri", "http://127.0.0.1:1/keys"),
        ("jwks_uri", "file:///keys"),
    ] {
        let mut body = good(&server);
        body[member] = value.into();
        (0..3).for_each(|_| server.push(answer(200, body.clone())));
        assert_eq!(server.client().get_discovery(), Err(TransportError::Garbage.into()), "{value}");
    }
}

#[test]
fn served_channels_come_from_all_pages_and_the_pages_must_end() {
    let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
    let server = TestServer::start(vec![
        answer(200, json!({"channels": [channel(a)], "next_cursor": "p 2"})),
        answer(200, json!({"channels": [channel(b)]})),
        answer(200, json!({"channels": [], "next_cursor": "x"})),
        answer(200, json!({"channels": [], "next_cursor": "x"})),
    ]);
    let client = server.client();
    let ids: Vec<Uuid> = client.list_served_channels().unwrap().iter().map(|it| it.channel_id).collect();
    assert_eq!(ids, [a, b]);
    server.next_request();
    assert_eq!(server.next_request().target, "/api/v1/agents/me/channels?cursor=p%202");
    assert_eq!(client.list_served_channels(), Err(TransportError::Garbage.into()));
}

#[test]
fn a_channel_that_is_not_served_is_none() {
    let id = Uuid::now_v7();
    let server = TestServer::start(vec![answer(200, channel(id)), problem(404, "not_found", None)]);
    let client = server.client();
    assert_eq!(client.get_served_channel_config(id).unwrap().unwrap().channel_id, id);
    assert_eq!(client.get_served_channel_config(id).unwrap(), None);
}

#[test]
fn server_addresses_are_https_or_loopback() {
    let server = TestServer::start(Vec::new());
    for (url, good) in [("https://chat.example.com", true), ("http://chat.example.com", false), ("x", false)]
    {
        let settings = ClientSettings { server_url: url.to_owned(), ..server.settings() };
        assert_eq!(Client::new(settings).is_ok(), good, "{url}");
    }
}

#[test]
fn an_unusable_ca_file_stops_https_and_is_not_read_for_loopback() {
    let server = TestServer::start(vec![answer(200, me())]);
    let settings = ClientSettings { ca_file: Some("/nonexistent/ca.pem".into()), ..server.settings() };
    assert!(Client::new(settings.clone()).unwrap().get_me().is_ok());
    let https = ClientSettings { server_url: "https://127.0.0.1:1".to_owned(), ..settings };
    assert_eq!(Client::new(https).unwrap().get_me(), Err(TransportError::Connect.into()));
}

#[test]
fn a_proxy_is_used_only_when_configured() {
    let proxy = TestServer::start(vec![answer(200, me())]);
    let nowhere = ClientSettings { server_url: "http://127.0.0.1:1".to_owned(), ..proxy.settings() };
    let settings = ClientSettings { proxy: Some(proxy.url()), retry_max_attempts: 1, ..nowhere };
    let _ = Client::new(settings.clone()).unwrap().get_me();
    assert!(proxy.next_request().target.contains("127.0.0.1:1"));
    let bad = ClientSettings { proxy: Some("no proxy".to_owned()), ..settings };
    assert_eq!(Client::new(bad).unwrap().get_me(), Err(TransportError::Connect.into()));
}

#[test]
fn c6_09_a_connection_that_the_server_closed_while_idle_is_no_failure() {
    let body = me().to_string();
    let closing = || {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        Step::Raw([head.as_bytes(), body.as_bytes()].concat())
    };
    let requests = 50;
    let server = TestServer::start((0..requests * 2).map(|_| closing()).collect());
    let client = server.client();
    (0..requests).for_each(|_| drop(client.get_me().unwrap()));
    let mut connections: Vec<usize> = server.seen.try_iter().map(|seen| seen.connection).collect();
    connections.dedup();
    assert_eq!(connections.len(), requests, "a closed connection took a second request");
}

/// The server closes at the moment of reuse, with the request on its way: the next attempt carries the same key and
/// bytes, so nothing happens twice. The variant: it closes all it has and another one answers at the address.
#[test]
fn c6_09_a_request_into_a_closing_connection_is_repeated_unchanged() {
    for rounds in 1..=20 {
        let cut = || Step::Raw(Vec::new());
        let server = TestServer::start(vec![answer(200, me()), cut(), empty(204)]);
        let client = server.client();
        client.get_me().unwrap();
        client.ack_events(&acks()).unwrap();
        server.next_request();
        let (first, second) = (server.next_request(), server.next_request());
        assert_eq!((&first.target, &first.body), (&second.target, &second.body), "round {rounds}");
        assert_ne!(first.connection, second.connection);
        assert!(server.saw_no_more());
    }
}

/// RFC 9457 section 3.1: a member of another type counts as absent, and the others still count.
#[test]
fn a_problem_member_of_another_type_counts_as_absent() {
    let rows = [
        ("nulls", json!({"type": null, "title": null, "detail": null, "errors": null, "current": null})),
        ("types", json!({"type": 5, "title": [], "status": "403", "detail": {}, "errors": "none"})),
        ("inner", json!({"status": 70_000, "errors": [{"pointer": 1}]})),
    ];
    for (name, mut body) in rows {
        body["code"] = "forbidden".into();
        body["reason"] = "capability_missing".into();
        let server = TestServer::start(vec![answer(403, body)]);
        let error = server.client().get_me().unwrap_err();
        let problem = error.problem().unwrap();
        assert!(problem.is_because("forbidden", "capability_missing"), "{name}: {error}");
        assert_eq!(problem.status, 403);
    }
}
