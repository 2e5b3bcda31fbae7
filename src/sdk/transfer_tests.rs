//! Tests of downloads and uploads against the scripted server.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::bound::{Bound, RunError, TokenCell};
use super::client::{Client, ClientSettings};
use super::error::TransportError;
use super::test_server::{Seen, Step, TestServer, answer, empty, hold, problem};
use super::upload::PartBytes;
use super::wire::file::{CompletedPart, HeaderPair, UploadComplete, UploadCreate, UploadPart};

const LIMIT: u64 = 1000;

/// More than the socket buffers of both sides hold.
const UNREAD_BYTES: usize = 16 << 20;

fn bind(server: &TestServer) -> Bound {
    server.client().bind(Uuid::now_v7(), TokenCell::new("invocation".to_owned()))
}

fn bytes(status: u16, headers: Vec<(&'static str, String)>, body: &[u8]) -> Step {
    Step::Answer(status, headers, body.to_vec())
}

/// Announces `length` bytes, sends `body`, closes.
fn cut(status: &str, length: usize, body: &str) -> Step {
    Step::Raw(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").into())
}

/// Result, bytes in the sink, and the numbers that the progress was told.
fn download(bound: &Bound, limit: u64) -> (Result<u64, RunError>, Vec<u8>, Vec<u64>) {
    let (mut sink, mut told) = (Vec::new(), Vec::new());
    let result = bound.download_file(Uuid::nil(), limit, &mut sink, &mut |written| told.push(written));
    (result, sink, told)
}

#[test]
fn a_download_streams_and_keeps_the_connection() {
    let server = TestServer::start(vec![bytes(200, Vec::new(), b"hello"), bytes(200, Vec::new(), b"")]);
    let bound = bind(&server);
    let (result, sink, told) = download(&bound, 5);
    assert_eq!((result, sink.as_slice(), told.last()), (Ok(5), b"hello".as_slice(), Some(&5)));
    assert_eq!(download(&bound, 0).0, Ok(0));
    let (first, second) = (server.next_request(), server.next_request());
    assert_eq!(first.target, format!("/api/v1/files/{}/content", Uuid::nil()));
    assert_eq!(first.header("invocation-token"), "invocation");
    assert_eq!(first.header("range"), "");
    assert_eq!((first.connection, second.connection), (0, 0));
}

#[test]
fn a_broken_download_goes_on_where_it_broke() {
    let rest = vec![("content-range", "bytes 3-4/5".to_owned())];
    let server =
        TestServer::start(vec![Step::Raw(Vec::new()), cut("200 OK", 5, "hel"), bytes(206, rest, b"lo")]);
    let (result, sink, told) = download(&bind(&server), LIMIT);
    assert_eq!((result, sink.as_slice()), (Ok(5), b"hello".as_slice()));
    assert_eq!(told, [3, 5]);
    let ranges: Vec<String> = (0..3).map(|_| server.next_request().header("range").to_owned()).collect();
    assert_eq!(ranges, ["", "", "bytes=3-"]);
}

#[test]
fn downloads_that_do_not_fit_end_with_a_reason() {
    let transport = |error| RunError::Transport(error);
    let other_start = || vec![("content-range", "bytes 2-4/5".to_owned())];
    let rows: Vec<(&str, Vec<Step>, RunError)> = vec![
        ("announced_too_long", vec![cut("200 OK", 1001, "")], transport(TransportError::TooLong)),
        (
            "too_long_without_length",
            vec![Step::Raw(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1001)).into())],
            transport(TransportError::TooLong),
        ),
        ("redirect", (0..3).map(|_| empty(302)).collect(), transport(TransportError::Garbage)),
        (
            "whole_file_for_a_range",
            vec![cut("200 OK", 5, "hel"), bytes(200, Vec::new(), b"hello")],
            transport(TransportError::Garbage),
        ),
        (
            "other_range",
            vec![cut("200 OK", 5, "hel"), bytes(206, other_start(), b"llo")],
            transport(TransportError::Garbage),
        ),
        ("part_without_asking", vec![bytes(206, other_start(), b"llo")], transport(TransportError::Garbage)),
        ("unavailable", (0..3).map(|_| empty(503)).collect(), transport(TransportError::Status(503))),
        ("inactive", vec![problem(403, "invocation_token_invalid", Some("run_inactive"))], RunError::Ended),
    ];
    for (name, script, expected) in rows {
        let server = TestServer::start(script);
        assert_eq!(download(&bind(&server), LIMIT).0, Err(expected), "{name}");
    }
}

#[test]
fn download_problems_keep_their_code() {
    for (status, code) in
        [(404, "not_found"), (409, "file_not_ready"), (409, "file_blocked"), (501, "not_enabled")]
    {
        let server = TestServer::start(vec![problem(status, code, None)]);
        assert_eq!(download(&bind(&server), LIMIT).0.unwrap_err().code(), code);
    }
}

#[test]
fn a_401_download_is_repeated_with_a_fresh_token() {
    let server = TestServer::start(vec![problem(401, "unauthenticated", None), bytes(200, Vec::new(), b"x")]);
    assert_eq!(download(&bind(&server), LIMIT).0, Ok(1));
}

#[test]
fn a_stalled_download_ends_at_the_stall_limit() {
    let (_release, held) = hold();
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel".to_vec();
    let server = TestServer::start(vec![Step::Hold(head, held)]);
    let settings = ClientSettings {
        http_timeout: Duration::from_millis(50),
        retry_max_attempts: 1,
        ..server.settings()
    };
    let bound = Client::new(settings).unwrap().bind(Uuid::nil(), TokenCell::new("t".to_owned()));
    let (result, sink, _) = download(&bound, LIMIT);
    assert_eq!(result, Err(RunError::Transport(TransportError::Timeout)));
    assert_eq!(sink, b"hel");
}

#[test]
fn a_sink_that_fails_ends_the_download() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let server = TestServer::start(vec![bytes(200, Vec::new(), b"hello")]);
    let result = bind(&server).download_file(Uuid::nil(), LIMIT, &mut Full, &mut |_| {});
    assert_eq!(result, Err(RunError::Transport(TransportError::Broken)));
    server.next_request();
    assert!(server.saw_no_more());
}

#[test]
fn shutdown_ends_a_download_between_two_bytes() {
    let rows = [("with_length", "content-length: 5\r\n"), ("until_closed", "")];
    for (name, length) in rows {
        let (_release, held) = hold();
        let head = format!("HTTP/1.1 200 OK\r\n{length}\r\nhel").into_bytes();
        let server = TestServer::start(vec![Step::Hold(head, held)]);
        let bound = bind(&server);
        // the first bytes are in the sink, so the next read is the one that blocks
        let result = bound.download_file(Uuid::nil(), LIMIT, &mut Vec::new(), &mut |_| {
            bound.client().shutdown();
        });
        assert_eq!(result, Err(RunError::ShutDown), "{name}");
    }
}

fn hello() -> PartBytes {
    PartBytes::new(b"hello".to_vec())
}

fn unread() -> PartBytes {
    PartBytes::new(vec![0; UNREAD_BYTES])
}

fn part() -> UploadPart {
    let pair = |name: &str, value: &str| HeaderPair { name: name.to_owned(), value: value.to_owned() };
    let headers = vec![
        pair("X-Ticket", "t"),
        pair("Authorization", "Bearer other"),
        pair("Content-Digest", "sha-256=:AA==:"),
        pair("Content-Length", "1"),
        pair("Host", "other.example.com"),
    ];
    UploadPart { part_number: 2, headers }
}

#[test]
fn a_part_carries_its_digest_and_only_allowed_headers() {
    let done = || answer(200, json!({"part_number": 2, "etag": "e"}));
    let server = TestServer::start(vec![Step::Raw(Vec::new()), done()]);
    let id = Uuid::now_v7();
    assert_eq!(bind(&server).upload_part(id, &part(), &hello()).unwrap().etag, "e");
    let seen = [server.next_request(), server.next_request()];
    for seen in &seen {
        assert_eq!((seen.method.as_str(), seen.body.as_slice()), ("PUT", b"hello".as_slice()));
        assert_eq!(seen.target, format!("/api/v1/uploads/{id}/parts/2"));
        let digest = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
        assert_eq!(seen.header("content-digest"), digest);
        assert_eq!((seen.header("x-ticket"), seen.header("content-length")), ("t", "5"));
        assert_eq!(seen.header("authorization"), "Bearer agent-token");
        assert_eq!(seen.header("host"), server.address.to_string());
    }
}

/// Every connection is closed without a word behind its answer, just when the next part would use it again.
#[test]
fn c6_09_a_connection_closed_between_parts_is_no_failure() {
    const PARTS: usize = 50;
    let body = json!({"part_number": 2, "etag": "e"}).to_string();
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let server = TestServer::start((0..PARTS).map(|_| Step::Raw(text.clone().into())).collect());
    let bound = bind(&server);
    for _ in 0..PARTS {
        assert_eq!(bound.upload_part(Uuid::nil(), &part(), &hello()).unwrap().etag, "e");
    }
    let seen: Vec<Seen> = (0..PARTS).map(|_| server.next_request()).collect();
    assert!(seen.iter().all(|request| request.body == b"hello"), "each part came once and whole");
    assert!(server.saw_no_more());
}

#[test]
fn shutdown_ends_an_upload_that_nobody_reads() {
    let (_release, held) = hold();
    let server = TestServer::start(vec![Step::HoldUnread(held)]);
    let bound = bind(&server);
    let worker = bound.clone();
    let thread = std::thread::spawn(move || worker.upload_part(Uuid::nil(), &part(), &unread()));
    server.next_request();
    bound.client().shutdown();
    assert_eq!(thread.join().unwrap(), Err(RunError::ShutDown));
}

#[test]
fn an_upload_that_nobody_reads_ends_at_the_stall_limit() {
    let (_release, held) = hold();
    let server = TestServer::start(vec![Step::HoldUnread(held)]);
    let settings = ClientSettings {
        http_timeout: Duration::from_millis(50),
        retry_max_attempts: 1,
        ..server.settings()
    };
    let bound = Client::new(settings).unwrap().bind(Uuid::nil(), TokenCell::new("t".to_owned()));
    let result = bound.upload_part(Uuid::nil(), &part(), &unread());
    assert_eq!(result, Err(RunError::Transport(TransportError::Timeout)));
}

fn file(file_id: Uuid) -> Value {
    json!({"file_id": file_id, "name": "a.txt", "size_bytes": 5, "sha256": "00", "mime_type": "text/plain",
        "scan_status": "clean"})
}

#[test]
fn completion_for_another_file_is_repeated_with_the_same_key() {
    let (id, key) = (Uuid::now_v7(), Uuid::now_v7());
    let server = TestServer::start(vec![answer(200, file(Uuid::now_v7())), answer(200, file(id))]);
    let body = UploadComplete { parts: vec![CompletedPart { part_number: 1, etag: "e".to_owned() }] };
    assert_eq!(bind(&server).complete_upload(id, key, &body).unwrap().file_id, id);
    let seen = [server.next_request(), server.next_request()];
    assert_eq!(
        seen.each_ref().map(|it| it.header("idempotency-key").to_owned()),
        [key.to_string(), key.to_string()]
    );
    assert_eq!(seen[0].body, seen[1].body);

    let server = TestServer::start((0..3).map(|_| answer(200, file(Uuid::now_v7()))).collect());
    let result = bind(&server).complete_upload(id, key, &body);
    assert_eq!(result, Err(RunError::Transport(TransportError::Garbage)));
}

#[test]
fn sessions_are_created_read_and_aborted() {
    let (channel, key, id) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let session = json!({"file_id": id, "mode": "direct", "part_size_bytes": 4, "expires_at": "2026-01-02T03:04:05.000Z",
        "parts": [{"part_number": 1}]});
    let state = json!({"file_id": id, "state": "open", "part_size_bytes": 4, "parts": []});
    let server = TestServer::start(vec![answer(201, session), answer(200, state), empty(204)]);
    let bound = bind(&server);
    let body = UploadCreate { name: "a.txt".to_owned(), size_bytes: 5, sha256: "00".to_owned() };
    assert_eq!(bound.create_upload(channel, key, &body).unwrap().file_id, id);
    assert!(bound.get_upload(id).unwrap().parts.is_empty());
    bound.abort_upload(id).unwrap();
    let seen: Vec<Seen> = (0..3).map(|_| server.next_request()).collect();
    let lines: Vec<String> = seen.iter().map(|it| format!("{} {}", it.method, it.target)).collect();
    assert_eq!(
        lines,
        [
            format!("POST /api/v1/channels/{channel}/uploads"),
            format!("GET /api/v1/uploads/{id}"),
            format!("DELETE /api/v1/uploads/{id}"),
        ]
    );
    assert_eq!(seen[0].header("idempotency-key"), key.to_string());
}

#[test]
fn a_token_that_runs_out_during_an_upload_is_renewed_once() {
    use super::jws::SigningKey;
    let token = SigningKey::generate().unwrap().sign(&json!({"kid": "k"}), &json!({"jti": "j"}));
    let server = TestServer::start(vec![
        problem(403, "invocation_token_invalid", Some("expired")),
        answer(200, json!({"invocation_token": "renewed"})),
        answer(200, json!({"part_number": 2, "etag": "e"})),
    ]);
    let bound = server.client().bind(Uuid::now_v7(), TokenCell::new(token));
    assert_eq!(bound.upload_part(Uuid::nil(), &part(), &hello()).unwrap().etag, "e");
    (0..2).for_each(|_| drop(server.next_request()));
    let last = server.next_request();
    assert_eq!((last.header("invocation-token"), last.body.as_slice()), ("renewed", b"hello".as_slice()));
}
