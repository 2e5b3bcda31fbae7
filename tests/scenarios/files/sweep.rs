//! Every fault at every request of an answer with three files: each file comes once, in one message, in order.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::{Problem, code};

use super::crash::{NAMES, three};
use super::world::{answer, completes, names, nothing_leaked, world};

/// One kind of fault, made anew for each request.
type Make = fn() -> Fault;

fn unavailable() -> Problem {
    Problem::new(503, code::UNAVAILABLE)
}

/// What can happen to a request once without the answer being lost.
const KINDS: [(&str, Make); 6] = [
    ("cut before", || Fault::CutBefore),
    ("cut after", || Fault::DoneThenCut),
    ("refused before", || Fault::Refuse(unavailable(), Some("0".into()))),
    ("refused after", || Fault::DoneThenRefuse(unavailable())),
    ("no HTTP", || Fault::DoneThenRaw(b"nonsense\r\n\r\n".to_vec())),
    ("no JSON", || Fault::DoneThenBody("<html>".into())),
];

/// Does every kind of fault to each request of `operation`, until a pass is over before the fault has come.
fn sweep(operation: &str) {
    let world = world();
    three(&world);
    let mut sessions = 0;
    for (kind, make) in KINDS {
        for nth in 1.. {
            let at = world.hooks.count(operation) + nth;
            world.hooks.nth(operation, at, make());
            let (thread, run) = world.asks("Send them");
            completes(&world, run);
            let happened = world.hooks.count(operation) >= at;
            world.hooks.clear();
            assert_eq!(names(&answer(&world, thread)), NAMES, "{operation} {kind} {nth}");
            sessions += NAMES.len();
            let known = world.server.operator().uploads().unwrap();
            assert_eq!(known.len(), sessions, "{operation} {kind} {nth}");
            assert!(known.iter().all(|(_, _, phase)| phase == "completed"), "{operation} {kind} {nth}");
            if !happened {
                break;
            }
        }
    }
    nothing_leaked(&world, true);
}

#[test]
fn faults_of_get_instance_change_nothing() {
    sweep("getInstance");
}

#[test]
fn faults_of_create_upload_change_nothing() {
    sweep("createUpload");
}

#[test]
fn faults_of_upload_part_change_nothing() {
    sweep("uploadPart");
}

#[test]
fn faults_of_complete_upload_change_nothing() {
    sweep("completeUpload");
}

#[test]
fn faults_of_create_message_change_nothing() {
    sweep("createMessage");
}
