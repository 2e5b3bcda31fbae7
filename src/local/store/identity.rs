//! Who is here: the instance, its principals, the agent's tokens and the signing keys.

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::{Id, Tx};
use crate::sdk::wire::event::Principal;

/// The ids of this server, made once.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRow {
    /// `iss` of every invocation token.
    pub id: Uuid,
    /// The space of every channel.
    pub space_id: Uuid,
    /// The one agent that serves the projects.
    pub agent_id: Uuid,
    /// The one person.
    pub person_id: Uuid,
}

/// What a principal is.
#[derive(Clone, Debug)]
pub struct PrincipalRow {
    /// Identity.
    pub id: Uuid,
    /// `agent`, `person` or `import`.
    pub kind: String,
    /// Display name.
    pub display_name: String,
    /// Whether it may trigger the agent.
    pub trusted: bool,
    /// Whether it may upload, and an agent for it (SR9).
    pub may_upload: bool,
}

impl PrincipalRow {
    /// As the wire names a principal.
    pub fn principal(&self) -> Principal {
        Principal { principal_id: self.id, display_name: self.display_name.clone() }
    }
}

/// The instance, when it was made.
pub fn instance(tx: &Tx<'_>) -> rusqlite::Result<Option<InstanceRow>> {
    tx.query_row("SELECT id, space_id, agent_id, person_id FROM instance", [], |row| {
        Ok(InstanceRow {
            id: row.get::<_, Id>(0)?.0,
            space_id: row.get::<_, Id>(1)?.0,
            agent_id: row.get::<_, Id>(2)?.0,
            person_id: row.get::<_, Id>(3)?.0,
        })
    })
    .optional()
}

/// Keeps the instance.
pub fn make_instance(tx: &Tx<'_>, row: &InstanceRow) -> rusqlite::Result<()> {
    let ids = params![Id(row.id), Id(row.space_id), Id(row.agent_id), Id(row.person_id)];
    tx.execute("INSERT INTO instance VALUES (1, ?1, ?2, ?3, ?4, NULL)", ids)?;
    Ok(())
}

/// The port that was used first, kept so that the page's address stays the same.
pub fn port(tx: &Tx<'_>) -> rusqlite::Result<Option<u16>> {
    tx.query_row("SELECT port FROM instance", [], |row| row.get(0)).optional().map(Option::flatten)
}

/// Keeps the port, when none is kept.
pub fn keep_port(tx: &Tx<'_>, port: u16) -> rusqlite::Result<()> {
    tx.execute("UPDATE instance SET port = ?1 WHERE port IS NULL", [port])?;
    Ok(())
}

/// Adds a principal.
pub fn add_principal(tx: &Tx<'_>, row: &PrincipalRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO principals VALUES (?1, ?2, ?3, ?4, ?5)",
        params![Id(row.id), row.kind, row.display_name, row.trusted, row.may_upload],
    )?;
    Ok(())
}

/// The principal `id`.
pub fn principal(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<PrincipalRow> {
    tx.query_row(
        "SELECT kind, display_name, trusted, may_upload FROM principals WHERE id = ?1",
        [Id(id)],
        |row| {
            Ok(PrincipalRow {
                id,
                kind: row.get(0)?,
                display_name: row.get(1)?,
                trusted: row.get(2)?,
                may_upload: row.get(3)?,
            })
        },
    )
}

/// Gives `agent` the token with this hash instead of its older ones.
pub fn set_agent_token(tx: &Tx<'_>, agent: Uuid, hash: &str) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM agent_tokens WHERE agent_id = ?1", [Id(agent)])?;
    tx.execute("INSERT INTO agent_tokens VALUES (?1, ?2, NULL)", params![hash, Id(agent)])?;
    Ok(())
}

/// Says whether a principal may upload.
pub fn set_may_upload(tx: &Tx<'_>, id: Uuid, may_upload: bool) -> rusqlite::Result<()> {
    tx.execute("UPDATE principals SET may_upload = ?2 WHERE id = ?1", params![Id(id), may_upload])?;
    Ok(())
}

/// An agent's token.
#[derive(Clone, Debug)]
pub struct AgentToken {
    /// Whose it is.
    pub agent_id: Uuid,
    /// Thumbprint of the key that it is bound to (RFC 9449 section 6).
    pub thumbprint: Option<String>,
}

/// The token with this hash.
pub fn agent_token(tx: &Tx<'_>, hash: &str) -> rusqlite::Result<Option<AgentToken>> {
    tx.query_row("SELECT agent_id, thumbprint FROM agent_tokens WHERE hash = ?1", [hash], |row| {
        Ok(AgentToken { agent_id: row.get::<_, Id>(0)?.0, thumbprint: row.get(1)? })
    })
    .optional()
}

/// Binds the tokens of an agent to the key with this thumbprint, or to none.
pub fn bind_agent_token(tx: &Tx<'_>, agent: Uuid, thumbprint: Option<&str>) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE agent_tokens SET thumbprint = ?2 WHERE agent_id = ?1",
        params![Id(agent), thumbprint],
    )?;
    Ok(())
}

/// Keeps a new signing key and publishes it.
pub fn add_key(tx: &Tx<'_>, kid: &str, pkcs8: &[u8]) -> rusqlite::Result<()> {
    tx.execute("INSERT INTO signing_keys (kid, pkcs8, published) VALUES (?1, ?2, 1)", params![kid, pkcs8])?;
    Ok(())
}

/// The published keys, the newest last: it signs, the older ones only verify.
pub fn keys(tx: &Tx<'_>) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    let mut query = tx.prepare("SELECT kid, pkcs8 FROM signing_keys WHERE published = 1 ORDER BY n")?;
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Takes every key but the newest out of the published set.
pub fn retire_older_keys(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.execute("UPDATE signing_keys SET published = 0 WHERE n < (SELECT max(n) FROM signing_keys)", [])?;
    Ok(())
}
