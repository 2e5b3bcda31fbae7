//! Reloads, restarts, dropped lines, two tabs, long threads: nothing lost, nothing doubled.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::message::Origin;
use serde_json::json;

use super::visitor::Visitor;
use super::webdriver::{DESKTOP, PHONE};
use crate::support::wait::eventually;
use crate::support::world::World;

/// Messages of the long thread.
const MANY: usize = 1_000;
/// Longest time between two frames that still feels fluid on a loaded machine with two cores, milliseconds.
const FRAME_MAX: f64 = 500.0;

fn holding(world: &World) {
    world.claude.steps(json!([
        {"text": "half"},
        {"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "go"}]}},
        {"text": "the whole answer"}]));
}

#[test]
fn a_reload_in_the_middle_of_a_run_shows_the_same_run() {
    let world = World::new();
    holding(&world);
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    visitor.browser.reload();
    visitor.is_live();
    visitor.sees("li[data-state=running] .step", "wait");
    visitor.sees(".excerpt", "half");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
    assert_eq!((visitor.count(".message"), visitor.count(".run")), (2, 1));
}

#[test]
fn the_newest_text_and_step_are_in_view_also_after_a_reload() {
    let world = World::new();
    let mut steps: Vec<_> = (0..40)
        .map(|number| json!({"tool": {"name": "Bash", "input": {"command": format!("step {number}")}, "output": "ok"}}))
        .collect();
    steps.push(json!({"text": format!("{}the newest words", "word ".repeat(90))}));
    steps.push(json!({"tool": {"name": "Bash", "input": {"command": "wait"}, "do": [{"mark": "busy"}, {"hold": "go"}]}}));
    world.claude.steps(json!(steps));
    let Some(visitor) = Visitor::at(&world, PHONE) else { return };
    visitor.says("Begin");
    let at_end = |selector: &str| {
        let place = format!("document.querySelector('{selector}')");
        let left = format!("{place}.scrollHeight - {place}.scrollTop - {place}.clientHeight");
        visitor.browser.until(&format!("{place}.scrollTop > 0 && {left} < 30"));
    };
    for _ in 0..2 {
        visitor.sees("li[data-state=running] .step", "wait");
        visitor.sees(".excerpt", "the newest words");
        at_end(".excerpt");
        at_end(".steps-frame");
        visitor.browser.reload();
        visitor.is_live();
    }
    let steps = visitor.texts(".step-title");
    let order: Vec<_> = (0..40).map(|number| format!("step {number}")).chain(["wait".to_owned()]).collect();
    assert_eq!(steps, order, "in the order in which they began");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
}

#[test]
fn a_server_restarted_in_the_middle_of_a_run_loses_and_doubles_nothing() {
    let mut world = World::new();
    holding(&world);
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    world.server.stop();
    visitor.sees("#banner", "The server cannot be reached");
    visitor.says("written while it was away");
    visitor.sees(".pending", "Is sent when the server is back");
    world.restart_server();
    visitor.sees("#banner", "The terminal shows a new address");
    visitor.browser.go(&world.server.page_address());
    visitor.is_live();
    visitor.browser.until("document.querySelectorAll('.pending').length === 0");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
    let thread = visitor.thread();
    eventually("both messages have an answer", || {
        let open = visitor.count(".run:not([data-state=completed])");
        (open == 0 && visitor.count(".message.own") == 2).then_some(())
    });
    let written = visitor.texts(".message.own .content");
    assert_eq!(
        written.iter().map(|text| text.trim()).collect::<Vec<_>>(),
        ["Begin", "written while it was away"]
    );
    let known = world.person.messages(thread);
    let shown = visitor.count(".message");
    assert_eq!(shown, known.len() as u64);
}

#[test]
fn a_message_whose_answer_is_lost_is_sent_once() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    world.hooks.next("postMessage", Fault::DoneThenCut);
    visitor.says("once");
    visitor.sees(".run[data-state=completed]", "Done");
    let thread = visitor.thread();
    assert_eq!(world.person.messages(thread).len(), 2);
    visitor.browser.until("document.querySelectorAll('.pending').length === 0");
    assert_eq!(visitor.texts(".message.own .content"), ["once"]);
    assert!(world.hooks.count("postMessage") >= 2);
}

#[test]
fn dropped_polls_are_taken_up_where_they_ended() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Begin");
    visitor.sees(".run[data-state=completed]", "Done");
    let thread = visitor.thread();
    world.hooks.always("pollChanges", Fault::DoneThenCut);
    for number in 0..5 {
        world
            .server
            .operator()
            .add_message(thread, alex(&world), Origin::Chat, &format!("news {number}"))
            .unwrap();
    }
    visitor.sees("#banner", "The server cannot be reached");
    world.hooks.clear();
    visitor.sees(".message", "news 4");
    let news: Vec<String> =
        visitor.texts(".message .content").into_iter().filter(|text| text.starts_with("news")).collect();
    assert_eq!(news, ["news 0", "news 1", "news 2", "news 3", "news 4"]);
    visitor.browser.until("document.querySelector('#banner').hidden");
}

fn alex(world: &World) -> uuid::Uuid {
    world.server.operator().add_person("Alex", true).unwrap()
}

#[test]
fn two_tabs_show_the_same() {
    let world = World::new();
    holding(&world);
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("from the first tab");
    let thread = visitor.thread();
    let first = visitor.browser.tab();
    visitor.browser.new_tab();
    visitor.browser.go(&format!("{}/#/t/{thread}", world.server.url()));
    visitor.is_live();
    visitor.sees(".message.own", "from the first tab");
    eventually("the tool works", || world.claude.reached("busy").then_some(()));
    visitor.says("from the second tab");
    visitor.sees(".followup", "The agent has it");
    visitor.browser.switch(&first);
    visitor.sees(".message.own", "from the second tab");
    world.claude.release("go");
    visitor.sees(".run[data-state=completed]", "Done");
    assert_eq!(visitor.count(".message.own"), 2);
}

#[test]
fn a_thread_of_a_thousand_messages_stays_fluid() {
    let world = World::new();
    let thread = world.thread();
    let alex = alex(&world);
    for number in 0..MANY {
        let text = format!("message {number}\n\n- one\n- two\n\n```\ncode {number}\n```");
        world.server.operator().add_message(thread, alex, Origin::Chat, &text).unwrap();
    }
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.browser.go(&format!("{}/#/t/{thread}", world.server.url()));
    visitor.sees(".message", &format!("message {}", MANY - 1));
    let frames = "window.frames_seen = []; let last = performance.now();
        const look = (now) => { window.frames_seen.push(now - last); last = now; requestAnimationFrame(look); };
        requestAnimationFrame(look);";
    visitor.browser.run(frames, json!([]));
    eventually("every message is loaded", || {
        visitor.browser.run("document.querySelector('#scroll').scrollTop = 0", json!([]));
        (visitor.count(".message") == MANY as u64).then_some(())
    });
    visitor
        .browser
        .run("document.querySelector('#scroll').scrollTop = 1e9; window.frames_seen.length = 0", json!([]));
    visitor.says("one more");
    visitor.sees(".run[data-state=completed]", "Done");
    let mut gaps: Vec<f64> = serde_json::from_value(visitor.browser.value("window.frames_seen")).unwrap();
    gaps.sort_by(f64::total_cmp);
    let usual = gaps[gaps.len() * 9 / 10];
    assert!(usual < FRAME_MAX, "nine of ten frames take up to {usual} ms");
    assert_eq!(visitor.count(".message"), MANY as u64 + 2);
}
