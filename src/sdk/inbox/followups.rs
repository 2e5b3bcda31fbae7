//! Follow-ups: stored before their acknowledgement, each ends in exactly one final state.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{EventRef, notes};
use crate::sdk::store::{self, Store, StoreError};
use crate::sdk::wire::Time;
use crate::sdk::wire::event::AgentFollowup;
use crate::sdk::wire::run::FollowupState;

/// One follow-up and what became of it so far.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFollowup {
    /// The payload.
    pub followup: AgentFollowup,
    /// Position of its event.
    pub seq: i64,
    /// What became of it; absent while nobody has taken it, `delivered` is not the end.
    pub state: Option<FollowupState>,
}

const SELECT: &str = "SELECT payload, seq, state FROM followups";

impl Store {
    /// Stores a follow-up; `false` when it was stored before, which changes nothing.
    ///
    /// # Errors
    /// Any error means that nothing was stored: the event must not be acknowledged.
    pub fn store_followup(&mut self, event: &EventRef, followup: &AgentFollowup) -> Result<bool, StoreError> {
        self.write(|tx| {
            let sql = "INSERT INTO followups (followup_id, run_id, seq, payload, stored_at)
                       VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (followup_id) DO NOTHING";
            let (id, run_id) = (followup.followup_id.to_string(), followup.run_id.to_string());
            let payload = store::json_text(followup)?;
            let now = Time::now().as_millis();
            let new = tx.execute(sql, params![id, run_id, event.seq, payload, now])?;
            notes::mark_handled(tx, event)?;
            Ok(new > 0)
        })
    }

    /// The follow-ups of a run that have no final state, in the order they came.
    pub fn open_followups(&self, run_id: Uuid) -> Result<Vec<StoredFollowup>, StoreError> {
        let sql = format!("{SELECT} WHERE run_id = ?1 AND settled = 0 ORDER BY position");
        store::all(self.reader(), &sql, [run_id.to_string()], read)
    }

    /// The runs that have follow-ups without a final state.
    pub fn runs_with_open_followups(&self) -> Result<Vec<Uuid>, StoreError> {
        let sql = "SELECT run_id FROM followups WHERE settled = 0 GROUP BY run_id ORDER BY min(position)";
        store::all(self.reader(), sql, [], |row| store::uuid(row, "run_id"))
    }

    /// One follow-up by its id.
    pub fn followup(&self, followup_id: Uuid) -> Result<Option<StoredFollowup>, StoreError> {
        let sql = format!("{SELECT} WHERE followup_id = ?1");
        store::one(self.reader(), &sql, [followup_id.to_string()], read)
    }

    /// Stores what became of a follow-up; `false` when it has a final state already, which then stays.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] for a follow-up that was never stored.
    pub fn settle_followup(&mut self, followup_id: Uuid, state: FollowupState) -> Result<bool, StoreError> {
        self.write(|tx| {
            let id = followup_id.to_string();
            let sql = "SELECT settled FROM followups WHERE followup_id = ?1";
            let settled: Option<bool> = tx.query_row(sql, [&id], |row| row.get(0)).optional()?;
            if settled.ok_or(StoreError::Unknown)? {
                return Ok(false);
            }
            let ends = state != FollowupState::Delivered;
            let sql = "UPDATE followups SET state = ?2, settled = ?3 WHERE followup_id = ?1";
            tx.execute(sql, params![id, store::json_text(&state)?, ends])?;
            Ok(true)
        })
    }
}

fn read(row: &Row<'_>) -> Result<StoredFollowup, StoreError> {
    Ok(StoredFollowup {
        followup: store::json(row, "payload")?,
        seq: row.get("seq")?,
        state: store::opt_json(row, "state")?,
    })
}
