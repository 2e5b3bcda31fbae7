//! The page's doors: who may come in, and by which path. No browser is needed to try them.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::webdriver::{Browser, DESKTOP};
use crate::support::world::World;

/// One raw request and its status and text.
fn raw(world: &World, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let address = world.server.address();
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer)
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn the_page_needs_no_secret_and_everything_behind_it_does() {
    let world = World::without_runner(Default::default());
    for path in ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"] {
        let (status, text) = raw(&world, "GET", path, &[], "");
        assert_eq!(status, 200, "{path}");
        for guard in
            ["script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "nosniff"]
        {
            assert!(text.contains(guard), "{path}: {guard}");
        }
        assert!(!text.contains("unsafe-"), "{path}");
    }
    let thread = world.thread();
    let session = format!("local_session_{}=wrong", world.server.address().port());
    for path in [
        "/api/v1/projects",
        "/api/v1/changes",
        "/api/v1/runner",
        &format!("/api/v1/threads/{thread}/messages"),
    ] {
        for credential in [None, Some(("Authorization", "Bearer wrong")), Some(("Cookie", session.as_str()))]
        {
            let headers: Vec<_> = credential.into_iter().collect();
            assert_eq!(raw(&world, "GET", path, &headers, "").0, 401, "{path}: {credential:?}");
        }
    }
}

#[test]
fn foreign_pages_are_turned_away() {
    let world = World::without_runner(Default::default());
    let secret = world.server.page_address().split('#').nth(1).unwrap().to_owned();
    let body = format!("{{\"secret\":\"{secret}\"}}");
    let own = world.server.url();
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let rows: &[Row<'_>] = &[
        ("own page", &[JSON, ("Origin", &own)], 204),
        ("rebound name", &[JSON, ("Host", "example.com")], 421),
        ("rebound name with the port", &[JSON, ("Host", "example.com:80")], 421),
        ("foreign origin", &[JSON, ("Origin", "https://example.com")], 403),
        ("no origin", &[JSON, ("Origin", "null")], 403),
        ("other site", &[JSON, ("Sec-Fetch-Site", "cross-site")], 403),
        ("a form", &[("Content-Type", "text/plain")], 415),
    ];
    for (name, headers, status) in rows {
        let (found, text) = raw(&world, "POST", "/session", headers, &body);
        assert_eq!(found, *status, "{name}: {text}");
        assert_eq!(text.contains("Set-Cookie"), *status == 204, "{name}");
    }
    for wrong in ["", "x", &secret[1..], &format!("{secret}x")] {
        let body = format!("{{\"secret\":\"{wrong}\"}}");
        assert_eq!(raw(&world, "POST", "/session", &[JSON], &body).0, 401, "{wrong}");
    }
}

#[test]
fn no_path_leads_out() {
    let world = World::without_runner(Default::default());
    let secret = world.server.page_address().split('#').nth(1).unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let paths = [
        "/page/../Cargo.toml",
        "/page/..%2f..%2fetc%2fpasswd",
        "/page/%2e%2e/%2e%2e/etc/passwd",
        "/page/main.js/",
        "/page//main.js",
        "/page/main.js%00",
        "/page/MAIN.JS",
        "/page/",
        "/page",
        "//",
        "/index.html",
        "/page/mod.rs",
        "/api/v1/files/../../../etc/passwd/content",
        "/api/v1/files/..%2f..%2fperson-secret/content",
        "/api/v1/files/person-secret/content",
        "/api/v1/files/%2e%2e/content",
    ];
    for path in paths {
        let (status, text) = raw(&world, "GET", path, &[("Authorization", &bearer)], "");
        assert!((400..500).contains(&status), "{path}: {text}");
        assert!(!text.contains("root:") && !text.contains(&secret), "{path}: {text}");
    }
}

#[test]
fn a_rebound_name_gets_nothing_in_a_browser() {
    let world = World::without_runner(Default::default());
    let rule = "--host-resolver-rules=MAP rebound.example.com 127.0.0.1".to_owned();
    let Some(browser) = Browser::with(DESKTOP, &[rule]) else { return };
    let secret = world.server.page_address().split('#').nth(1).unwrap().to_owned();
    browser.go(&format!("http://rebound.example.com:{}/#{secret}", world.server.address().port()));
    let shown = browser.value("document.documentElement.outerHTML");
    assert!(shown.as_str().unwrap().contains("misdirected_request"), "{shown}");
    assert_eq!(world.hooks.count("createSession"), 0);
}

/// A part of a file that is refused, by a full disk or otherwise, is read to its end: its sender learns why instead of
/// meeting a closed connection.
#[test]
fn the_sender_of_a_refused_part_sees_why() {
    let world = World::without_runner(Default::default());
    let part = "x".repeat(8 * 1024 * 1024);
    let path = "/api/v1/uploads/01890a5d-ac96-774b-bcce-b302099a8057/parts/1";
    let (status, text) = raw(&world, "PUT", path, &[("Authorization", "Bearer wrong")], &part);
    assert_eq!(status, 401, "{text}");
}
