//! The hooks: what somebody beside the server can do to a request.

use std::thread;

use serde_json::json;
use uuid::Uuid;

use crate::local::hooks::{Fault, Gate};
use crate::local::testing::{SOON, World, raw, start_body};
use crate::sdk::wire::problem::Problem;

#[test]
fn a_refusal_changes_nothing_and_a_late_one_does() {
    let world = World::new();
    let (_, run) = world.queued();
    let busy = || Problem::new(503, "unavailable");
    world.hooks.next("startRun", Fault::Refuse(busy(), Some("7".to_owned())));
    let key = Uuid::now_v7();
    let refused = world.start(&run, key);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("7")));
    assert_eq!(world.agent("GET", &format!("/runs/{}", run.id)).send().body["state"], "queued");
    world.hooks.next("startRun", Fault::DoneThenRefuse(Problem::new(502, "bad_gateway")));
    assert_eq!(world.start(&run, key).status, 502);
    assert_eq!(world.agent("GET", &format!("/runs/{}", run.id)).send().body["state"], "running");
    world.start(&run, key).ok(200);
    let seen = world.hooks.requests_of("startRun");
    let statuses: Vec<_> = seen.iter().map(|request| (request.ordinal, request.status)).collect();
    assert_eq!(statuses, [(1, Some(503)), (2, Some(502)), (3, Some(200))]);
    assert_eq!(seen[0].header("invocation-token"), Some(run.token.as_str()));
    assert_eq!(seen[0].json(), Some(start_body()));
}

#[test]
fn a_connection_is_cut_before_or_after() {
    let world = World::new();
    let (_, run) = world.queued();
    let ask = world.agent("POST", &format!("/runs/{}/start", run.id)).token(&run.token).key(Uuid::now_v7());
    let ask = ask.json(&start_body());
    world.hooks.next("startRun", Fault::CutBefore);
    assert_eq!(ask.try_send(), None);
    assert_eq!(world.server.operator().run(run.id).unwrap().started_at, None);
    world.hooks.next("startRun", Fault::DoneThenCut);
    assert_eq!(ask.try_send(), None);
    assert!(world.server.operator().run(run.id).unwrap().started_at.is_some());
}

#[test]
fn bytes_are_garbled_and_bodies_cut() {
    let world = World::new();
    let ask = world.agent("GET", "/instance");
    world.hooks.nth("getInstance", 1, Fault::RawBefore(b"not http".to_vec()));
    assert_eq!(ask.try_send(), None);
    world.hooks.nth("getInstance", 2, Fault::DoneThenBody("{".to_owned()));
    assert_eq!(ask.send().bytes, b"{");
    world.hooks.nth("getInstance", 3, Fault::CutBodyAt(3));
    let cut = ask.send();
    assert_eq!(cut.bytes.len(), 3);
    assert!(cut.header("content-length").unwrap().parse::<usize>().unwrap() > 3);
    let gate = Gate::new();
    world.hooks.nth("getInstance", 4, Fault::HoldBodyAt(2, gate.clone()));
    let held = thread::spawn(move || ask.send());
    assert!(gate.reached(SOON));
    gate.open();
    assert_eq!(held.join().unwrap().bytes.len(), 2);
}

#[test]
fn a_key_at_work_is_refused_until_it_is_done() {
    let world = World::new();
    let (_, run) = world.queued();
    let key = Uuid::now_v7();
    let gate = world.hooks.hold_next("startRun");
    let ask = world.agent("POST", &format!("/runs/{}/start", run.id)).token(&run.token).key(key);
    let first = thread::spawn(move || ask.json(&start_body()).send());
    assert!(gate.reached(SOON));
    assert_eq!(world.start(&run, key).problem(), (409, "request_in_progress", ""));
    gate.open();
    let first = first.join().unwrap().ok(200);
    assert_eq!(world.start(&run, key), first);
}

#[test]
fn requests_without_a_fitting_credential_are_seen_too() {
    let world = World::new();
    world.nobody("GET", "/api/v1/me").send().ok(401);
    raw(world.server.address(), b"GET /nothing HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n");
    let seen: Vec<_> = world.hooks.requests().into_iter().map(|r| (r.operation, r.status)).collect();
    assert_eq!(seen, [("getMe".to_owned(), Some(401)), ("unknown".to_owned(), Some(421))]);
    assert_eq!(json!(world.hooks.count("getMe")), json!(1));
}
