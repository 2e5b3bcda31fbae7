//! The fault sweep: every kind of fault at every request of a run, one after the other, until a run is over before its
//! fault has come. The run ends once, with one turn and one answer; one that the server calls inactive is let go of.

use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::problem::{Problem, code, reason};
use claude_code_runner::sdk::wire::run::RunState;
use claude_code_runner::sys::lock::FileLock;
use serde_json::json;
use uuid::Uuid;

use super::{processes_of, turns};
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// One kind of fault, made anew for each request.
type Make = fn() -> Fault;

/// What can happen to one request without the run being lost.
const KINDS: [(&str, Make); 7] = [
    ("bad gateway", || Fault::Refuse(Problem::new(502, code::UNAVAILABLE), Some("0".into()))),
    ("cut before", || Fault::CutBefore),
    ("stored, then cut", || Fault::DoneThenCut),
    ("time-out", || Fault::HoldBefore(Gate::new())),
    ("stored, then time-out", || Fault::DoneThenHold(Gate::new())),
    ("garbage", || Fault::DoneThenRaw(b"nonsense\r\n\r\n".to_vec())),
    ("not known", || Fault::Refuse(Problem::new(401, code::UNAUTHENTICATED), None)),
];

/// The server does not take the run for a live one any more.
fn inactive() -> Fault {
    let reason = Some(reason::RUN_INACTIVE.to_owned());
    Fault::Refuse(Problem { reason, ..Problem::new(403, code::INVOCATION_TOKEN_INVALID) }, None)
}

fn world() -> World {
    let world = World::with(Setup { sdk: vec!["http_timeout = \"1s\"".into()], ..Setup::default() });
    world.claude.plays(&json!({"turns": [{"title": "Numbers", "steps": [{"text": "an answer"}]}]}));
    world
}

/// Plays runs with `make` at the first, second, third ... request of `operation`; `judge` looks at each. How many.
fn each_request(
    world: &World,
    operation: &str,
    make: impl Fn() -> Fault,
    judge: impl Fn(Uuid, Uuid, bool, &str),
) -> u64 {
    let mut nth = 0;
    loop {
        nth += 1;
        let at = world.hooks.count(operation) + nth;
        world.hooks.nth(operation, at, make());
        let (thread, run) = world.asks("one");
        let row = format!("{operation} {nth}");
        let happened = || world.hooks.count(operation) >= at;
        eventually(&row, || (happened() || world.person.run(run).state.is_final()).then_some(()));
        let happened = happened();
        assert!(happened || nth > 1, "{operation} is not used");
        judge(thread, run, happened, &row);
        world.hooks.clear();
        if !happened {
            return nth;
        }
    }
}

fn sweep(operation: &str) {
    let world = world();
    let mut asked = 0;
    for (kind, make) in KINDS {
        asked += each_request(&world, operation, make, |thread, run, _, row| {
            let ended = world.ends(run);
            assert_eq!((ended.state, ended.reason), (RunState::Completed, None), "{kind}: {row}");
            assert_eq!(world.answer_texts(thread), ["an answer"], "{kind}: {row}");
            assert_eq!(ended.costs.map(|costs| costs.len()), Some(1), "{kind}: {row}");
        });
    }
    assert_eq!(turns(&world) as u64, asked, "one turn each");
    each_request(&world, operation, inactive, |thread, run, happened, row| {
        eventually(row, || is_let_go(&world, run).then_some(()));
        let answers = world.answer_texts(thread);
        assert!(answers.len() <= 1, "{row}: {answers:?}");
        assert!(happened || world.ends(run).state == RunState::Completed, "{row}");
    });
}

/// Nothing of the run is kept, held or alive.
fn is_let_go(world: &World, run: Uuid) -> bool {
    let names = |place: &str| {
        std::fs::read_dir(world.state().join(place)).unwrap().map(|entry| entry.unwrap().path())
    };
    let mut locks = names("locks");
    names("turns").next().is_none()
        && processes_of(&world.state(), run).is_empty()
        && locks.all(|lock| FileLock::try_acquire(&lock).unwrap().is_some())
}

#[test]
fn faults_of_get_run_context_only_delay() {
    sweep("getRunContext");
}

#[test]
fn faults_of_start_run_only_delay() {
    sweep("startRun");
}

#[test]
fn faults_of_patch_run_only_delay() {
    sweep("patchRun");
}

#[test]
fn faults_of_report_agent_session_only_delay() {
    sweep("reportAgentSession");
}

#[test]
fn faults_of_create_message_only_delay() {
    sweep("createMessage");
}

#[test]
fn faults_of_get_thread_only_delay() {
    sweep("getThread");
}

#[test]
fn faults_of_set_thread_title_only_delay() {
    sweep("setThreadTitle");
}

#[test]
fn faults_of_finish_run_only_delay() {
    sweep("finishRun");
}
