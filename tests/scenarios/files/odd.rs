//! Answers of a faulty or hostile server to the upload of a file: the answer of the turn still comes, once, and
//! says that its file did not.

use claude_code_runner::local::hooks::Fault;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{answer, answers, completes, names, nothing_leaked, of_agent, put, world};
use crate::support::world::World;

/// What is told of a file whose upload came to no end.
const FAILED: &str = "Here.\n\nAttachments not sent:\n- `a.txt`: upload_failed";

/// Content of the file of these rows.
const CONTENT: &str = "0123456789";

/// A session of one part for the file of these rows, with some members replaced.
fn session(change: Value) -> String {
    let mut session = json!({
        "file_id": Uuid::now_v7(), "mode": "direct", "part_size_bytes": 1000,
        "parts": [{"part_number": 1, "headers": []}], "expires_at": "2100-01-01T00:00:00.000Z",
    });
    session.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    session.to_string()
}

/// The only answer, with `operation` answered by `body` each time.
#[track_caller]
fn told(world: &World, operation: &str, body: &str) -> String {
    put(world, "a.txt", CONTENT);
    answers(world, "Here.\nATTACH: a.txt");
    world.hooks.always(operation, Fault::DoneThenBody(body.to_owned()));
    let (thread, run) = world.asks("Send it");
    completes(world, run);
    world.hooks.clear();
    let told = answer(world, thread);
    assert_eq!(names(&told), Vec::<&str>::new(), "{body}");
    told.content_md
}

#[test]
fn sessions_that_do_not_fit_are_not_used() {
    let parts = |numbers: &[u32]| {
        let parts: Vec<Value> = numbers.iter().map(|number| json!({"part_number": number})).collect();
        json!({"parts": parts})
    };
    let rows = [
        ("no parts", parts(&[])),
        ("a part twice", parts(&[1, 1])),
        ("a part too many", parts(&[1, 2])),
        ("from zero", parts(&[0])),
        ("another number", parts(&[7])),
        ("no length", json!({"part_size_bytes": 0})),
        ("a length below the file's with one part", json!({"part_size_bytes": 5})),
        ("a length above any memory", json!({"part_size_bytes": u64::MAX})),
        ("a negative length", json!({"part_size_bytes": -1})),
        (
            "presigned, at another origin",
            json!({"mode": "presigned", "parts": [
            {"part_number": 1, "url": "https://other.example.com/put", "headers": []}]}),
        ),
        ("a mode of tomorrow", json!({"mode": "carrier_pigeon"})),
        ("a path for an id", json!({"file_id": "../../me"})),
        ("no id", json!({"file_id": null})),
        ("no date", json!({"expires_at": "soon"})),
    ];
    let world = world();
    for (what, change) in rows {
        assert_eq!(told(&world, "createUpload", &session(change)), FAILED, "{what}");
        assert!(of_agent(&world, "uploadPart").is_empty(), "{what}: no byte leaves");
    }
    nothing_leaked(&world, false);
}

/// A session that is nobody's: the server says so at the first part, and nothing is made anew in a circle.
#[test]
fn a_session_that_is_not_there_is_told() {
    let world = world();
    let text = told(&world, "createUpload", &session(json!({"expires_at": "2001-01-01T00:00:00.000Z"})));
    assert_eq!(text, "Here.\n\nAttachments not sent:\n- `a.txt`: upload_refused (not_found)");
    assert_eq!((of_agent(&world, "createUpload").len(), of_agent(&world, "uploadPart").len()), (1, 1));
}

#[test]
fn answers_to_parts_and_completions_that_do_not_fit_end_the_upload() {
    let file = |change: Value| {
        let mut file = json!({"file_id": Uuid::now_v7(), "name": "a.txt", "size_bytes": CONTENT.len(),
            "sha256": "0".repeat(64), "mime_type": "text/plain", "scan_status": "skipped"});
        file.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        file.to_string()
    };
    let rows = [
        ("uploadPart", json!({"part_number": 2, "etag": "e"}).to_string()),
        ("uploadPart", json!({"part_number": 1}).to_string()),
        ("uploadPart", json!({"part_number": 1, "etag": "e".repeat(2000)}).to_string()),
        ("uploadPart", json!({"part_number": 1, "etag": {"a": "b"}}).to_string()),
        ("uploadPart", "[]".to_owned()),
        ("completeUpload", file(json!({}))),
        ("completeUpload", file(json!({"size_bytes": 0}))),
        ("completeUpload", "null".to_owned()),
    ];
    let world = world();
    for (operation, body) in rows {
        assert_eq!(told(&world, operation, &body), FAILED, "{operation} {body}");
    }
    nothing_leaked(&world, true);
}
