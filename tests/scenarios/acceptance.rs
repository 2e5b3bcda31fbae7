//! An event is acknowledged only after it is durably stored, and a runner that dies between the two gives one
//! run: not two, not none.

use claude_code_runner::local::Hooks;
use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::inbox::EntryState;
use claude_code_runner::sdk::store::{FILE_NAME, Store};
use claude_code_runner::sdk::wire::run::{FollowupState, RunState};
use claude_code_runner::sys::private::TempDir;
use claude_code_runner::sys::process::group_alive;
use serde_json::json;

use crate::support::service::Service;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// What a machine that stops now would find on its disk: the files as they are, opened elsewhere.
fn store_after_a_crash(world: &World) -> (TempDir, Store) {
    let dir = TempDir::new().unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("{FILE_NAME}{suffix}");
        if let Ok(bytes) = std::fs::read(world.state().join(&name)) {
            std::fs::write(dir.join(&name), bytes).unwrap();
        }
    }
    let store = Store::open(&dir.join(FILE_NAME)).unwrap();
    assert!(store.moved_aside().is_none(), "the copied files are whole");
    (dir, store)
}

#[test]
fn an_invocation_is_stored_before_it_is_acknowledged() {
    let mut world = World::without_runner(Setup::default());
    let gate = world.hooks.hold_next("ackEvents");
    let (_, run) = world.asks("How many orders?");
    world.start_runner();
    assert!(gate.reached(DEADLINE));
    let (_dir, store) = store_after_a_crash(&world);
    let entry = store.entry(run).unwrap().expect("the run is in the inbox");
    assert_eq!(entry.token, world.server.operator().newest_token(run).unwrap());
    assert_ne!(entry.state, EntryState::Closed);
    assert_eq!(world.server.operator().unacknowledged("default").unwrap().len(), 1);
    gate.open();
    world.ends_as(run, RunState::Completed, None);
}

#[test]
fn a_refusal_is_stored_before_it_is_acknowledged() {
    let mut world = World::without_runner(Setup::default());
    let (_, run) = world.asks("How many orders?");
    let forged = |payload: &mut serde_json::Value| payload["invocation_token"] = json!("a.b.c");
    let token = world.server.operator().newest_token(run).unwrap();
    world.server.operator().lose_events().unwrap();
    world.server.operator().redeliver_with(run, token, forged).unwrap();
    let acks = world.hooks.hold_next("ackEvents");
    let finishes = world.hooks.hold_next("finishRun");
    world.start_runner();
    // One thread carries both, so whichever comes first holds the other back.
    let held = || [&acks, &finishes].iter().any(|gate| gate.reached(std::time::Duration::ZERO));
    eventually("an acknowledgement or a refusal is on its way", || held().then_some(()));
    let (_dir, store) = store_after_a_crash(&world);
    let refusals = store.pending_refusals().unwrap();
    assert_eq!(refusals.iter().map(|it| it.run_id).collect::<Vec<_>>(), [run]);
    acks.open();
    finishes.open();
    world.ends_as(run, RunState::Failed, Some("invalid_invocation_token"));
}

#[test]
fn a_stop_and_a_followup_are_stored_before_they_are_acknowledged() {
    let world = World::new();
    world.claude.steps(json!([{"do": [{"mark": "reached"}, {"hold": "go"}]}, {"text": "an answer"}]));
    let (thread, run) = world.asks("How many orders?");
    eventually("the turn works", || world.claude.reached("reached").then_some(()));
    eventually("acknowledged", || {
        world.server.operator().unacknowledged("default").unwrap().is_empty().then_some(())
    });
    let gate = world.hooks.hold_next("ackEvents");
    let followup = world.person.says(thread, "And the total?").followup_id.unwrap();
    assert!(gate.reached(DEADLINE));
    let (_dir, store) = store_after_a_crash(&world);
    let open = store.open_followups(run).unwrap();
    assert_eq!(open.iter().map(|it| it.followup.followup_id).collect::<Vec<_>>(), [followup]);
    gate.open();
    let gate = world.hooks.hold_next("ackEvents");
    world.person.stops(run);
    assert!(gate.reached(DEADLINE));
    let (_dir, store) = store_after_a_crash(&world);
    assert_eq!(store.stop_of(run).unwrap().map(|stop| stop.reason), Some("user_stop".to_owned()));
    gate.open();
    let ended = world.ends_as(run, RunState::Cancelled, Some("user_stop"));
    assert_eq!(ended.followups[0].state, Some(FollowupState::Absorbed));
}

/// Where the runner is killed.
struct Moment {
    name: &'static str,
    operation: &'static str,
    fault: fn(Gate) -> Fault,
}

const MOMENTS: &[Moment] = &[
    Moment { name: "told_but_not_stored", operation: "pollEvents", fault: Fault::DoneThenHold },
    Moment { name: "stored_but_not_acknowledged", operation: "ackEvents", fault: Fault::HoldBefore },
    Moment { name: "acknowledged_without_an_answer", operation: "ackEvents", fault: Fault::DoneThenHold },
    Moment { name: "before_the_context", operation: "getRunContext", fault: Fault::HoldBefore },
    Moment { name: "before_the_start", operation: "startRun", fault: Fault::HoldBefore },
];

#[test]
fn a_kill_on_the_way_to_the_start_gives_one_run() {
    for moment in MOMENTS {
        let world = World::without_runner(Setup::default());
        let (thread, run) = world.asks("How many orders?");
        let gate = Gate::new();
        world.hooks.next(moment.operation, (moment.fault)(gate.clone()));
        let mut first = Service::start(&world);
        assert!(gate.reached(DEADLINE), "{}", moment.name);
        first.kill();
        release(&world.hooks, &gate);
        let _second = Service::start(&world);
        let ended = world.ends(run);
        assert_eq!((ended.state, ended.reason), (RunState::Completed, None), "{}", moment.name);
        assert_eq!(world.answer_texts(thread), ["an answer"], "{}", moment.name);
        assert_eq!(world.claude.argvs().len(), 1, "{}: one turn", moment.name);
        let settled = || world.server.operator().unacknowledged("default").unwrap().is_empty();
        eventually("everything is acknowledged", || settled().then_some(()));
    }
}

#[test]
fn a_kill_before_the_answer_to_the_start_repeats_the_same_start() {
    let world = World::without_runner(Setup::default());
    let (thread, run) = world.asks("How many orders?");
    // The answer never arrives, so nobody knows of a process; the same key and body are sent again.
    let gate = Gate::new();
    world.hooks.next("startRun", Fault::DoneThenHold(gate.clone()));
    let mut first = Service::start(&world);
    assert!(gate.reached(DEADLINE));
    first.kill();
    release(&world.hooks, &gate);
    let _second = Service::start(&world);
    world.ends_as(run, RunState::Completed, None);
    let starts = world.hooks.requests_of("startRun");
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0].header("idempotency-key"), starts[1].header("idempotency-key"));
    assert_eq!(starts[0].body, starts[1].body);
    assert_eq!((world.answer_texts(thread).len(), world.claude.argvs().len()), (1, 1));
}

/// A question to the CLI that hangs ends with the runner that asked it; a turn lives on, a question is nobody's.
#[test]
fn a_kill_during_the_check_of_who_pays_leaves_no_process() {
    let world = World::without_runner(Setup::default());
    let hanging = json!({"auth": {"hang": true}, "turns": [{"steps": [{"text": "an answer"}]}]});
    world.claude.plays(&hanging);
    let (_, run) = world.asks("How many orders?");
    let mut first = Service::start(&world);
    let asked = eventually("the check", || world.claude.captured("auth").into_iter().next());
    let pid = i32::try_from(asked["pid"].as_i64().unwrap()).unwrap();
    assert!(group_alive(pid), "the test needs a check that hangs");
    first.kill();
    eventually("the check is gone", || (!group_alive(pid)).then_some(()));
    world.claude.answers("an answer");
    let _second = Service::start(&world);
    world.ends_as(run, RunState::Completed, None);
}

fn release(hooks: &Hooks, gate: &Gate) {
    gate.open();
    hooks.clear();
}
