//! The site itself: credentials, the browser's guards, bad requests, start and stop.

use std::os::unix::fs::MetadataExt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::local::testing::{World, raw, read_reply};
use crate::local::{Hooks, Options, Server};
use crate::sdk::wire::run::{BillingMode, ToolClass};

#[test]
fn each_side_has_its_own_paths() {
    let world = World::new();
    assert_eq!(world.nobody("GET", "/api/v1/me").send().problem(), (401, "unauthenticated", ""));
    let stranger = world.nobody("GET", "/api/v1/me").with("Authorization", "Bearer nobody");
    let stranger = stranger.send();
    assert_eq!(
        (stranger.status, stranger.header("www-authenticate")),
        (401, Some("Bearer, DPoP algs=\"ES256\""))
    );
    assert_eq!(world.agent("GET", "/projects").send().problem(), (403, "forbidden", ""));
    assert_eq!(world.person("GET", "/gateway/events?consumer=a").send().problem(), (403, "forbidden", ""));
    let me = world.agent("GET", "/me").send().ok(200);
    assert_eq!(me.body["principal"]["id"], json!(world.server.agent_id()));
    assert_eq!(world.person("GET", "/me").send().ok(200).body["principal"]["kind"], "person");
    let wrong = world.agent("DELETE", "/me").send();
    assert_eq!(
        (wrong.problem(), wrong.header("allow")),
        ((405, "method_not_allowed", ""), Some("GET, HEAD"))
    );
    let discovery = world.nobody("GET", "/.well-known/agent-server").send().ok(200);
    assert_eq!(discovery.body["instance_id"], json!(world.server.instance_id()));
    assert_eq!(discovery.body["api_base"], json!(format!("{}/api/v1", world.server.url())));
    let head = world.nobody("HEAD", "/.well-known/agent-server").send();
    assert_eq!((head.status, head.bytes.len()), (200, 0));
}

#[test]
fn a_secret_opens_a_session_of_the_page() {
    let world = World::new();
    let address = world.server.page_address();
    let secret = address.split_once("/#").unwrap().1;
    let open = |secret: &str| world.nobody("POST", "/session").json(&json!({"secret": secret})).send();
    assert_eq!(open("guess").problem(), (401, "unauthenticated", ""));
    let opened = open(secret).ok(204);
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Max-Age="));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let list = || world.nobody("GET", "/api/v1/projects").with("Cookie", cookie.clone());
    list().send().ok(200);
    list().with("Origin", "http://example.com").send().ok(403);
    list().with("Host", "example.com").send().ok(421);
    list().with("Sec-Fetch-Site", "cross-site").send().ok(403);
    world.nobody("DELETE", "/session").with("Cookie", cookie.clone()).send().ok(204);
    list().send().ok(401);
}

#[test]
fn bad_bodies_are_refused_with_their_place() {
    let world = World::new();
    let thread = world.thread();
    let post = |body: &Value| world.person("POST", &format!("/threads/{thread}/messages")).json(body).send();
    let id = Uuid::now_v7();
    let rows = [
        (
            "null",
            json!({"client_msg_id": id, "content_md": "a", "attachment_file_ids": null}),
            "/attachment_file_ids",
        ),
        ("unknown", json!({"client_msg_id": id, "content_md": "a", "mood": 1}), "/mood"),
        ("missing", json!({"client_msg_id": id}), "/content_md"),
        ("empty", json!({"client_msg_id": id, "content_md": " "}), "/content_md"),
        ("no object", json!([]), ""),
    ];
    for (name, body, pointer) in rows {
        let reply = post(&body);
        assert_eq!(reply.problem(), (400, "validation_failed", ""), "{name}");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{name}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{name}");
    }
    let path = format!("/threads/{thread}/messages");
    assert_eq!(
        world.person("POST", &path).with("Content-Type", "application/json").bytes(b"{").send().status,
        400
    );
    assert_eq!(
        world.person("POST", &path).with("Content-Type", "text/plain").bytes(b"{}").send().status,
        415
    );
    assert_eq!(world.person("GET", "/projects").bytes(b"{}").send().status, 413);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = world.person("POST", &path).with("Content-Type", "application/json").bytes(deep.as_bytes());
    assert_eq!(deep.send().status, 400);
}

#[test]
fn bad_requests_get_an_answer_and_a_close() {
    let world = World::new();
    let host = world.server.address();
    let rows = [
        ("nonsense", "hello\r\n\r\n".to_owned(), 400),
        (
            "chunked",
            format!("POST /session HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            411,
        ),
        ("long head", format!("GET /{} HTTP/1.1\r\nHost: {host}\r\n\r\n", "a".repeat(20_000)), 431),
        (
            "long body",
            format!(
                "POST /session HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"
            ),
            413,
        ),
        (
            "unknown method",
            format!("BREW /session HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            405,
        ),
    ];
    for (name, text, status) in rows {
        let answer = raw(host, text.as_bytes());
        assert_eq!(read_reply(answer).map(|reply| reply.status), Some(status), "{name}");
    }
    assert!(raw(host, b"").is_empty());
}

#[test]
fn one_connection_too_many_is_told_so() {
    let world = World::new();
    let host = world.server.address();
    let held: Vec<_> = (0..128).map(|_| std::net::TcpStream::connect(host).unwrap()).collect();
    let reply = read_reply(raw(host, b"")).unwrap();
    assert_eq!((reply.problem(), reply.header("retry-after")), ((503, "unavailable", ""), Some("1")));
    drop(held);
}

#[test]
fn a_connection_carries_many_requests() {
    let world = World::new();
    let host = world.server.address();
    let one = format!("GET /.well-known/jwks.json HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let last = format!("HEAD /.well-known/jwks.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(raw(host, format!("{one}{one}{last}").as_bytes())).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3);
    assert!(answer.ends_with("\r\n\r\n"), "no body after HEAD");
}

#[test]
fn a_bound_token_needs_its_proof() {
    let world = World::new();
    let operator = world.server.operator();
    let key = crate::sdk::jws::DpopKey::from_pkcs8(&p256()).unwrap();
    let token = std::fs::read_to_string(world.server.agent_token_file()).unwrap();
    let ask = |nonce: Option<&str>| {
        let ath = URL_SAFE_NO_PAD.encode(Sha256::digest(token.as_bytes()));
        let url = format!("{}/api/v1/me", world.server.url());
        let now = crate::sdk::wire::Time::now().as_seconds();
        let mut claims = json!({"htm": "GET", "htu": url, "iat": now, "jti": Uuid::new_v4(), "ath": ath});
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.public_jwk()});
        let ask = world.agent("GET", "/me").with("Authorization", format!("DPoP {token}"));
        ask.with("DPoP", key.sign(&header, &claims).unwrap()).send()
    };
    ask(None).ok(200);
    world.agent("GET", "/me").with("Authorization", format!("DPoP {token}")).send().ok(401);
    operator.bind_agent_token(Some("another key")).unwrap();
    ask(None).ok(401);
    world.agent("GET", "/me").send().ok(401);
    operator.bind_agent_token(None).unwrap();
    operator.change_settings(|settings| settings.dpop_nonce = Some("n1".to_owned()));
    assert_eq!(ask(None).ok(401).header("dpop-nonce"), Some("n1"));
    ask(Some("n1")).ok(200);
}

fn p256() -> Vec<u8> {
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let random = ring::rand::SystemRandom::new();
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref().to_vec()
}

fn options(data: &std::path::Path) -> Options {
    Options {
        data_dir: data.to_owned(),
        listen: None,
        projects: Vec::new(),
        tool_class: ToolClass::Chat,
        billing_mode: BillingMode::Personal,
        hooks: Hooks::default(),
    }
}

fn fault(options: Options) -> &'static str {
    Server::start(options).err().map_or("started", |fault| {
        assert!(!fault.to_string().is_empty());
        fault.code()
    })
}

#[test]
fn a_server_says_why_it_does_not_start() {
    let world = World::new();
    let other = world.dir.path().join("other");
    let address = world.server.address();
    assert_eq!(fault(options(&world.dir.path().join("data"))), "local_data_dir_in_use");
    assert_eq!(fault(Options { listen: Some(address), ..options(&other) }), "local_port_in_use");
    let public = Some("0.0.0.0:0".parse().unwrap());
    assert_eq!(fault(Options { listen: public, ..options(&other) }), "local_not_loopback");
    let missing = vec![("gone".to_owned(), world.dir.path().join("gone"))];
    assert_eq!(fault(Options { projects: missing, ..options(&other) }), "local_project_missing");
    let open = world.dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(fault(options(&open)), "local_data_dir_not_private");
    assert_eq!(fault(options(&other)), "started");
}

#[test]
fn every_file_of_the_data_directory_is_its_owners() {
    let world = World::new();
    world.queued();
    let mut dirs = vec![world.dir.path().join("data")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{:?}", entry.file_name());
            if entry.metadata().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    assert_eq!(Server::running_in(&world.dir.path().join("data")), Some(world.server.address()));
}
