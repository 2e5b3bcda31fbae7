//! Messages of threads, and which of them the thread's session has.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{At, Id, Tx, Word};
use crate::sdk::wire::Time;
use crate::sdk::wire::message::Origin;

/// One message.
#[derive(Clone, Debug)]
pub struct MessageRow {
    /// Identity.
    pub id: Uuid,
    /// The thread.
    pub thread_id: Uuid,
    /// Position in the thread, from 1.
    pub seq: i64,
    /// Who wrote it.
    pub author_id: Uuid,
    /// How it came in.
    pub origin: Origin,
    /// When.
    pub created_at: Time,
    /// Markdown.
    pub content_md: String,
    /// The sender's id of it.
    pub client_msg_id: Option<Uuid>,
    /// Digest of the request that made it.
    pub fingerprint: Option<String>,
    /// The run that answered, or that it opened.
    pub run_id: Option<Uuid>,
    /// The follow-up it became.
    pub followup_id: Option<Uuid>,
    /// The session that has it.
    pub delivered_ref: Option<String>,
}

const COLUMNS: &str = "id, thread_id, seq, author_id, origin, created_at, content_md, client_msg_id, fingerprint, \
                       run_id, followup_id, delivered_ref";

fn read(row: &Row<'_>) -> rusqlite::Result<MessageRow> {
    Ok(MessageRow {
        id: row.get::<_, Id>(0)?.0,
        thread_id: row.get::<_, Id>(1)?.0,
        seq: row.get(2)?,
        author_id: row.get::<_, Id>(3)?.0,
        origin: row.get::<_, Word<_>>(4)?.0,
        created_at: row.get::<_, At>(5)?.0,
        content_md: row.get(6)?,
        client_msg_id: row.get::<_, Option<Id>>(7)?.map(|id| id.0),
        fingerprint: row.get(8)?,
        run_id: row.get::<_, Option<Id>>(9)?.map(|id| id.0),
        followup_id: row.get::<_, Option<Id>>(10)?.map(|id| id.0),
        delivered_ref: row.get(11)?,
    })
}

/// Keeps a new message.
pub fn add(tx: &Tx<'_>, row: &MessageRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            Id(row.id),
            Id(row.thread_id),
            row.seq,
            Id(row.author_id),
            Word(row.origin),
            At(row.created_at),
            row.content_md,
            row.client_msg_id.map(Id),
            row.fingerprint,
            row.run_id.map(Id),
            row.followup_id.map(Id),
            row.delivered_ref
        ],
    )?;
    Ok(())
}

/// The message `id`.
pub fn get(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Option<MessageRow>> {
    tx.query_row(&format!("SELECT {COLUMNS} FROM messages WHERE id = ?1"), [Id(id)], read).optional()
}

/// The message that `author` sent under `client_msg_id`.
pub fn by_client_id(tx: &Tx<'_>, author: Uuid, client_msg_id: Uuid) -> rusqlite::Result<Option<MessageRow>> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE author_id = ?1 AND client_msg_id = ?2");
    tx.query_row(&sql, params![Id(author), Id(client_msg_id)], read).optional()
}

/// The newest `limit` messages of a thread between two positions (both outside), ascending.
pub fn between(
    tx: &Tx<'_>,
    thread_id: Uuid,
    above: i64,
    below: i64,
    limit: i64,
) -> rusqlite::Result<Vec<MessageRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM messages WHERE thread_id = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4"
    );
    let mut rows: Vec<MessageRow> = tx
        .prepare(&sql)?
        .query_map(params![Id(thread_id), above, below, limit], read)?
        .collect::<rusqlite::Result<_>>()?;
    rows.reverse();
    Ok(rows)
}

/// Names the run a message opened; a follow-up stays named beside it.
pub fn set_run(tx: &Tx<'_>, id: Uuid, run_id: Uuid) -> rusqlite::Result<()> {
    tx.execute("UPDATE messages SET run_id = ?2 WHERE id = ?1", params![Id(id), Id(run_id)])?;
    Ok(())
}

/// Names the follow-up a message became.
pub fn set_followup(tx: &Tx<'_>, id: Uuid, followup_id: Uuid) -> rusqlite::Result<()> {
    tx.execute("UPDATE messages SET followup_id = ?2 WHERE id = ?1", params![Id(id), Id(followup_id)])?;
    Ok(())
}

/// The session `reference` has the messages above `above` up to `to`.
pub fn set_delivered(
    tx: &Tx<'_>,
    thread_id: Uuid,
    above: i64,
    to: i64,
    reference: &str,
) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE messages SET delivered_ref = ?4 WHERE thread_id = ?1 AND seq > ?2 AND seq <= ?3",
        params![Id(thread_id), above, to, reference],
    )?;
    Ok(())
}

/// The session `reference` has the message `id`.
pub fn set_one_delivered(tx: &Tx<'_>, id: Uuid, reference: &str) -> rusqlite::Result<()> {
    tx.execute("UPDATE messages SET delivered_ref = ?2 WHERE id = ?1", params![Id(id), reference])?;
    Ok(())
}

/// The highest position up to which the session `reference` has every message of the thread.
pub fn floor(tx: &Tx<'_>, thread_id: Uuid, reference: &str) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce((SELECT min(seq) - 1 FROM messages WHERE thread_id = ?1 AND delivered_ref IS NOT ?2), \
               (SELECT coalesce(max(seq), 0) FROM messages WHERE thread_id = ?1))";
    tx.query_row(sql, params![Id(thread_id), reference], |row| row.get(0))
}
