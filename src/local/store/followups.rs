//! Follow-ups: messages that came while a run worked.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{Id, Tx, Word};
use crate::sdk::wire::person::Followup;
use crate::sdk::wire::run::FollowupState;

/// One follow-up.
#[derive(Clone, Copy, Debug)]
pub struct FollowupRow {
    /// Identity.
    pub id: Uuid,
    /// The run it was sent to.
    pub run_id: Uuid,
    /// The message.
    pub message_id: Uuid,
    /// What became of it.
    pub state: Option<FollowupState>,
}

impl FollowupRow {
    /// As a run document shows it.
    pub fn view(&self) -> Followup {
        Followup { followup_id: self.id, message_id: self.message_id, state: self.state }
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<FollowupRow> {
    Ok(FollowupRow {
        id: row.get::<_, Id>(0)?.0,
        run_id: row.get::<_, Id>(1)?.0,
        message_id: row.get::<_, Id>(2)?.0,
        state: row.get::<_, Option<Word<_>>>(3)?.map(|word| word.0),
    })
}

/// Keeps a new follow-up.
pub fn add(tx: &Tx<'_>, row: &FollowupRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO followups VALUES (?1, ?2, ?3, NULL)",
        params![Id(row.id), Id(row.run_id), Id(row.message_id)],
    )?;
    Ok(())
}

/// The follow-up `id`.
pub fn get(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Option<FollowupRow>> {
    tx.query_row("SELECT * FROM followups WHERE id = ?1", [Id(id)], read).optional()
}

/// The follow-ups of a run, oldest first.
pub fn of_run(tx: &Tx<'_>, run_id: Uuid) -> rusqlite::Result<Vec<FollowupRow>> {
    tx.prepare("SELECT * FROM followups WHERE run_id = ?1 ORDER BY id")?
        .query_map([Id(run_id)], read)?
        .collect()
}

/// Keeps what became of a follow-up.
pub fn set_state(tx: &Tx<'_>, id: Uuid, state: FollowupState) -> rusqlite::Result<()> {
    tx.execute("UPDATE followups SET state = ?2 WHERE id = ?1", params![Id(id), Word(state)])?;
    Ok(())
}
