//! Waiting for a condition with a deadline, never for a time.

use std::time::{Duration, Instant};

/// Longest wait of a scenario for anything: far above what a loaded machine with two cores needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How long the thread gives way between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Asks `check` until it gives something.
///
/// Panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::park_timeout(LOOK);
    }
}
