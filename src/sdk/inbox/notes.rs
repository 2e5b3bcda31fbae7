//! What is remembered about runs beside their entries: stops, refusals, handled events.

use rusqlite::{Connection, Transaction, params};
use uuid::Uuid;

use super::{EventRef, Stop};
use crate::sdk::store::{self, Store, StoreError};
use crate::sdk::wire::Time;

/// A run that was never accepted and must be finished `failed` with `reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The run of the payload.
    pub run_id: Uuid,
    /// The finish reason.
    pub reason: String,
}

impl Store {
    /// Stores a stop before its acknowledgement, also for a run that is not known yet: the first
    /// reason stays. `true` when the run has an open entry.
    ///
    /// # Errors
    /// Any error means that nothing was stored: the event must not be acknowledged.
    pub fn store_stop(&mut self, event: &EventRef, run_id: Uuid, reason: &str) -> Result<bool, StoreError> {
        self.write(|tx| {
            insert_stop(tx, run_id, reason)?;
            mark_handled(tx, event)?;
            let sql = "SELECT 1 FROM entries WHERE run_id = ?1 AND state <> 'closed'";
            exists(tx, sql, &run_id.to_string())
        })
    }

    /// Stores a stop whose event was lost; the first reason stays.
    pub fn store_lost_stop(&mut self, run_id: Uuid, reason: &str) -> Result<(), StoreError> {
        self.write(|tx| insert_stop(tx, run_id, reason))
    }

    /// The stop of a run.
    pub fn stop_of(&self, run_id: Uuid) -> Result<Option<Stop>, StoreError> {
        let sql = "SELECT reason FROM stops WHERE run_id = ?1";
        store::one(self.reader(), sql, [run_id.to_string()], |row| Ok(Stop { reason: row.get("reason")? }))
    }

    /// Stores that a run is to be finished `failed` with `reason`, before its acknowledgement. `false`, and
    /// nothing stored, when the inbox has an entry for the run: a bad redelivery must not end it.
    /// A repeat keeps the first reason.
    ///
    /// # Errors
    /// Any error means that nothing was stored: the event must not be acknowledged.
    pub fn store_refusal(
        &mut self,
        event: &EventRef,
        run_id: Uuid,
        reason: &str,
    ) -> Result<bool, StoreError> {
        self.write(|tx| {
            mark_handled(tx, event)?;
            if exists(tx, "SELECT 1 FROM entries WHERE run_id = ?1", &run_id.to_string())? {
                return Ok(false);
            }
            let sql = "INSERT INTO refusals (run_id, reason, stored_at) VALUES (?1, ?2, ?3)
                       ON CONFLICT (run_id) DO NOTHING";
            tx.execute(sql, params![run_id.to_string(), reason, Time::now().as_millis()])?;
            Ok(true)
        })
    }

    /// The refusals that the server has not confirmed, oldest first.
    pub fn pending_refusals(&self) -> Result<Vec<Refusal>, StoreError> {
        let sql = "SELECT run_id, reason FROM refusals WHERE settled = 0 ORDER BY stored_at, run_id";
        store::all(self.reader(), sql, [], |row| {
            Ok(Refusal { run_id: store::uuid(row, "run_id")?, reason: row.get("reason")? })
        })
    }

    /// The server has confirmed the refusal, or never will. It stays known, so the run is not accepted later.
    pub fn settle_refusal(&mut self, run_id: Uuid) -> Result<(), StoreError> {
        let sql = "UPDATE refusals SET settled = 1 WHERE run_id = ?1";
        self.write(|tx| Ok(tx.execute(sql, [run_id.to_string()])?)).map(drop)
    }

    /// Remembers an event that needs nothing stored but itself. Acceptance, stops, follow-ups and refusals
    /// do it by themselves.
    pub fn mark_event_handled(&mut self, event: &EventRef) -> Result<(), StoreError> {
        self.write(|tx| mark_handled(tx, event))
    }

    /// Whether the event was handled before: then it is acknowledged and starts nothing.
    pub fn event_handled(&self, event_id: Uuid) -> Result<bool, StoreError> {
        exists(self.reader(), "SELECT 1 FROM handled_events WHERE event_id = ?1", &event_id.to_string())
    }
}

fn insert_stop(tx: &Transaction<'_>, run_id: Uuid, reason: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO stops (run_id, reason, stored_at) VALUES (?1, ?2, ?3)
               ON CONFLICT (run_id) DO NOTHING";
    tx.execute(sql, params![run_id.to_string(), reason, Time::now().as_millis()])?;
    Ok(())
}

pub(super) fn mark_handled(tx: &Transaction<'_>, event: &EventRef) -> Result<(), StoreError> {
    let sql = "INSERT INTO handled_events (event_id, seq, stored_at) VALUES (?1, ?2, ?3)
               ON CONFLICT (event_id) DO NOTHING";
    tx.execute(sql, params![event.event_id.to_string(), event.seq, Time::now().as_millis()])?;
    Ok(())
}

pub(super) fn is_refused(connection: &Connection, run_id: Uuid) -> Result<bool, StoreError> {
    exists(connection, "SELECT 1 FROM refusals WHERE run_id = ?1", &run_id.to_string())
}

fn exists(connection: &Connection, sql: &str, id: &str) -> Result<bool, StoreError> {
    Ok(store::one(connection, sql, [id], |_| Ok(()))?.is_some())
}
