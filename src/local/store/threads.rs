//! Threads: title, version, position of the newest message.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{At, Id, Tx, Word};
use crate::sdk::wire::Time;
use crate::sdk::wire::message::{ThreadInfo, TitleSource};

/// One thread.
#[derive(Clone, Debug)]
pub struct ThreadRow {
    /// Identity.
    pub id: Uuid,
    /// Its forum.
    pub channel_id: Uuid,
    /// Title, empty until somebody chose one.
    pub title: String,
    /// Who chose it.
    pub title_source: TitleSource,
    /// Version for `If-Match`.
    pub version: i64,
    /// When it was opened.
    pub created_at: Time,
    /// When something last happened.
    pub updated_at: Time,
}

impl ThreadRow {
    /// As `getThread` shows it.
    pub fn info(&self) -> ThreadInfo {
        ThreadInfo {
            id: self.id,
            title: self.title.clone(),
            title_source: self.title_source,
            version: self.version,
        }
    }
}

const COLUMNS: &str = "id, channel_id, title, title_source, version, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<ThreadRow> {
    Ok(ThreadRow {
        id: row.get::<_, Id>(0)?.0,
        channel_id: row.get::<_, Id>(1)?.0,
        title: row.get(2)?,
        title_source: row.get::<_, Word<_>>(3)?.0,
        version: row.get(4)?,
        created_at: row.get::<_, At>(5)?.0,
        updated_at: row.get::<_, At>(6)?.0,
    })
}

/// Keeps a new thread.
pub fn add(tx: &Tx<'_>, row: &ThreadRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO threads VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?6)",
        params![
            Id(row.id),
            Id(row.channel_id),
            row.title,
            Word(row.title_source),
            row.version,
            At(row.created_at)
        ],
    )?;
    Ok(())
}

/// The thread `id`.
pub fn get(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Option<ThreadRow>> {
    tx.query_row(&format!("SELECT {COLUMNS} FROM threads WHERE id = ?1"), [Id(id)], read).optional()
}

/// One page of a forum's threads, newest first, below the position `before` when given.
pub fn list(
    tx: &Tx<'_>,
    channel_id: Uuid,
    before: Option<(Time, Uuid)>,
    limit: i64,
) -> rusqlite::Result<Vec<ThreadRow>> {
    let (at, id) = before.unwrap_or((Time::from_millis(i64::MAX), Uuid::max()));
    let sql = format!(
        "SELECT {COLUMNS} FROM threads WHERE channel_id = ?1 AND (updated_at, id) < (?2, ?3) \
         ORDER BY updated_at DESC, id DESC LIMIT ?4"
    );
    tx.prepare(&sql)?.query_map(params![Id(channel_id), At(at), Id(id), limit], read)?.collect()
}

/// Sets the title, counts the version up.
pub fn set_title(tx: &Tx<'_>, id: Uuid, title: &str, source: TitleSource) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE threads SET title = ?2, title_source = ?3, version = version + 1, updated_at = ?4 WHERE id = ?1",
        params![Id(id), title, Word(source), At(Time::now())],
    )?;
    Ok(())
}

/// The position of the thread's next message; something happened in it.
pub fn next_seq(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<i64> {
    tx.query_row(
        "UPDATE threads SET last_seq = last_seq + 1, updated_at = ?2 WHERE id = ?1 RETURNING last_seq",
        params![Id(id), At(Time::now())],
        |row| row.get(0),
    )
}
