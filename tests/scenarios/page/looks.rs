//! How the page looks: a work day's thread at desktop and phone width, light and dark. Nothing may be wider than the
//! window. With `UPDATE_PAGE_PICTURES=1` the pictures below `fixtures/page` are taken anew.

use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::visitor::Visitor;
use super::webdriver::{DESKTOP, Look, PHONE};
use super::work::orders_zip;
use crate::support::source;
use crate::support::wait::eventually;
use crate::support::world::World;

const LOOKS: &[(&str, Look)] = &[
    ("desktop-light", DESKTOP),
    ("desktop-dark", Look { dark: true, ..DESKTOP }),
    ("phone-light", PHONE),
    ("phone-dark", Look { dark: true, ..PHONE }),
];

fn play(world: &World) {
    world.claude.plays(&json!({"turns": [
        {"when": {"text": "orders.zip"}, "title": "Totals of the shop", "steps": [
            {"tool": {"name": "Bash", "input": {"command": "unzip orders.zip"}, "output": "ok"}},
            {"do": [{"write": {"path": "{{tmpdir}}/summary.csv", "content": "rows,total\n3,60\n"}}]},
            {"text": "The archive holds **3 orders** for 60 in all.\n\n| File | Rows | Total |\n|---|---:|---:|\n| `orders.csv` | 3 | 60 |\n\n```ts\nexport const total = (items: Item[]) => items.reduce((sum, item) => sum + item.price, 0);\n```\n\nATTACH: {{tmpdir}}/summary.csv"}]},
        {"steps": [
            {"tool": {"name": "Grep", "input": {"pattern": "discount"}, "output": "3 files"}},
            {"tool": {"name": "Bash", "input": {"command": "npm test -- orders"}, "output": "2 failed", "is_error": true}},
            {"api_retry": {"attempt": 2, "max_retries": 10, "retry_delay_ms": 1800, "error": "overloaded", "error_status": 529}},
            {"text": "The sum ignores the discount. I keep the amounts in cents and run the tests again."},
            {"tool": {"name": "Edit", "input": {"file_path": "src/orders/total.ts"}, "output": "edited"}},
            {"tool": {"name": "Bash", "input": {"command": "npm test"}, "do": [{"mark": "busy"}, {"hold": "go"}]}},
            {"text": "Done."}]}]}));
}

#[test]
fn nothing_is_wider_than_its_window_in_any_look() {
    let world = World::new();
    play(&world);
    let thread = world.thread();
    let file = world.person.uploads(world.channel(), "orders.zip", &orders_zip());
    let first = world.person.says_with(thread, "What is in orders.zip?", &[file]).run_id.unwrap();
    world.ends_as(first, RunState::Completed, None);
    let second =
        world.person.says(thread, "The totals of the shop are wrong. Please repair them.").run_id.unwrap();
    eventually("the second run works", || world.claude.reached("busy").then_some(()));
    for (name, look) in LOOKS {
        let Some(visitor) = Visitor::at(&world, *look) else { return };
        visitor.sees("li[data-state=running] .step", "npm test");
        visitor.sees("h1", "Totals of the shop");
        fits(&visitor, name);
        keep(name, &visitor);
        visitor.browser.alt("c");
        visitor.sees("dialog", "Costs of this thread");
        fits(&visitor, name);
        if !look.dark {
            keep(&format!("{name}-costs"), &visitor);
        }
    }
    world.claude.release("go");
    world.ends_as(second, RunState::Completed, None);
}

fn fits(visitor: &Visitor, name: &str) {
    let over = visitor.browser.value("document.documentElement.scrollWidth - innerWidth");
    assert_eq!(over, 0, "{name}");
}

fn keep(name: &str, visitor: &Visitor) {
    if std::env::var_os("UPDATE_PAGE_PICTURES").is_some() {
        let place = source::root().join("fixtures/page");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(format!("{name}.png")), visitor.browser.picture()).unwrap();
    }
}

/// Controls without a name, doubled ids, fields without a label: what a screen reader would stumble over.
const NAMELESS: &str = "[...document.querySelectorAll('button, a, input:not([hidden]), textarea, meter, progress, img')].filter((one) =>
    one.checkVisibility() && !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length || one.hasAttribute('alt')))
    .map((one) => one.outerHTML).concat([...document.querySelectorAll('[id]')].filter((one) =>
    document.querySelectorAll(`#${one.id}`).length > 1).map((one) => one.id))";

#[test]
fn everything_has_a_name_and_a_place_in_the_order_of_the_tab_key() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.drops(&[("orders.zip", &orders_zip())]);
    visitor.files_are_ready(1);
    assert_eq!(visitor.browser.value(NAMELESS), json!([]));
    visitor.says("What is in it?");
    visitor.sees(".run[data-state=completed]", "Done");
    assert_eq!(visitor.browser.value(NAMELESS), json!([]));
    for key in ["r", "c"] {
        visitor.browser.alt(key);
        visitor.browser.until("document.querySelector('dialog[open]')");
        assert_eq!(visitor.browser.value(NAMELESS), json!([]));
        visitor.browser.types("dialog button", "\u{E00C}");
        visitor.browser.until("!document.querySelector('dialog')");
    }
    let unreachable =
        "[...document.querySelectorAll('button, a, textarea')].filter((one) => one.tabIndex < 0).length";
    assert_eq!(visitor.browser.value(unreachable), 0);
    visitor.browser.alt("w");
    visitor.browser.until("document.activeElement.id === 'text'");
    visitor.says("Hello");
    visitor.browser.until("document.querySelectorAll('.run[data-state=completed]').length === 2");
}

#[test]
fn the_runner_says_what_is_wrong_and_what_to_do() {
    let world = World::without_runner(Default::default());
    world.claude.plays(&json!({"version": "2.1.999", "turns": []}));
    let mut world = world;
    world.start_runner();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.sees("#runner", "Runner degraded");
    visitor.browser.click("#runner");
    visitor.sees("dialog .reason", "install the tested version");
    let pinned = claude_code_runner::claude::version::PINNED_CLAUDE_CODE_VERSION;
    visitor.sees("dialog dd", &format!("2.1.999, tested with {pinned}"));
    visitor.sees("dialog dd", "ready");
}
