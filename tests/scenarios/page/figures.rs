//! The page's figures: weight, first paint, and how soon a step shows. With `SHOW_PAGE_FIGURES=1` they are printed.

use std::io::Write;
use std::time::UNIX_EPOCH;

use serde_json::json;

use super::visitor::Visitor;
use super::webdriver::DESKTOP;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Most bytes of the whole page on the wire.
const WEIGHT_MAX: u64 = 100_000;
/// Longest time to the first paint on a machine that does much else, milliseconds; the aim is a tenth of it.
const PAINT_MAX: f64 = 5_000.0;
/// Longest way of a step from the stream to the page on such a machine, milliseconds; the aim is 200.
const STEP_MAX: f64 = 3_000.0;
/// Least time between two patches, as `local` sets it.
const PATCH_INTERVAL: &str = "100ms";
/// Steps that are measured.
const STEPS: usize = 10;

fn show(name: &str, value: f64, unit: &str) {
    if std::env::var_os("SHOW_PAGE_FIGURES").is_some() {
        let _ = std::io::stderr().write_all(format!("figure {name} {value:.0} {unit}\n").as_bytes());
    }
}

#[test]
fn the_page_is_light_and_paints_at_once() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.browser.until("performance.getEntriesByName('first-contentful-paint').length > 0");
    let paint = visitor.browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    let parts = "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource')
        .filter((one) => one.name.includes('/page/')))";
    let sum =
        |size: &str| visitor.browser.value(&format!("{parts}.reduce((sum, one) => sum + one.{size}, 0)"));
    let weight = sum("encodedBodySize");
    show("page_weight", weight.as_f64().unwrap(), "bytes");
    show("page_weight_unpacked", sum("decodedBodySize").as_f64().unwrap(), "bytes");
    show("first_paint", paint.as_f64().unwrap(), "ms");
    assert!(weight.as_u64().unwrap() > 0 && weight.as_u64().unwrap() <= WEIGHT_MAX, "{weight}");
    assert!(paint.as_f64().unwrap() < PAINT_MAX, "{paint}");
}

/// Each tool writes its marker when its line is in the stream; the page notes when it shows the step.
#[test]
fn a_step_shows_soon_after_its_line() {
    let world = World::with(Setup { patch_interval: PATCH_INTERVAL, ..Setup::default() });
    let steps: Vec<_> = (0..STEPS)
        .map(|number| {
            let work = json!([{"mark": format!("line-{number}")}, {"hold": format!("go-{number}")}]);
            json!({"tool": {"name": "Bash", "input": {"command": format!("step {number}")}, "do": work}})
        })
        .collect();
    world.claude.steps(json!(steps));
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    let watch = "window.shown = {}; new MutationObserver(() => {
          for (const one of document.querySelectorAll('.step-title')) window.shown[one.textContent] ??= Date.now();
        }).observe(document.querySelector('#messages'), { subtree: true, childList: true, characterData: true });";
    visitor.browser.run(watch, json!([]));
    visitor.says("Begin");
    let mut delays: Vec<f64> = (0..STEPS).map(|number| delay(&world, &visitor, number)).collect();
    delays.sort_by(f64::total_cmp);
    let (middle, worst) = (delays[STEPS / 2], delays[STEPS - 1]);
    show("step_delay_median", middle, "ms");
    show("step_delay_worst", worst, "ms");
    assert!(middle < STEP_MAX, "{delays:?}");
}

fn delay(world: &World, visitor: &Visitor, number: usize) -> f64 {
    let marker = format!("line-{number}");
    eventually("the line is written", || world.claude.reached(&marker).then_some(()));
    let path = world.claude.program().with_file_name(&marker);
    let written = std::fs::metadata(path).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let seen = format!("window.shown['step {number}']");
    visitor.browser.until(&seen);
    world.claude.release(&format!("go-{number}"));
    visitor.browser.value(&seen).as_f64().unwrap() - written.as_secs_f64() * 1000.0
}
