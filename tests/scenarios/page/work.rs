//! What a person does: files in, live steps, files out, follow-ups, Stop, titles, permissions.

use std::io::{Cursor, Write};

use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::visitor::{ENTER, Visitor};
use super::webdriver::DESKTOP;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Orders as a table in an archive.
pub fn orders_zip() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("orders.csv", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"order,quantity,total\n1,2,10\n2,3,20\n3,4,30\n").unwrap();
    archive.finish().unwrap().into_inner()
}

/// Steps that unpack the archive, stop at a marker, and give three files.
fn three_files() -> serde_json::Value {
    json!([
        {"text": "I unpack the archive first."},
        {"tool": {"name": "Bash", "input": {"command": "unzip orders.zip"}, "do": [
            {"find": {"name": "orders.zip", "below": "{{add_dir}}", "as": "archive"}},
            {"unzip": {"from": "{{out.archive}}", "to": "{{tmpdir}}/orders"}}]}},
        {"tool": {"name": "Read", "input": {"file_path": "orders.csv"}, "is_error": true, "output": "no such file"}},
        {"tool": {"name": "Bash", "input": {"command": "sum the table"}, "do": [
            {"mark": "busy"}, {"hold": "go"},
            {"find": {"name": "*.csv", "below": "{{tmpdir}}/orders", "as": "table"}},
            {"sum_csv": {"from": "{{out.table}}", "columns": ["quantity", "total"]}},
            {"write": {"path": "{{tmpdir}}/summary.csv", "content": "rows,total\n{{out.rows}},{{out.total}}\n"}},
            {"write": {"path": "{{tmpdir}}/report.txt", "content": "{{out.rows}} orders\n"}},
            {"zip": {"to": "{{tmpdir}}/result.zip", "files": ["{{tmpdir}}/summary.csv", "{{tmpdir}}/report.txt"]}}]}},
        {"text": "| orders | total |\n|---|---:|\n| {{out.rows}} | {{out.total}} |\n\nATTACH: {{tmpdir}}/summary.csv\nATTACH: {{tmpdir}}/report.txt\nATTACH: {{tmpdir}}/result.zip"}
    ])
}

#[test]
fn an_archive_goes_in_and_three_files_come_out() {
    let world = World::new();
    world.claude.steps(three_files());
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    let shifts = "new PerformanceObserver((list) => list.getEntries().forEach((one) => {
        if (!one.hadRecentInput) window.shifted = (window.shifted ?? 0) + one.value;
      })).observe({ type: 'layout-shift' })";
    visitor.drops(&[("orders.zip", &orders_zip()), ("not-wanted.txt", b"x")]);
    visitor.files_are_ready(2);
    visitor.browser.click(".chip:last-child button");
    visitor.files_are_ready(1);
    visitor.says("What is in the archive?");
    visitor.sees(".run[data-state=running] .run-state", "Working");
    visitor.browser.run(shifts, json!([]));
    eventually("the third step works", || world.claude.reached("busy").then_some(()));
    visitor.sees("li[data-state=running] .step", "sum the table");
    visitor.sees("li[data-state=completed] .step", "unzip orders.zip");
    visitor.sees("li[data-state=failed] .step", "Read");
    visitor.sees(".excerpt", "I unpack the archive first.");
    visitor.sees(".run header", "claude-sonnet-4-5");
    visitor.sees(".run[data-state=running] .numbers", "tokens (");
    visitor.sees(".run[data-state=running] .numbers", "cost at the end");
    let shifted = visitor.browser.value("window.shifted ?? 0").as_f64().unwrap();
    assert!(shifted < 0.1, "the layout moved by {shifted} while the text and the steps came");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
    visitor.sees(".content td.right", "60");

    let answer = world.answers(visitor.thread()).pop().unwrap();
    assert_eq!(answer.attachments.len(), 3);
    let place = visitor.browser.downloads();
    for (number, file) in answer.attachments.iter().enumerate() {
        visitor.browser.click(&format!(".message:not(.own) .file:nth-child({}) a[download]", number + 1));
        let saved = place.join(&file.name);
        let whole = || std::fs::read(&saved).ok().filter(|bytes| bytes.len() as u64 == file.size_bytes);
        assert_eq!(eventually("the download is there", whole), world.person.downloads(file.file_id));
    }
    visitor.browser.click(".message:not(.own) .file button");
    visitor.sees("dialog td.right", "60");
    visitor.browser.types("dialog button", "\u{E00C}");
    visitor.browser.until("!document.querySelector('dialog')");
    visitor.browser.click("#cost");
    visitor.sees("dialog svg text", "$");
    visitor.has_no_complaint();
}

#[test]
fn a_message_during_the_run_is_a_follow_up_with_its_state() {
    let world = World::new();
    world.claude.plays(&json!({"turns": [{"steps": [
        {"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "go"}]}},
        {"text": "both done"}]}]}));
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    visitor.sees("#send", "Follow up");
    visitor.says("And this too");
    visitor.sees(".followup", "The agent has it");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
    let ends = ["Answered", "Taken into the work"];
    eventually("the follow-up ends", || {
        visitor
            .texts(".followup:not([hidden])")
            .iter()
            .any(|text| ends.contains(&text.as_str()))
            .then_some(())
    });
}

#[test]
fn stop_ends_the_run_and_the_page_says_who_did_it() {
    let world = World::new();
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "never"}]}}]));
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    visitor.browser.click(".run .stop");
    visitor.sees(".run[data-state=cancelled] .why", "You stopped it.");
    let run = world.person.get::<serde_json::Value>(&format!("threads/{}/runs", visitor.thread()));
    assert_eq!(run["runs"][0]["state"], json!(RunState::Cancelled));
    assert_eq!(visitor.count(".stop:not([hidden])"), 0);
}

#[test]
fn a_waiting_run_shows_its_place_and_can_be_stopped_with_the_keyboard() {
    let setup = Setup { runner: vec!["max_parallel_runs = 1".into()], ..Setup::default() };
    let world = World::with(setup);
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "go"}]}}]));
    let (_, first) = world.asks("first");
    eventually("the first works", || world.claude.reached("busy").then_some(()));
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.browser.alt("n");
    visitor.sees("h1", "New thread");
    visitor.says("second");
    visitor.sees(".run[data-state=queued] .status-line", "1 ahead");
    visitor.browser.alt("s");
    visitor.sees(".run[data-state=cancelled]", "You stopped it.");
    world.claude.release("go");
    world.ends_as(first, RunState::Completed, None);
}

#[test]
fn a_failed_run_says_what_to_do() {
    let world = World::new();
    world.claude.steps(json!([{"exit": 3}]));
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    visitor.sees(".run[data-state=failed] .why", "Send the message again");
}

#[test]
fn titles_and_permissions_are_changed_where_they_are_shown() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Hello");
    visitor.sees(".run[data-state=completed]", "Done");
    visitor.browser.click("#rename");
    visitor.browser.types("#names input", &format!("My own title{ENTER}"));
    visitor.sees("#projects .title", "My own title");
    visitor.browser.click("#write");
    visitor.sees("#revision", "Revision ");
    visitor.browser.click(".switch input");
    visitor.browser.until("document.querySelector('.switch input').checked");
    visitor.sees("#write", "Writing on");
    let projects: serde_json::Value = world.person.get("projects");
    assert_eq!(projects["projects"][0]["workspace_write"], true);
    visitor.sees("#revision", &format!("Revision {}", projects["projects"][0]["grant_revision"]));
    visitor.has_no_complaint();
}

#[test]
fn a_title_being_changed_stays_with_its_thread_when_another_is_shown() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    let titles = ["older", "newer"];
    for title in titles {
        visitor.browser.alt("n");
        visitor.sees("h1", "New thread");
        visitor.says(title);
        visitor.sees(".run[data-state=completed]", "Done");
        visitor.browser.click("#rename");
        visitor.browser.types("#names input", &format!("{title}{ENTER}"));
        visitor.sees("#projects .title", title);
        visitor.browser.until("!document.querySelector('#names input')");
    }
    visitor.browser.click("#rename");
    visitor.browser.types("#names input", "newest");
    visitor.browser.run("location.hash = document.querySelectorAll('#projects li a')[1].hash", json!([]));
    visitor.sees("h1", "older");
    visitor.sees("#projects .title", "newest");
    assert_eq!(visitor.count("#names input"), 0);
    assert_eq!(visitor.texts("#projects .title"), ["newest", "older"]);
}

/// A file beyond what the browser digests at once goes through the page's own SHA-256, also around the edges of its
/// blocks and pieces.
#[test]
fn the_digest_of_a_large_file_is_the_browsers_own() {
    let world = World::without_runner(Setup::default());
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    let script = "return (async () => {
        const { fileDigest } = await import('/page/sha256.js');
        const wrong = [];
        for (const size of [1, 55, 56, 63, 64, 65, 119, 120, 4194303, 4194304, 4194305]) {
          const file = new Blob([Uint8Array.from({ length: size }, (_, at) => at * 7 + (at >> 8))]);
          if (await fileDigest(file, undefined, 0) !== await fileDigest(file)) wrong.push(size);
        }
        return wrong;
      })()";
    assert_eq!(visitor.browser.run(script, json!([])), json!([]));
}
