//! Answers kept under their `Idempotency-Key`, in the same transaction as what they answer.

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::{At, Id, Tx};
use crate::sdk::wire::Time;

/// How long answers are kept; a runner repeats for at most `adapter.max_event_age`, hours.
const KEPT_MILLIS: i64 = 7 * 24 * 60 * 60 * 1000;

/// One kept answer.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    /// Digest of the request.
    pub fingerprint: String,
    /// HTTP status, a 2xx.
    pub status: u16,
    /// Its ETag, quoted.
    pub etag: Option<String>,
    /// The JSON text.
    pub body: String,
}

/// The answer that `principal` got under `key`.
pub fn get(tx: &Tx<'_>, principal: Uuid, key: Uuid) -> rusqlite::Result<Option<KeptAnswer>> {
    let sql = "SELECT fingerprint, status, etag, body FROM idempotency WHERE principal_id = ?1 AND key = ?2";
    tx.query_row(sql, params![Id(principal), Id(key)], |row| {
        Ok(KeptAnswer { fingerprint: row.get(0)?, status: row.get(1)?, etag: row.get(2)?, body: row.get(3)? })
    })
    .optional()
}

/// Keeps an answer and forgets the ones that are too old.
pub fn add(tx: &Tx<'_>, principal: Uuid, key: Uuid, answer: &KeptAnswer) -> rusqlite::Result<()> {
    let now = Time::now();
    let oldest = Time::from_millis(now.as_millis() - KEPT_MILLIS);
    tx.execute("DELETE FROM idempotency WHERE made_at < ?1", [At(oldest)])?;
    tx.execute(
        "INSERT INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![Id(principal), Id(key), answer.fingerprint, answer.status, answer.etag, answer.body, At(now)],
    )?;
    Ok(())
}
