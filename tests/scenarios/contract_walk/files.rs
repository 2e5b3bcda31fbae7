//! Uploads, parts, completions and downloads: each way to be refused.

use std::time::Duration;

use claude_code_runner::sdk::wire::message::ScanStatus;
use serde_json::{Value, json};
use uuid::Uuid;

use super::site::{Run, Site, sha256_hex};
use crate::support::raw_http::Ask;
use crate::support::wait::DEADLINE;

/// Length of a part during this walk, bytes.
const PART: u64 = 8;

pub fn walk(site: &Site) {
    let kept = std::cell::RefCell::new(None);
    site.operator().change_settings(|settings| {
        kept.replace(Some(settings.clone()));
        settings.part_size_bytes = PART;
        settings.limits.file_max_upload_bytes = 100;
    });
    announcements(site);
    parts(site);
    completions(site);
    aborts(site);
    downloads(site);
    site.operator().change_settings(|settings| *settings = kept.take().unwrap());
}

fn announcement(site: &Site, run: &Run) -> Ask {
    let ask = site.bound(run, "POST", &format!("/channels/{}/uploads", site.channel));
    site.announce(ask, b"seven")
}

fn announcements(site: &Site) {
    let run = site.running();
    let ask = announcement(site, &run);
    let with = |member: &str, value: Value| {
        let mut body: Value = serde_json::from_slice(&ask.body).unwrap();
        body[member] = value;
        announcement(site, &run).json(&body)
    };
    for name in ["a/b", "..", "", "a\u{0}b", "a\\b"] {
        site.refused(&with("name", json!(name)), 400, "validation_failed");
    }
    site.refused(&with("sha256", json!("ABC")), 400, "validation_failed");
    site.refused(&with("size_bytes", json!(0)), 400, "validation_failed");
    site.refused(&with("size_bytes", json!(101)), 413, "payload_too_large");
    site.refused(&ask.clone().without("Idempotency-Key"), 400, "validation_failed");
    let nowhere = format!("/api/v1/channels/{}/uploads", Uuid::now_v7());
    let by_person = site.person("POST", "/me").at(&nowhere);
    site.refused(&site.announce(by_person, b"seven"), 404, "not_found");
    let gate = site.hooks.hold_next("createUpload");
    let first = ask.clone();
    let held = std::thread::spawn(move || first.try_send());
    assert!(gate.reached(DEADLINE));
    site.refused(&ask, 409, "request_in_progress");
    gate.open();
    let answer = held.join().unwrap().unwrap();
    assert_eq!(site.ok(&ask).json, answer.json, "the stored answer");
    let mut body: Value = serde_json::from_slice(&ask.body).unwrap();
    body["name"] = json!("other.csv");
    site.refused(&ask.clone().json(&body), 422, "idempotency_key_reuse");
    site.operator().change_settings(|settings| settings.upload_quota_bytes = 1);
    site.refused_because(&announcement(site, &run), 409, "conflict", "quota_exceeded");
    site.operator().change_settings(|settings| settings.upload_quota_bytes = 1 << 30);
}

fn parts(site: &Site) {
    let run = site.running();
    let upload = site.upload(&run, b"seven");
    let part = site.part(&run, &upload, b"seven");
    site.refused(&part.clone().without("Content-Digest"), 400, "validation_failed");
    let wrong = part.clone().with("Content-Digest", &format!("sha-256=:{}:", "A".repeat(43) + "="));
    site.refused(&wrong, 400, "validation_failed");
    site.refused(&site.part(&run, &upload, b"nine"), 400, "validation_failed");
    site.refused(&part.clone().without(&upload.header.0), 403, "forbidden");
    site.refused(&part.clone().bytes(&[0; 9]), 413, "payload_too_large");
    let first = site.ok(&part);
    assert_eq!(site.ok(&part).json, first.json, "the same mark");
    site.refused_because(&site.part(&run, &upload, b"eight"), 409, "conflict", "part_conflict");
    site.ok(&site.completion(&run, &upload, b"seven"));
    site.refused(&part, 409, "invalid_state_transition");
    let given_up = site.upload(&run, b"seven");
    site.ok(&site.bound(&run, "DELETE", &format!("/uploads/{}", given_up.id)));
    site.refused(&site.part(&run, &given_up, b"seven"), 410, "gone");
    let elsewhere = site.running();
    let foreign = site.part(&elsewhere, &given_up, b"seven");
    site.refused(&foreign, 404, "not_found");
}

fn completions(site: &Site) {
    let run = site.running();
    let upload = site.upload(&run, b"seven");
    let complete = site.completion(&run, &upload, b"seven");
    site.refused_because(&complete, 409, "conflict", "upload_incomplete");
    site.ok(&site.part(&run, &upload, b"seven"));
    let wrong = json!({"parts": [{"part_number": 1, "etag": "0".repeat(32)}]});
    site.refused_because(&complete.clone().json(&wrong), 409, "conflict", "upload_incomplete");
    site.refused(&complete.clone().without("Idempotency-Key"), 400, "validation_failed");
    let gate = site.hooks.hold_next("completeUpload");
    let first = complete.clone();
    let held = std::thread::spawn(move || first.try_send());
    assert!(gate.reached(DEADLINE));
    site.refused(&complete, 409, "request_in_progress");
    gate.open();
    let answer = held.join().unwrap().unwrap();
    assert_eq!(site.ok(&complete).json, answer.json, "the stored answer");
    site.refused(&complete.clone().json(&wrong), 422, "idempotency_key_reuse");
    site.refused(&site.completion(&run, &upload, b"seven"), 409, "invalid_state_transition");
    let lying = json!({"name": "a", "size_bytes": 5, "sha256": sha256_hex(b"other")});
    let ask = site.bound(&run, "POST", &format!("/channels/{}/uploads", site.channel));
    let announced = site.ok(&ask.with("Idempotency-Key", &Uuid::now_v7().to_string()).json(&lying));
    let header = &announced.body()["parts"][0]["headers"][0];
    let header = ["name", "value"].map(|name| header[name].as_str().unwrap().to_owned());
    let other = super::site::Upload { id: announced.id("file_id"), header: header.into() };
    site.ok(&site.part(&run, &other, b"seven"));
    site.refused_because(&site.completion(&run, &other, b"seven"), 409, "conflict", "upload_incomplete");
    let given_up = site.upload(&run, b"seven");
    site.ok(&site.bound(&run, "DELETE", &format!("/uploads/{}", given_up.id)));
    site.refused(&site.completion(&run, &given_up, b"seven"), 410, "gone");
    site.operator().change_settings(|settings| settings.upload_life = Duration::ZERO);
    let expired = site.upload(&run, b"seven");
    site.refused(&site.completion(&run, &expired, b"seven"), 410, "gone");
    site.operator().change_settings(|settings| settings.upload_life = Duration::from_secs(3600));
}

fn aborts(site: &Site) {
    let run = site.running();
    let upload = site.upload(&run, b"seven");
    let abort = site.bound(&run, "DELETE", &format!("/uploads/{}", upload.id));
    site.ok(&abort);
    site.ok(&abort);
    let state = site.ok(&site.bound(&run, "GET", &format!("/uploads/{}", upload.id)));
    assert_eq!(state.body()["state"], "aborted");
    let whole = site.file(&run, b"seven");
    let late = site.bound(&run, "DELETE", &format!("/uploads/{whole}"));
    site.refused(&late, 409, "invalid_state_transition");
}

fn downloads(site: &Site) {
    let (run, file) = site.run_with_file(b"1,2,3,4");
    let download = site.bound(&run, "GET", &format!("/files/{file}/content"));
    assert_eq!(site.ok(&download).bytes, b"1,2,3,4");
    for (range, bytes) in
        [("bytes=2-3", &b"2,"[..]), ("bytes=5-", b",4"), ("bytes=-1", b"4"), ("bytes=6-99", b"4")]
    {
        let reply = site.ok(&download.clone().with("Range", range));
        assert_eq!((reply.status, reply.bytes.as_slice()), (206, bytes), "{range}");
    }
    for odd in ["bytes=0-1,3-4", "lines=1-2", "bytes=x", "bytes=3-2"] {
        assert_eq!(site.ok(&download.clone().with("Range", odd)).status, 200, "{odd}");
    }
    let outside = site.refused(&download.clone().with("Range", "bytes=7-"), 416, "range_not_satisfiable");
    assert_eq!(outside.header("content-range"), Some("bytes */7"));
    let head = site.ok(&Ask { method: "HEAD".to_owned(), ..download.clone() });
    assert_eq!((head.header("content-length"), head.bytes.len()), (Some("7"), 0));
    assert_eq!(site.ok(&site.person("GET", &format!("/files/{file}/content"))).bytes, b"1,2,3,4");
    let elsewhere = site.bound(&site.running(), "GET", &format!("/files/{file}/content"));
    site.refused(&elsewhere, 404, "not_found");
    for (status, code) in [
        (ScanStatus::Pending, "file_not_ready"),
        (ScanStatus::Blocked, "file_blocked"),
        (ScanStatus::Failed, "file_blocked"),
    ] {
        site.operator().set_scan_status(file, status).unwrap();
        site.refused(&download, 409, code);
    }
}
