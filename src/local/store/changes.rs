//! What changed for the person: one row per thing with the position of its newest change.
//!
//! The payload is read when it is sent, so a reader that was away gets each thing once, as it is now.

use std::collections::BTreeMap;

use rusqlite::params;
use uuid::Uuid;

use super::{Json, Tx, Word};
use crate::sdk::wire::person::ChangeKind;

/// Things whose newest change is remembered; a reader that was away for longer loads anew.
const KEPT: i64 = 10_000;

/// The ids of a change, by name.
pub type Ids = BTreeMap<String, Uuid>;

/// One remembered change.
#[derive(Clone, Debug)]
pub struct ChangeRow {
    /// Position.
    pub seq: i64,
    /// What changed.
    pub kind: ChangeKind,
    /// The ids involved.
    pub ids: Ids,
}

/// Notes that the thing `ids[0]` of `kind` changed.
pub fn note(tx: &Tx<'_>, kind: ChangeKind, ids: &[(&str, Uuid)]) -> rusqlite::Result<()> {
    let subject = ids.first().map(|(_, id)| id.to_string()).unwrap_or_default();
    let named: Ids = ids.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
    tx.execute("DELETE FROM changes WHERE type = ?1 AND subject = ?2", params![Word(kind), subject])?;
    tx.execute(
        "INSERT INTO changes (type, subject, ids) VALUES (?1, ?2, ?3)",
        params![Word(kind), subject, Json(&named)],
    )?;
    prune(tx)
}

fn prune(tx: &Tx<'_>) -> rusqlite::Result<()> {
    let lost: Option<i64> = tx.query_row(
        "SELECT max(seq) FROM (SELECT seq FROM changes ORDER BY seq DESC LIMIT -1 OFFSET ?1)",
        [KEPT],
        |row| row.get(0),
    )?;
    if let Some(lost) = lost {
        tx.execute("DELETE FROM changes WHERE seq <= ?1", [lost])?;
        tx.execute("UPDATE change_history SET oldest = ?1", [lost])?;
    }
    Ok(())
}

/// Changes above `after`, ascending, at most `max`.
pub fn above(tx: &Tx<'_>, after: i64, max: i64) -> rusqlite::Result<Vec<ChangeRow>> {
    tx.prepare("SELECT seq, type, ids FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
        .query_map([after, max], |row| {
            Ok(ChangeRow {
                seq: row.get(0)?,
                kind: row.get::<_, Word<_>>(1)?.0,
                ids: row.get::<_, Json<_>>(2)?.0,
            })
        })?
        .collect()
}

/// The newest position, zero before the first change.
pub fn newest(tx: &Tx<'_>) -> rusqlite::Result<i64> {
    tx.query_row("SELECT coalesce(max(seq), 0) FROM changes", [], |row| row.get(0))
}

/// The oldest position from which nothing is missing.
pub fn oldest(tx: &Tx<'_>) -> rusqlite::Result<i64> {
    tx.query_row("SELECT oldest FROM change_history", [], |row| row.get(0))
}
