//! The first visit and the end of a session.

use serde_json::json;

use super::visitor::Visitor;
use super::webdriver::{Browser, DESKTOP};
use crate::support::world::World;

#[test]
fn the_first_visit_trades_the_secret_and_hides_it() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    let secret = world.server.page_address().split('#').nth(1).unwrap().to_owned();
    let address = visitor.browser.value("location.href");
    assert!(!address.as_str().unwrap().contains(&secret), "{address}");
    assert_eq!(visitor.browser.value("document.cookie"), "", "no script may read the session");
    let kept = visitor.browser.value("JSON.stringify([{...localStorage}, {...sessionStorage}])");
    assert!(!kept.as_str().unwrap().contains(&secret), "{kept}");
    visitor.sees("#projects h2", "website");
    visitor.sees("#runner", "Runner online");
    visitor.browser.reload();
    visitor.is_live();
    visitor.has_no_complaint();
}

#[test]
fn a_wrong_secret_says_how_to_get_a_right_one() {
    let world = World::new();
    let Some(browser) = Browser::open(DESKTOP) else { return };
    let visitor = Visitor { browser };
    visitor.browser.go(&format!("{}/#wrong-secret-that-is-long-enough", world.server.url()));
    visitor.sees("#banner", "The terminal shows a new address");
    assert_eq!(visitor.count("#projects section"), 0);
    visitor.browser.run("document.querySelector('#notes').replaceChildren()", json!([]));
    visitor.browser.types("#address", "something else from the clipboard");
    visitor.browser.click("#paste-address button");
    visitor.sees("#notes", "Copy it anew from the terminal");
    visitor.browser.types("#address", &world.server.page_address());
    visitor.browser.click("#paste-address button");
    visitor.is_live();
    visitor.sees("#projects h2", "website");
    assert_eq!(visitor.browser.value("document.querySelector('#banner').hidden"), true);
}

#[test]
fn an_ended_session_keeps_what_is_written_and_goes_on_with_a_new_address() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Hello");
    visitor.sees(".message", "an answer");
    visitor.browser.types("#text", "half a thought");
    visitor.browser.run("return fetch('/session', { method: 'DELETE' })", json!([]));
    world.person.says(visitor.thread(), "from elsewhere");
    visitor.sees("#banner", "This page's session has ended");
    visitor.browser.go(&world.server.page_address());
    visitor.is_live();
    visitor.sees(".message", "from elsewhere");
    assert_eq!(visitor.browser.value("document.querySelector('#text').value"), "half a thought");
}

/// A browser gives the cookies of a host to every port of it.
#[test]
fn two_servers_on_one_host_leave_each_other_the_session() {
    let (one, other) = (World::new(), World::new());
    let Some(visitor) = Visitor::at(&one, DESKTOP) else { return };
    visitor.browser.go(&other.server.page_address());
    visitor.is_live();
    visitor.browser.go(&one.server.url());
    visitor.is_live();
    visitor.sees("#projects h2", "website");
}
