//! Wakes long polls: a counter that grows with every change, and a wait for it to grow. Holds no data.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use super::lock;

/// The counter and who waits for it.
#[derive(Default)]
pub struct Notifier {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Notifier {
    /// The present count; read it before looking at the data, so that no change is missed.
    pub fn count(&self) -> u64 {
        *lock(&self.count)
    }

    /// Something changed: everybody looks again.
    pub fn notify(&self) {
        *lock(&self.count) += 1;
        self.changed.notify_all();
    }

    /// Waits until the count is no longer `seen`, at most until `deadline`; whether it changed.
    pub fn wait(&self, seen: u64, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let guard = lock(&self.count);
        match self.changed.wait_timeout_while(guard, left, |count| *count == seen) {
            Ok((count, _)) => *count != seen,
            Err(poisoned) => *poisoned.into_inner().0 != seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_change_between_look_and_wait_is_not_missed() {
        let notifier = Notifier::default();
        let seen = notifier.count();
        notifier.notify();
        assert!(notifier.wait(seen, Instant::now() + Duration::from_secs(60)));
        assert!(!notifier.wait(notifier.count(), Instant::now()));
    }
}
