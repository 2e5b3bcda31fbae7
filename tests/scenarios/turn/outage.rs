//! A server that is away, cuts, or answers nonsense: the Nth request of each operation fails,
//! for N = 1, 2, 3 until a run has met no fault; after each the same things hold.

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::problem::{Problem, code, reason};
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;
use uuid::Uuid;

use super::{nothing_is_left, setup};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// Every operation of a plain run that the runner makes by itself, in the order of their first request.
const OPERATIONS: [&str; 9] = [
    "getRunContext",
    "startRun",
    "patchRun",
    "reportAgentSession",
    "createMessage",
    "getThread",
    "setThreadTitle",
    "finishRun",
    "ackEvents",
];

fn unavailable() -> Fault {
    Fault::RawBefore(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 13\r\n\r\n<html></html>".to_vec())
}

fn garbage() -> Fault {
    Fault::DoneThenRaw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\"a\":".to_vec())
}

fn unauthenticated() -> Fault {
    Fault::Refuse(Problem::new(401, "unauthenticated"), None)
}

/// The faults after which a run must end well.
fn faults() -> [(&'static str, Fault); 5] {
    [
        ("502", unavailable()),
        ("done and cut", Fault::DoneThenCut),
        ("cut before", Fault::CutBefore),
        ("garbage", garbage()),
        ("401", unauthenticated()),
    ]
}

fn quick() -> Setup {
    Setup { sdk: vec!["retry_max_attempts = 2".into()], ..setup(&[]) }
}

/// One run in a world where the `nth` request of `operation` from now on fails; whether the fault happened.
fn run_with(world: &World, operation: &str, nth: u64, fault: Fault, place: &str) -> bool {
    let begun = world.hooks.count(operation);
    world.hooks.nth(operation, begun + nth, fault);
    let before = world.hooks.count("setThreadTitle");
    let (thread, run) = world.asks("one");
    let found = world.ends(run);
    assert_eq!((found.state, found.reason.as_deref()), (RunState::Completed, None), "{place}");
    assert_eq!(world.answer_texts(thread), ["an answer"], "{place}");
    assert_eq!(found.costs.as_ref().map(Vec::len), Some(1), "{place}");
    assert!(world.hooks.count("setThreadTitle") - before <= 2, "{place}");
    nothing_is_left(world, run);
    let happened = world.hooks.count(operation) >= begun + nth;
    world.hooks.clear();
    happened
}

fn titled(world: &World) {
    world.claude.plays(&json!({"turns": [{"title": "Numbers", "steps": [{"text": "an answer"}]}]}));
}

#[test]
fn every_request_may_fail_once() {
    for (name, fault) in faults() {
        let world = World::with(quick());
        titled(&world);
        for operation in OPERATIONS {
            for nth in 1..=20 {
                let place = format!("{operation} number {nth}: {name}");
                if !run_with(&world, operation, nth, fault.clone(), &place) {
                    break;
                }
            }
        }
        eventually("nothing waits", || {
            world.server.operator().unacknowledged("default").unwrap().is_empty().then_some(())
        });
    }
}

/// The server ends the run at any of its requests: no answer after that, no `finishRun`, no process.
#[test]
fn the_server_may_end_the_run_at_any_request() {
    let world = World::with(quick());
    titled(&world);
    for operation in ["getRunContext", "startRun", "patchRun", "reportAgentSession", "createMessage"] {
        let begun = world.hooks.count(operation);
        let finished = world.hooks.count("finishRun");
        let inactive = Problem::new(403, "invocation_token_invalid").because("run_inactive");
        world.hooks.nth(operation, begun + 1, Fault::Refuse(inactive, None));
        let (thread, run) = world.asks("one");
        eventually("the run is forgotten", || {
            let open = world.hooks.count(operation) > begun
                && !world.state().join("turns").join(format!("{run}.json")).exists()
                && !world.state().join("tmp").join(run.to_string()).exists();
            open.then_some(())
        });
        let (_, next) = world.asks("two");
        world.ends_as(next, RunState::Completed, None);
        nothing_is_left(&world, run);
        assert_eq!(world.hooks.count("finishRun"), finished + 1, "{operation}: only that of the next run");
        assert!(operation == "createMessage" || world.answer_texts(thread).is_empty(), "{operation}");
        world.hooks.clear();
    }
}

/// The same when the last patch of the run is the first request that hears of it.
#[test]
fn an_end_by_the_server_that_the_last_patch_hears_of_is_not_followed_by_another() {
    let world = World::with(Setup { patch_interval: "1h", ..quick() });
    world
        .claude
        .steps(json!([{"tool": {"name": "Bash", "input": {}, "do": [{"mark": "begun"}, {"hold": "go"}]}}, {"text": "x"}]));
    let (_, run) = world.asks("one");
    eventually("the turn works", || world.claude.reached("begun").then_some(()));
    assert!(world.hooks.wait_for("patchRun", 1, DEADLINE), "the one that the interval allows");
    let inactive = Problem::new(403, code::INVOCATION_TOKEN_INVALID).because(reason::RUN_INACTIVE);
    world.hooks.always("patchRun", Fault::Refuse(inactive, None));
    world.claude.release("go");
    eventually("the run is forgotten", || {
        (!world.state().join("turns").join(format!("{run}.json")).exists()).then_some(())
    });
    assert_eq!(world.hooks.count("finishRun"), 0);
    nothing_is_left(&world, run);
}

/// an answer survives an outage, and a refused one ends the run.
#[test]
fn c7_03_an_answer_waits_for_the_server() {
    let world = World::with(quick());
    world.hooks.always("createMessage", unavailable());
    let (thread, run) = world.asks("one");
    eventually("the turn has ended", || (!world.claude.captured("end").is_empty()).then_some(()));
    eventually("the answer was tried again", || (world.hooks.count("createMessage") > 4).then_some(()));
    world.hooks.clear();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

/// only a 4xx is the server's last word; a full disk on its side passes.
#[test]
fn an_answer_waits_for_a_server_without_room() {
    let world = World::with(quick());
    let full = || Problem::new(503, code::UNAVAILABLE).because(reason::STORAGE_FULL);
    for (operation, nth) in [("createMessage", 1), ("finishRun", 1)] {
        world.hooks.nth(operation, nth, Fault::Refuse(full(), None));
    }
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

#[test]
fn an_answer_that_is_refused_for_good_ends_the_run() {
    for (name, first) in [("at once", None), ("after an outage", Some(unavailable()))] {
        let world = World::with(quick());
        let refusal = Fault::Refuse(Problem::new(400, "validation_failed"), None);
        match first {
            None => world.hooks.nth("createMessage", 1, refusal),
            Some(first) => {
                world.hooks.nth("createMessage", 1, first.clone());
                world.hooks.nth("createMessage", 2, first);
                world.hooks.nth("createMessage", 3, refusal);
            }
        }
        let (thread, run) = world.asks("one");
        world.ends_as(run, RunState::Failed, Some("adapter_error"));
        let texts = world.answer_texts(thread);
        assert!(texts.len() == 1 && texts[0].contains("did not accept the answer"), "{name}: {texts:?}");
    }
}

/// a server that does not answer keeps nobody from the turn: its question is refused and its stop comes
/// through while a request hangs, and what it says meanwhile is not lost.
#[test]
fn r_15_a_turn_is_served_while_a_request_hangs() {
    for (operation, stops) in [("patchRun", false), ("reportAgentSession", false), ("patchRun", true)] {
        let world = World::with(setup(&["stop_grace = \"300ms\""]));
        world.claude.steps(json!([
            {"tool": {"name": "Bash", "input": {"command": "first"}, "do": [{"mark": "reached"}, {"hold": "ask"}]}},
            {"line": {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {}}}},
            {"do": [{"hold": "go"}]},
            {"text": "done"},
        ]));
        let start = world.hooks.hold_next("startRun");
        let (thread, run) = world.asks("one");
        assert!(start.reached(DEADLINE), "{operation}");
        let gate = Gate::new();
        world.hooks.always(operation, Fault::HoldBefore(gate.clone()));
        start.open();
        assert!(gate.reached(DEADLINE), "{operation}");
        super::reached(&world, "reached");
        world.claude.release("ask");
        eventually("the question is refused", || {
            let lines = world.claude.captured("stdin");
            lines.iter().any(|line| line["line"].to_string().contains("control_response")).then_some(())
        });
        if stops {
            world.person.stops(run);
            eventually("SIGINT", || {
                world.claude.captured("signal").iter().any(|it| it["name"] == "SIGINT").then_some(())
            });
            world.hooks.clear();
            world.ends_as(run, RunState::Cancelled, Some("user_stop"));
            continue;
        }
        world.claude.release("go");
        world.hooks.clear();
        world.ends_as(run, RunState::Completed, None);
        assert_eq!(world.answer_texts(thread), ["done"], "{operation}");
    }
}

/// tokens that expired or were superseded during a run.
#[test]
fn tokens_that_expire_or_are_superseded_are_replaced() {
    let world = World::with(setup(&[]));
    world.claude.steps(json!([super::waiting_tool(), {"text": "done"}]));
    let (thread, run) = world.asks("one");
    super::reached(&world, "reached");
    world.server.operator().expire_tokens(run).unwrap();
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
    assert!(world.hooks.count("renewInvocationToken") > 0);
}

/// A thread and its run, whose start goes on with a token that the server has replaced meanwhile.
fn superseded_start(world: &World) -> (Uuid, Uuid) {
    let gate = world.hooks.hold_next("startRun");
    let (thread, run) = world.asks("one");
    assert!(gate.reached(DEADLINE));
    world.server.operator().mint_token(run).unwrap();
    gate.open();
    (thread, run)
}

/// superseded before the start: nothing is held until the newer token comes.
#[test]
fn a_superseded_start_waits_for_the_newer_token() {
    let world = World::with(setup(&[]));
    let (thread, run) = superseded_start(&world);
    assert!(world.hooks.wait_for("startRun", 1, std::time::Duration::from_secs(60)));
    let (_, other) = world.asks("two");
    world.ends_as(other, RunState::Completed, None);
    world.server.operator().redeliver(run).unwrap();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

/// the stop of a run that has no thread, because it waits for a newer token, was lost with other events.
#[test]
fn a_lost_stop_reaches_a_run_that_waits() {
    let world = World::with(setup(&[]));
    let (_, run) = superseded_start(&world);
    let (_, other) = world.asks("two");
    world.ends_as(other, RunState::Completed, None);
    // The poll that waits is cut behind its answer, the later ones before they are looked at.
    world.hooks.always("pollEvents", Fault::DoneThenCut);
    world.hooks.always("pollEvents", Fault::CutBefore);
    world.person.stops(run);
    eventually("no poll waits", || {
        world.hooks.requests_of("pollEvents").iter().all(|poll| poll.status.is_some()).then_some(())
    });
    world.server.operator().lose_events().unwrap();
    world.hooks.clear();
    world.ends_as(run, RunState::Cancelled, Some("user_stop"));
}
