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

const OPERATIONS: [&str; 5] = ["getInstance", "createUpload", "uploadPart", "completeUpload", "createMessage"];

#[test]
fn every_fault_at_every_request_changes_nothing() {
    let world = world();
    three(&world);
    let mut sessions = 0;
    for operation in OPERATIONS {
        for (kind, make) in KINDS {
            // Until a pass is over before the fault has come.
            for nth in 1.. {
                let at = world.hooks.count(operation) + nth;
                world.hooks.nth(operation, at, make());
                let (thread, run) = world.asks("Send them");
                completes(&world, run);
                let happened = world.hooks.count(operation) >= at;
                world.hooks.clear();
                let answer = answer(&world, thread);
                assert_eq!(names(&answer), NAMES, "{operation} {kind} {nth}");
                sessions += NAMES.len();
                let known = world.server.operator().uploads().unwrap();
                assert_eq!(known.len(), sessions, "{operation} {kind} {nth}");
                assert!(known.iter().all(|(_, _, phase)| phase == "completed"), "{operation} {kind} {nth}");
                if !happened {
                    break;
                }
            }
        }
    }
    nothing_leaked(&world, true);
}
