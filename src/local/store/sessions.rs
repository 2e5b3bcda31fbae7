//! The runtime's session of each thread.

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::{Id, Tx};
use crate::sdk::wire::run::AgentSession;

/// The session of a thread, when it has one.
pub fn get(tx: &Tx<'_>, thread_id: Uuid) -> rusqlite::Result<Option<AgentSession>> {
    let sql = "SELECT external_session_ref, started, version FROM sessions WHERE thread_id = ?1";
    tx.query_row(sql, [Id(thread_id)], |row| {
        Ok(AgentSession { external_session_ref: row.get(0)?, started: row.get(1)?, version: row.get(2)? })
    })
    .optional()
}

/// Keeps the session of a thread.
pub fn set(
    tx: &Tx<'_>,
    thread_id: Uuid,
    session: &AgentSession,
    model: Option<&str>,
) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (thread_id) DO UPDATE SET \
         external_session_ref = ?2, started = ?3, version = ?4, model = coalesce(?5, model)",
        params![Id(thread_id), session.external_session_ref, session.started, session.version, model],
    )?;
    Ok(())
}
