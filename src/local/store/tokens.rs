//! Invocation tokens that were given out; one that is not here is nobody's.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{Id, Tx};

/// One token.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// Its claim `jti`.
    pub jti: String,
    /// The run it binds to.
    pub run_id: Uuid,
    /// The compact form.
    pub token: String,
    /// Its claim `exp`, seconds since 1970.
    pub exp: i64,
}

const COLUMNS: &str = "jti, run_id, token, exp";

fn read(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow { jti: row.get(0)?, run_id: row.get::<_, Id>(1)?.0, token: row.get(2)?, exp: row.get(3)? })
}

/// Keeps a token under the hash of its compact form; `renewed_from` is the `jti` it was given for.
pub fn add(tx: &Tx<'_>, row: &TokenRow, hash: &str, renewed_from: Option<&str>) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO invocation_tokens (hash, jti, run_id, token, exp, renewed_from) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![hash, row.jti, Id(row.run_id), row.token, row.exp, renewed_from],
    )?;
    Ok(())
}

/// The token with this hash.
pub fn by_hash(tx: &Tx<'_>, hash: &str) -> rusqlite::Result<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM invocation_tokens WHERE hash = ?1");
    tx.query_row(&sql, [hash], read).optional()
}

/// The token of a run with this `jti`.
pub fn by_jti(tx: &Tx<'_>, run_id: Uuid, jti: &str) -> rusqlite::Result<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM invocation_tokens WHERE run_id = ?1 AND jti = ?2");
    tx.query_row(&sql, params![Id(run_id), jti], read).optional()
}

/// The token that was given for `jti`.
pub fn renewal_of(tx: &Tx<'_>, jti: &str) -> rusqlite::Result<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM invocation_tokens WHERE renewed_from = ?1");
    tx.query_row(&sql, [jti], read).optional()
}

/// The newest token of a run: the only one that is not superseded.
pub fn newest(tx: &Tx<'_>, run_id: Uuid) -> rusqlite::Result<Option<TokenRow>> {
    let sql = format!("SELECT {COLUMNS} FROM invocation_tokens WHERE run_id = ?1 ORDER BY n DESC LIMIT 1");
    tx.query_row(&sql, [Id(run_id)], read).optional()
}

/// Ends the life of a run's tokens now.
pub fn expire(tx: &Tx<'_>, run_id: Uuid, now: i64) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE invocation_tokens SET exp = min(exp, ?2) WHERE run_id = ?1",
        params![Id(run_id), now],
    )?;
    Ok(())
}
