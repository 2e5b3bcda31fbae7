//! The tracer of the decision on attachments, on real bytes: an archive in, three files out.

use std::io::{Cursor, Read, Write};

use serde_json::{Value, json};

use super::world::{answer, completes, grant, limit, names, nothing_left};
use crate::support::world::World;

/// Three rows whose quantities sum to seven and whose totals sum to sixty.
const ORDERS: &str = "order,quantity,total\n1001,1,10\n1002,2,20\n1003,4,30\n";

fn archive() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("orders.csv", options).unwrap();
    zip.write_all(ORDERS.as_bytes()).unwrap();
    zip.finish().unwrap().into_inner()
}

fn entry(archive: &[u8], name: &str) -> String {
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut text = String::new();
    zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// What the turn does, with its results below `out`.
fn steps(out: &str) -> Value {
    let at = |name: &str| format!("{out}/{name}");
    let summary = "rows,quantity,total\n{{out.rows}},{{out.quantity}},{{out.total}}\n";
    let report = "{{out.rows}} orders, {{out.quantity}} pieces, {{out.total}} in total.\n";
    json!([
        {"tool": {"name": "Bash", "input": {"command": "unzip orders.zip"}, "do": [
            {"find": {"name": "orders.zip", "below": "{{add_dir}}", "as": "zip"}},
            {"unzip": {"from": "{{out.zip}}", "to": "{{tmpdir}}/unpacked"}},
            {"sum_csv": {"from": "{{tmpdir}}/unpacked/orders.csv", "columns": ["quantity", "total"]}}
        ]}},
        {"do": [
            {"write": {"path": at("summary.csv"), "content": summary}},
            {"write": {"path": at("report.txt"), "content": report}},
            {"zip": {"to": at("result.zip"), "files": [at("summary.csv"), at("report.txt")]}}
        ]},
        {"text": format!("Three results.\nATTACH: {out}/summary.csv\nATTACH: {out}/report.txt\nATTACH: {out}/result.zip")}
    ])
}

fn check(world: &World, out: &str) {
    let sent = archive();
    let original = world.person.uploads(world.channel(), "orders.zip", &sent);
    world.claude.steps(steps(out));
    let thread = world.thread();
    let run = world.person.says_with(thread, "Sum up the orders", &[original]).run_id.unwrap();
    completes(world, run);

    let answer = answer(world, thread);
    assert_eq!(names(&answer), ["summary.csv", "report.txt", "result.zip"]);
    assert_eq!(answer.content_md, "Three results.");
    let got: Vec<Vec<u8>> =
        answer.attachments.iter().map(|file| world.person.downloads(file.file_id)).collect();
    assert_eq!(String::from_utf8_lossy(&got[0]), "rows,quantity,total\n3,7,60\n");
    assert_eq!(String::from_utf8_lossy(&got[1]), "3 orders, 7 pieces, 60 in total.\n");
    assert_eq!(entry(&got[2], "summary.csv").as_bytes(), got[0]);
    assert_eq!(entry(&got[2], "report.txt").as_bytes(), got[1]);

    // The bytes a person sent stay as they were, and every result is a file of its own.
    assert_eq!(world.person.downloads(original), sent);
    let inbox = world.state().join("files").join(thread.to_string()).join(original.to_string());
    assert_eq!(std::fs::read(inbox.join("orders.zip")).unwrap(), sent);
    let mut ids: Vec<_> = answer.attachments.iter().map(|file| file.file_id).chain([original]).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    nothing_left(world);
}

/// Without the write permission the results stand in the run's temporary directory (IN-8).
#[test]
fn the_tracer_without_write_permission() {
    let world = World::new();
    limit(&world);
    check(&world, "{{tmpdir}}");
    let argv = world.claude.argvs().remove(0);
    let allowed = argv.iter().find(|arg| arg.contains("Write(//")).unwrap();
    assert!(allowed.contains("tmp/"), "{allowed}");
    assert!(!argv.iter().any(|arg| arg.contains("Edit(./**)")), "{argv:?}");
}

/// With it they stand in the project.
#[test]
fn the_tracer_with_write_permission() {
    let world = World::new();
    limit(&world);
    grant(&world, &json!({"workspace_write": true}));
    std::fs::create_dir(world.project().join("results")).unwrap();
    check(&world, "results");
    assert!(world.project().join("results/result.zip").exists());
    let argv = world.claude.argvs().remove(0);
    assert!(argv.iter().any(|arg| arg.contains("Edit(./**)")), "{argv:?}");
}
