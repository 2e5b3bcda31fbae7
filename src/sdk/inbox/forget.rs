//! How long the inbox remembers. Open work is never forgotten, however old it is.

use std::time::Duration;

use rusqlite::params;

use crate::sdk::store::{Store, StoreError};
use crate::sdk::wire::Time;

/// Seconds count in tokens, milliseconds elsewhere.
const MILLIS_PER_SECOND: i64 = 1000;

/// A token's `jti` until `exp` plus the window.
const JTIS: &str = "DELETE FROM jtis WHERE exp < ?1";

/// Everything else: once it has ended and the window has passed since it was stored. An entry goes with
/// the last of its tokens, and its deliveries go with it.
const ENDED: &[&str] = &[
    "DELETE FROM entries WHERE state = 'closed' AND occurred_at < ?1
        AND NOT EXISTS (SELECT 1 FROM jtis WHERE jtis.run_id = entries.run_id)
        AND NOT EXISTS (SELECT 1 FROM deliveries
                        WHERE deliveries.run_id = entries.run_id AND outcome IS NULL)",
    "DELETE FROM stops WHERE stored_at < ?1 AND run_id NOT IN (SELECT run_id FROM entries)",
    "DELETE FROM followups WHERE settled = 1 AND stored_at < ?1
        AND run_id NOT IN (SELECT run_id FROM entries)",
    "DELETE FROM refusals WHERE settled = 1 AND stored_at < ?1",
    "DELETE FROM handled_events WHERE stored_at < ?1",
    "DELETE FROM deliveries WHERE outcome IS NOT NULL AND stored_at < ?1
        AND run_id NOT IN (SELECT run_id FROM entries)",
];

impl Store {
    /// Forgets what can no longer matter at `now`; `window` is `adapter.max_event_age`.
    pub fn forget_older(&mut self, now: Time, window: Duration) -> Result<(), StoreError> {
        let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let before = now.as_millis().saturating_sub(window);
        self.write(|tx| {
            tx.execute(JTIS, params![before.div_euclid(MILLIS_PER_SECOND)])?;
            for sql in ENDED {
                tx.execute(sql, params![before])?;
            }
            Ok(())
        })
    }
}
