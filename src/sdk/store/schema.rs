//! The tables of the store and how an older file becomes a present one.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;

/// One step per schema version; the file's `user_version` counts the steps it has seen.
/// A step that was released is never changed: a new one is added behind it.
const STEPS: &[&str] = &[FIRST];

/// `exp` counts seconds as tokens do, every other time milliseconds since 1970.
/// Stops, follow-ups and refusals name runs that the inbox need not know, so they refer to no entry.
const FIRST: &str = "
CREATE TABLE entries (
    position    INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      TEXT NOT NULL UNIQUE,
    seq         INTEGER NOT NULL,
    event_id    TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    invocation  TEXT NOT NULL,
    token       TEXT NOT NULL,
    token_jti   TEXT NOT NULL,
    token_exp   INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('accepted', 'starting', 'started', 'closed')),
    start       TEXT,
    started     TEXT
) STRICT;
CREATE INDEX entries_open ON entries (position) WHERE state <> 'closed';
CREATE TABLE jtis (
    jti    TEXT NOT NULL PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES entries (run_id) ON DELETE CASCADE,
    exp    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jtis_of_run ON jtis (run_id);
CREATE TABLE stops (
    run_id    TEXT NOT NULL PRIMARY KEY,
    reason    TEXT NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE followups (
    position    INTEGER PRIMARY KEY AUTOINCREMENT,
    followup_id TEXT NOT NULL UNIQUE,
    run_id      TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    payload     TEXT NOT NULL,
    state       TEXT,
    settled     INTEGER NOT NULL DEFAULT 0,
    stored_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX followups_open ON followups (run_id, position) WHERE settled = 0;
CREATE TABLE refusals (
    run_id    TEXT NOT NULL PRIMARY KEY,
    reason    TEXT NOT NULL,
    settled   INTEGER NOT NULL DEFAULT 0,
    stored_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE handled_events (
    event_id  TEXT NOT NULL PRIMARY KEY,
    seq       INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE deliveries (
    position  INTEGER PRIMARY KEY AUTOINCREMENT,
    key       TEXT NOT NULL UNIQUE,
    run_id    TEXT NOT NULL,
    delivery  TEXT NOT NULL,
    outcome   TEXT,
    attempts  INTEGER NOT NULL DEFAULT 0,
    next_try  INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT;
CREATE INDEX deliveries_pending ON deliveries (run_id, position) WHERE outcome IS NULL;
";

/// Fails for a file that a later version of this program has written, before anything is touched.
pub fn refuse_newer(connection: &Connection) -> Result<(), StoreError> {
    version(connection).map(drop)
}

/// Applies the steps that the file has not seen, all or none.
pub fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    if version(connection)? == STEPS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    apply_missing(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn apply_missing(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    for step in STEPS.iter().skip(version(transaction)?) {
        transaction.execute_batch(step)?;
    }
    let seen = i64::try_from(STEPS.len()).map_err(|_| StoreError::Internal)?;
    transaction.pragma_update(None, "user_version", seen)?;
    Ok(())
}

/// How many steps the file has seen.
fn version(connection: &Connection) -> Result<usize, StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match usize::try_from(found) {
        Ok(known) if known <= STEPS.len() => Ok(known),
        _ => Err(StoreError::TooNew { found }),
    }
}
