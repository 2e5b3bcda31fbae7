//! What can happen to any request before it reaches its operation, judged by the file too.

use serde_json::Value;

use super::site::Site;
use crate::support::openapi::contract;
use crate::support::raw_http::send_bytes;

pub fn walk(site: &Site) {
    foreign_sites(site);
    sizes(site);
    no_http(site);
}

fn foreign_sites(site: &Site) {
    let me = site.agent("GET", "/me");
    site.refused(&me.clone().with("Host", "example.com"), 421, "misdirected_request");
    site.refused(&me.clone().with("Host", "127.0.0.1"), 421, "misdirected_request");
    site.refused(&me.clone().with("Origin", "http://example.com"), 403, "forbidden");
    site.refused(&me.clone().with("Origin", "null"), 403, "forbidden");
    site.refused(&me.clone().with("Sec-Fetch-Site", "cross-site"), 403, "forbidden");
    site.ok(&me.with("Origin", &site.server.url()));
}

fn sizes(site: &Site) {
    site.refused(&site.person("GET", "/projects").bytes(b"{}"), 413, "payload_too_large");
    let long = site.nobody("POST", "/session").with("Content-Type", "application/json");
    site.refused(&long.bytes(&vec![b' '; 4 * 1024 * 1024 + 1]), 413, "payload_too_large");
    let deep = format!("{{\"secret\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let ask = site.nobody("POST", "/session").with("Content-Type", "application/json");
    site.refused(&ask.bytes(deep.as_bytes()), 400, "validation_failed");
}

/// Requests below the contract: whatever path they meant, the answer is a problem of the file.
fn no_http(site: &Site) {
    let host = site.server.address();
    let session = |head: &str| format!("POST /session HTTP/1.1\r\nHost: {host}\r\n{head}\r\n");
    let rows = [
        ("no request line", "hello\r\n\r\n".to_owned(), 400),
        ("two hosts", session("Host: example.com\r\n"), 400),
        ("two lengths", session("Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
        ("length beside a coding", session("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400),
        ("chunked", session("Transfer-Encoding: chunked\r\n"), 411),
        ("long head", session(&format!("X: {}\r\n", "a".repeat(20_000))), 431),
        ("many fields", session(&"X: a\r\n".repeat(1_000)), 431),
    ];
    for (name, text, status) in rows {
        let reply = send_bytes(host, text.as_bytes()).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(reply.status, status, "{name}");
        let body: Option<&Value> = reply.json.as_ref();
        let judged = contract().check_answer("POST", "/session", status, reply.header("content-type"), body);
        assert_eq!(judged.as_deref(), Ok("createSession"), "{name}");
    }
}
