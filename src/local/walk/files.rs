//! Files: upload sessions, attaching, downloads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::local::secrets;
use crate::local::testing::{Ask, Reply, Run, World};
use crate::sdk::wire::message::ScanStatus;

fn announced(name: &str, bytes: &str) -> Value {
    json!({"name": name, "size_bytes": bytes.len(), "sha256": secrets::hash(bytes)})
}

fn part(ask: Ask, session: &Value, bytes: &str) -> Ask {
    let digest = STANDARD.encode(Sha256::digest(bytes.as_bytes()));
    let header = &session["parts"][0]["headers"][0];
    ask.with(header["name"].as_str().unwrap(), header["value"].as_str().unwrap())
        .with("Content-Digest", format!("sha-256=:{digest}:"))
        .bytes(bytes.as_bytes())
}

/// Uploads `bytes` in parts of four with the requests that `ask` makes.
fn upload(world: &World, ask: &dyn Fn(&str, &str) -> Ask, name: &str, bytes: &str) -> Uuid {
    world.server.operator().change_settings(|settings| settings.part_size_bytes = 4);
    let path = format!("/channels/{}/uploads", world.channel);
    let session = ask("POST", &path).key(Uuid::now_v7()).json(&announced(name, bytes)).send().ok(201);
    let id = session.id("file_id");
    let mut parts = Vec::new();
    for (piece, number) in bytes.as_bytes().chunks(4).zip(1..) {
        let put = part(
            ask("PUT", &format!("/uploads/{id}/parts/{number}")),
            &session.body,
            std::str::from_utf8(piece).unwrap(),
        );
        let stored = put.send().ok(200);
        assert_eq!(put.send(), stored, "the same bytes again");
        parts.push(json!({"part_number": number, "etag": stored.body["etag"]}));
    }
    let complete =
        ask("POST", &format!("/uploads/{id}/complete")).key(Uuid::now_v7()).json(&json!({"parts": parts}));
    let file = complete.send().ok(200);
    assert_eq!(complete.send(), file, "the same key again");
    assert_eq!((&file.body["name"], &file.body["scan_status"]), (&json!(name), &json!("skipped")));
    id
}

fn post(world: &World, thread: Uuid, files: &[Uuid]) -> Reply {
    let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "", "attachment_file_ids": files});
    world.person("POST", &format!("/threads/{thread}/messages")).json(&body).send()
}

#[test]
fn a_name_that_is_not_taken_is_told_so() {
    let world = World::new();
    let path = format!("/channels/{}/uploads", world.channel);
    for name in ["a\nb.txt", "", "a/b", &"a".repeat(256)] {
        let asked = world.person("POST", &path).key(Uuid::now_v7()).json(&announced(name, "x"));
        let refused = asked.send();
        assert_eq!(refused.status, 400);
        assert_eq!(refused.body["errors"][0]["pointer"], "/name");
        let title = refused.body["title"].as_str().unwrap();
        assert!(title.contains("name") && title.contains("255 bytes"), "{title}");
    }
}

#[test]
fn a_file_goes_in_and_a_result_comes_out() {
    let world = World::new();
    let person = |method: &str, path: &str| world.person(method, path);
    let thread = world.thread();
    let file = upload(&world, &person, "orders.csv", "1,2,3,4,5");
    let run_id = post(&world, thread, &[file]).ok(201).id("run_id");
    let run = Run { id: run_id, token: world.server.operator().newest_token(run_id).unwrap() };
    let context = world.agent("GET", &format!("/runs/{run_id}/context")).token(&run.token).send().ok(200);
    let attachment = &context.body["trigger_message"]["attachments"][0];
    assert_eq!(
        (attachment["name"].as_str(), attachment["size_bytes"].as_u64()),
        (Some("orders.csv"), Some(9))
    );

    let download = || world.agent("GET", &format!("/files/{file}/content")).token(&run.token);
    let whole = download().send().ok(200);
    assert_eq!(whole.bytes, b"1,2,3,4,5");
    assert_eq!(
        whole.header("repr-digest").unwrap(),
        format!("sha-256=:{}:", STANDARD.encode(Sha256::digest("1,2,3,4,5")))
    );
    assert!(whole.header("content-disposition").unwrap().starts_with("attachment;"));
    let piece = download().with("Range", "bytes=2-4").send().ok(206);
    assert_eq!((piece.bytes.as_slice(), piece.header("content-range")), (&b"2,3"[..], Some("bytes 2-4/9")));
    assert_eq!(download().with("Range", "bytes=9-").send().status, 416);

    world.start(&run, Uuid::now_v7()).ok(200);
    let agent = |method: &str, path: &str| world.agent(method, path).token(&run.token);
    let result = upload(&world, &agent, "sum.txt", "fifteen");
    let answer = |files: &[Uuid]| {
        let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "", "run_id": run_id, "attachment_file_ids": files});
        world.agent("POST", &format!("/threads/{thread}/messages")).token(&run.token).json(&body).send()
    };
    let refused = (409, "conflict", "file_not_attachable");
    assert_eq!(answer(&[file]).problem(), refused, "a foreign file");
    assert_eq!(answer(&[Uuid::now_v7()]).problem(), refused, "no file");
    answer(&[result]).ok(201);
    assert_eq!(answer(&[result]).problem(), refused, "attached already");
    let read = world.person("GET", &format!("/files/{result}/content")).send().ok(200);
    assert_eq!(read.bytes, b"fifteen");
    assert_eq!(world.server.operator().file_bytes(file).unwrap(), b"1,2,3,4,5");
}

#[test]
fn a_file_id_alone_is_no_permission() {
    let world = World::new();
    let person = |method: &str, path: &str| world.person(method, path);
    let file = upload(&world, &person, "a.txt", "secret");
    let (thread, run) = world.running();
    let download = |run: &Run| world.agent("GET", &format!("/files/{file}/content")).token(&run.token).send();
    assert_eq!(download(&run).problem(), (404, "not_found", ""), "on no message");
    let (other, _) = world.running();
    post(&world, other, &[file]).ok(201);
    assert_eq!(download(&run).problem(), (404, "not_found", ""), "in another thread");
    let second = upload(&world, &person, "b.txt", "shown");
    let followup = post(&world, thread, &[second]).ok(201);
    assert!(followup.body.get("followup_id").is_some());
    let shown = world.agent("GET", &format!("/files/{second}/content")).token(&run.token);
    assert_eq!(shown.send().ok(200).bytes, b"shown", "of a follow-up");
    for (status, code) in [(ScanStatus::Pending, "file_not_ready"), (ScanStatus::Blocked, "file_blocked")] {
        world.server.operator().set_scan_status(second, status).unwrap();
        assert_eq!(shown.send().problem(), (409, code, ""));
    }
}

#[test]
fn uploads_are_checked() {
    let world = World::new();
    let operator = world.server.operator();
    operator.change_settings(|settings| {
        settings.part_size_bytes = 4;
        settings.limits.file_max_upload_bytes = 100;
        settings.upload_quota_bytes = 20;
    });
    let create = |body: &Value, key: Uuid| {
        world.person("POST", &format!("/channels/{}/uploads", world.channel)).key(key).json(body).send()
    };
    let rows = [
        (
            "directory",
            json!({"name": "a/b", "size_bytes": 1, "sha256": "a".repeat(64)}),
            (400, "validation_failed", ""),
        ),
        (
            "empty",
            json!({"name": "a", "size_bytes": 0, "sha256": "a".repeat(64)}),
            (400, "validation_failed", ""),
        ),
        (
            "hash",
            json!({"name": "a", "size_bytes": 1, "sha256": "A".repeat(64)}),
            (400, "validation_failed", ""),
        ),
        (
            "unknown member",
            json!({"name": "a", "size_bytes": 1, "sha256": "a".repeat(64), "x": 1}),
            (400, "validation_failed", ""),
        ),
        (
            "large",
            json!({"name": "a", "size_bytes": 101, "sha256": "a".repeat(64)}),
            (413, "payload_too_large", ""),
        ),
        (
            "quota",
            json!({"name": "a", "size_bytes": 21, "sha256": "a".repeat(64)}),
            (409, "conflict", "quota_exceeded"),
        ),
    ];
    for (name, body, problem) in rows {
        assert_eq!(create(&body, Uuid::now_v7()).problem(), problem, "{name}");
    }
    let key = Uuid::now_v7();
    let session = create(&announced("a.txt", "abcdef"), key).ok(201);
    assert_eq!(create(&announced("a.txt", "abcdef"), key), session);
    assert_eq!(create(&announced("b.txt", "abcdef"), key).problem(), (422, "idempotency_key_reuse", ""));
    let id = session.id("file_id");
    let put = |number: u32, bytes: &str| {
        part(world.person("PUT", &format!("/uploads/{id}/parts/{number}")), &session.body, bytes)
    };
    assert_eq!(put(1, "abc").send().status, 400, "wrong length");
    assert_eq!(put(1, "abcd").with("Content-Digest", "sha-256=:AAAA:").send().status, 400, "wrong digest");
    assert_eq!(put(1, "abcd").with("Upload-Part-Token", "x").send().status, 403, "without the part's header");
    assert_eq!(put(3, "ab").send().status, 404, "no such part");
    let first = put(1, "abcd").send().ok(200);
    assert_eq!(put(1, "abcX").send().problem(), (409, "conflict", "part_conflict"));
    let complete = |parts: Value| {
        let ask = world.person("POST", &format!("/uploads/{id}/complete")).key(Uuid::now_v7());
        ask.json(&json!({"parts": parts})).send()
    };
    let incomplete = (409, "conflict", "upload_incomplete");
    let one = json!({"part_number": 1, "etag": first.body["etag"]});
    assert_eq!(complete(json!([one])).problem(), incomplete);
    let second = put(2, "eX").send().ok(200);
    let two = json!({"part_number": 2, "etag": second.body["etag"]});
    assert_eq!(complete(json!([one, two])).problem(), incomplete, "whole, with another hash");
    let state = world.person("GET", &format!("/uploads/{id}")).send().ok(200);
    assert_eq!((&state.body["state"], state.body["parts"].as_array().unwrap().len()), (&json!("open"), 2));
    let abort = || world.person("DELETE", &format!("/uploads/{id}")).send();
    abort().ok(204);
    abort().ok(204);
    assert_eq!(put(1, "abcd").send().problem(), (410, "gone", ""));
    assert_eq!(complete(json!([one, two])).problem(), (410, "gone", ""));

    let person = |method: &str, path: &str| world.person(method, path);
    let whole = upload(&world, &person, "c.txt", "abcdef");
    assert_eq!(
        world.person("DELETE", &format!("/uploads/{whole}")).send().problem(),
        (409, "invalid_state_transition", "")
    );
    operator.change_settings(|settings| settings.upload_life = std::time::Duration::ZERO);
    let late = create(&announced("d.txt", "abcd"), Uuid::now_v7()).ok(201).id("file_id");
    assert_eq!(world.person("GET", &format!("/uploads/{late}")).send().body["state"], "expired");
}

#[test]
fn an_upload_belongs_to_its_run() {
    let world = World::new();
    let (_, run) = world.running();
    let (_, other) = world.running();
    let path = format!("/channels/{}/uploads", world.channel);
    let ask = world.agent("POST", &path).token(&run.token).key(Uuid::now_v7());
    let id = ask.json(&announced("a", "abcd")).send().ok(201).id("file_id");
    let get = |ask: Ask| ask.send().problem().0;
    assert_eq!(get(world.agent("GET", &format!("/uploads/{id}")).token(&run.token)), 200);
    assert_eq!(get(world.agent("GET", &format!("/uploads/{id}")).token(&other.token)), 404);
    assert_eq!(get(world.agent("GET", &format!("/uploads/{id}"))), 403);
    assert_eq!(get(world.person("GET", &format!("/uploads/{id}"))), 404);
}

#[test]
fn an_agent_uploads_only_where_its_person_may() {
    let world = World::new();
    let operator = world.server.operator();
    let robin = operator.add_person("Robin", true).unwrap();
    operator.set_may_upload(robin, false).unwrap();
    let thread = world.thread();
    let (_, became) = operator.post_as(thread, robin, "Send me a file.").unwrap();
    let crate::local::Became::Run(id) = became else { panic!("{became:?}") };
    let token = operator.newest_token(id).unwrap();
    let path = format!("/channels/{}/uploads", world.channel);
    let ask = world.agent("POST", &path).token(&token).key(Uuid::now_v7()).json(&announced("a", "abcd"));
    assert_eq!(ask.send().problem(), (403, "forbidden", "acting_for_insufficient"));
}

#[test]
fn a_file_on_no_message_goes_in_time() {
    let world = World::new();
    let person = |method: &str, path: &str| world.person(method, path);
    let operator = world.server.operator();
    let kept = upload(&world, &person, "kept.txt", "same bytes");
    post(&world, world.thread(), &[kept]).ok(201);
    operator.change_settings(|settings| settings.upload_life = std::time::Duration::from_millis(1500));
    let same = upload(&world, &person, "same.txt", "same bytes");
    let other = upload(&world, &person, "other.txt", "other bytes");
    let expired = |id: Uuid| {
        let begun = std::time::Instant::now();
        while world.person("GET", &format!("/uploads/{id}")).send().body["state"] != "expired" {
            assert!(begun.elapsed() < crate::local::testing::SOON);
        }
    };
    expired(same);
    expired(other);
    assert_eq!(operator.file_bytes(kept).unwrap(), b"same bytes");
    let gone = || operator.file_bytes(other).is_err();
    let begun = std::time::Instant::now();
    while !gone() {
        assert!(begun.elapsed() < crate::local::testing::SOON);
        std::thread::yield_now();
    }
}

#[test]
fn an_abort_that_meets_a_part_leaves_nothing_of_it() {
    /// The two must meet between a look at the session and the part's place; one round in a few does.
    const ROUNDS: usize = 200;
    let world = World::new();
    let announce = |bytes: &str| {
        let path = format!("/channels/{}/uploads", world.channel);
        let ask = world.person("POST", &path).key(Uuid::now_v7()).json(&announced("a.txt", bytes));
        ask.send().ok(201).body
    };
    for round in 0..ROUNDS {
        let bytes = format!("round {round}");
        let session = announce(&bytes);
        let id = session["file_id"].as_str().unwrap();
        let put = part(world.person("PUT", &format!("/uploads/{id}/parts/1")), &session, &bytes);
        let abort = world.person("DELETE", &format!("/uploads/{id}"));
        let putting = std::thread::spawn(move || put.send().status);
        abort.send().ok(204);
        assert!([200, 410].contains(&putting.join().unwrap()));
        let left: Vec<_> = std::fs::read_dir(world.dir.join("data/parts")).unwrap().collect();
        assert!(left.is_empty(), "round {round}");
    }
}
