//! The durable outbox: what must reach the server exactly once is stored before it is sent.
//!
//! First in, first out per run; a key makes storing and sending repeatable. Must not send anything and must
//! not know why something is sent.

use std::time::Duration;

use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::store::{self, Store, StoreError};
use super::wire::Time;
use super::wire::message::MessageCreate;
use super::wire::problem::Problem;
use super::wire::run::{FollowupState, RunFinish};

/// The wait after the first failed attempt.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two attempts: after an outage the answers come within it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// Something the server must get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
pub enum Delivery {
    /// `createMessage`; the key is the `client_msg_id`.
    Message {
        /// The thread it goes to.
        thread_id: Uuid,
        /// The body, sent unchanged each time.
        body: MessageCreate,
    },
    /// `finishRun`.
    Finish(RunFinish),
    /// `reportFollowup`.
    Followup {
        /// The follow-up.
        followup_id: Uuid,
        /// What became of it.
        state: FollowupState,
    },
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
pub enum Outcome {
    /// The server has it; its answer.
    Delivered(Value),
    /// The server said no, for good.
    Refused(Problem),
    /// It was given up after `adapter.max_event_age`, or because the server had ended the run.
    Dropped,
}

/// A delivery that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Its key.
    pub key: Uuid,
    /// The run it belongs to.
    pub run_id: Uuid,
    /// What is to be sent.
    pub delivery: Delivery,
    /// Attempts that failed.
    pub attempts: u32,
    /// No attempt before this moment.
    pub next_try: Time,
    /// When it was stored; the caller drops it when that is too long ago.
    pub stored_at: Time,
}

impl Pending {
    /// How long it is until the next attempt, seen at `now`. A moment that is further away than any wait was set by a
    /// clock that has been set back since, and is no reason to wait (C7-09).
    pub fn wait(&self, now: Time) -> Duration {
        let millis = self.next_try.as_millis().saturating_sub(now.as_millis());
        let wait = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        if wait > LONGEST_WAIT { Duration::ZERO } else { wait }
    }
}

/// The wait after `attempts` failed attempts: doubles from [`FIRST_WAIT`] to [`LONGEST_WAIT`].
pub fn next_wait(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
}

const PENDING: &str =
    "SELECT key, run_id, delivery, attempts, next_try, stored_at FROM deliveries WHERE outcome IS NULL";

impl Store {
    /// Stores a delivery before it is sent. `false` when the key is stored already: the first one stays,
    /// because it may have reached the server.
    pub fn put(&mut self, run_id: Uuid, key: Uuid, delivery: &Delivery) -> Result<bool, StoreError> {
        let sql = "INSERT INTO deliveries (key, run_id, delivery, next_try, stored_at)
                   VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (key) DO NOTHING";
        let delivery = store::json_text(delivery)?;
        let now = Time::now().as_millis();
        self.write(|tx| Ok(tx.execute(sql, params![key.to_string(), run_id.to_string(), delivery, now])? > 0))
    }

    /// The deliveries of a run that have not ended, in the order they were stored. Only the first may be
    /// sent: a run must not be finished before its answer is there.
    pub fn pending(&self, run_id: Uuid) -> Result<Vec<Pending>, StoreError> {
        let sql = format!("{PENDING} AND run_id = ?1 ORDER BY position");
        store::all(self.reader(), &sql, [run_id.to_string()], read)
    }

    /// The runs that have deliveries which have not ended, the oldest first.
    pub fn pending_runs(&self) -> Result<Vec<Uuid>, StoreError> {
        let sql =
            "SELECT run_id FROM deliveries WHERE outcome IS NULL GROUP BY run_id ORDER BY min(position)";
        store::all(self.reader(), sql, [], |row| store::uuid(row, "run_id"))
    }

    /// Stores how a delivery ended; `false` when it had ended before, which then stays.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] for a key that was never stored.
    pub fn settle(&mut self, key: Uuid, outcome: &Outcome) -> Result<bool, StoreError> {
        let outcome = store::json_text(outcome)?;
        self.write(|tx| {
            let sql = "SELECT outcome IS NULL FROM deliveries WHERE key = ?1";
            let open: bool = tx.query_row(sql, [key.to_string()], |row| row.get(0))?;
            let sql = "UPDATE deliveries SET outcome = ?2 WHERE key = ?1 AND outcome IS NULL";
            tx.execute(sql, params![key.to_string(), outcome])?;
            Ok(open)
        })
    }

    /// What was to be sent under `key`, ended or not.
    pub fn delivery(&self, key: Uuid) -> Result<Option<Delivery>, StoreError> {
        let sql = "SELECT delivery FROM deliveries WHERE key = ?1";
        store::one(self.reader(), sql, [key.to_string()], |row| store::json(row, "delivery"))
    }

    /// How a delivery ended; nothing while it is pending or unknown.
    pub fn outcome(&self, key: Uuid) -> Result<Option<Outcome>, StoreError> {
        let sql = "SELECT outcome FROM deliveries WHERE key = ?1";
        let stored =
            store::one(self.reader(), sql, [key.to_string()], |row| store::opt_json(row, "outcome"))?;
        Ok(stored.flatten())
    }

    /// Counts a failed attempt at `now` and gives the moment of the next one.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] for a key that is not pending.
    pub fn attempt_failed(&mut self, key: Uuid, now: Time) -> Result<Time, StoreError> {
        self.write(|tx| {
            let sql = "UPDATE deliveries SET attempts = min(attempts + 1, ?2)
                       WHERE key = ?1 AND outcome IS NULL RETURNING attempts";
            let attempts: u32 = tx.query_row(sql, params![key.to_string(), u32::MAX], |row| row.get(0))?;
            let wait = i64::try_from(next_wait(attempts).as_millis()).unwrap_or(i64::MAX);
            let next = Time::from_millis(now.as_millis().saturating_add(wait));
            let sql = "UPDATE deliveries SET next_try = ?2 WHERE key = ?1";
            tx.execute(sql, params![key.to_string(), next.as_millis()])?;
            Ok(next)
        })
    }

    /// Gives up whatever of a run is pending: the server has ended it, or it has waited too long. Gives how
    /// many deliveries that were.
    pub fn drop_run(&mut self, run_id: Uuid) -> Result<usize, StoreError> {
        let sql = "UPDATE deliveries SET outcome = ?2 WHERE run_id = ?1 AND outcome IS NULL";
        let dropped = store::json_text(&Outcome::Dropped)?;
        self.write(|tx| Ok(tx.execute(sql, params![run_id.to_string(), dropped])?))
    }
}

fn read(row: &Row<'_>) -> Result<Pending, StoreError> {
    Ok(Pending {
        key: store::uuid(row, "key")?,
        run_id: store::uuid(row, "run_id")?,
        delivery: store::json(row, "delivery")?,
        attempts: row.get("attempts")?,
        next_try: Time::from_millis(row.get("next_try")?),
        stored_at: Time::from_millis(row.get("stored_at")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::store::tests::Place;
    use crate::sdk::wire::run::RunState;

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn message(text: &str) -> Delivery {
        let body = MessageCreate {
            client_msg_id: id(7),
            content_md: text.into(),
            run_id: id(1),
            attachment_file_ids: Some(vec![id(8), id(9)]),
        };
        Delivery::Message { thread_id: id(2), body }
    }

    fn finish() -> Delivery {
        let metrics =
            serde_json::from_value(serde_json::json!({"context_pct": 12.5, "tokens_in": 7})).unwrap();
        let costs = Some(vec![]);
        Delivery::Finish(RunFinish {
            state: RunState::Completed,
            reason: None,
            costs,
            metrics: Some(metrics),
        })
    }

    fn keys(store: &Store, run: u128) -> Vec<Uuid> {
        store.pending(id(run)).unwrap().iter().map(|pending| pending.key).collect()
    }

    #[test]
    fn deliveries_are_durable_in_order_and_idempotent_by_key() {
        let place = Place::new();
        let followup = Delivery::Followup { followup_id: id(3), state: FollowupState::Answered };
        {
            let mut store = place.open();
            assert!(store.put(id(1), id(30), &message("one")).unwrap());
            assert!(store.put(id(5), id(31), &followup).unwrap());
            assert!(store.put(id(1), id(20), &finish()).unwrap());
            assert!(!store.put(id(1), id(30), &message("two")).unwrap());
        }
        let store = place.open();
        assert_eq!(keys(&store, 1), [id(30), id(20)]);
        let stored: Vec<Delivery> =
            store.pending(id(1)).unwrap().into_iter().map(|pending| pending.delivery).collect();
        assert_eq!(stored, [message("one"), finish()]);
        assert_eq!(store.pending(id(5)).unwrap()[0].delivery, followup);
        assert_eq!(store.pending_runs().unwrap(), [id(1), id(5)]);
    }

    #[test]
    fn a_settled_delivery_keeps_its_first_outcome() {
        let rows = [
            Outcome::Delivered(serde_json::json!({"message_id": id(4), "seq": 5})),
            Outcome::Refused(Problem::new(403, "forbidden").because("capability_missing")),
            Outcome::Dropped,
        ];
        for outcome in rows {
            let place = Place::new();
            let mut store = place.open();
            store.put(id(1), id(30), &message("one")).unwrap();
            assert_eq!(store.outcome(id(30)).unwrap(), None);
            assert!(store.settle(id(30), &outcome).unwrap());
            assert!(!store.settle(id(30), &Outcome::Dropped).unwrap());
            assert_eq!(store.outcome(id(30)).unwrap(), Some(outcome));
            assert!(keys(&store, 1).is_empty() && store.pending_runs().unwrap().is_empty());
            assert!(!store.put(id(1), id(30), &message("one")).unwrap(), "nothing is sent twice");
            assert_eq!(store.attempt_failed(id(30), Time::now()), Err(StoreError::Unknown));
        }
        let place = Place::new();
        assert_eq!(place.open().settle(id(30), &Outcome::Dropped), Err(StoreError::Unknown));
    }

    #[test]
    fn next_wait_grows_to_its_bound() {
        let rows =
            [(0, 1), (1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (33, 300), (u32::MAX, 300)];
        for (attempts, seconds) in rows {
            assert_eq!(next_wait(attempts), Duration::from_secs(seconds), "{attempts}");
        }
    }

    #[test]
    fn a_failed_attempt_moves_the_next_one() {
        let place = Place::new();
        let mut store = place.open();
        store.put(id(1), id(30), &message("one")).unwrap();
        let now = Time::from_millis(1_000_000);
        for (attempts, millis) in [(1, 1_001_000), (2, 1_002_000), (3, 1_004_000)] {
            assert_eq!(store.attempt_failed(id(30), now).unwrap().as_millis(), millis);
            let pending = store.pending(id(1)).unwrap().remove(0);
            assert_eq!((pending.attempts, pending.next_try.as_millis()), (attempts, millis));
        }
    }

    #[test]
    fn c7_09_a_clock_that_was_set_back_delays_nothing() {
        let place = Place::new();
        let mut store = place.open();
        store.put(id(1), id(30), &message("one")).unwrap();
        let now = Time::from_millis(10_000_000);
        store.attempt_failed(id(30), now).unwrap();
        let pending = store.pending(id(1)).unwrap().remove(0);
        let back = |millis: i64| pending.wait(Time::from_millis(now.as_millis() - millis));
        assert_eq!(back(0), Duration::from_secs(1));
        assert_eq!(back(2_000), Duration::from_secs(3), "a second more or less is no jump");
        assert_eq!(back(3_600_000), Duration::ZERO, "an hour is");
        assert_eq!(back(-3_600_000), Duration::ZERO);
    }

    #[test]
    fn drop_run_ends_what_is_pending_of_that_run_only() {
        let place = Place::new();
        let mut store = place.open();
        store.put(id(1), id(30), &message("one")).unwrap();
        store.put(id(1), id(31), &finish()).unwrap();
        store.put(id(2), id(32), &finish()).unwrap();
        store.settle(id(30), &Outcome::Delivered(Value::Null)).unwrap();
        assert_eq!(store.drop_run(id(1)).unwrap(), 1);
        assert_eq!(store.outcome(id(30)).unwrap(), Some(Outcome::Delivered(Value::Null)));
        assert_eq!(store.outcome(id(31)).unwrap(), Some(Outcome::Dropped));
        assert_eq!(store.pending_runs().unwrap(), [id(2)]);
    }
}
