//! Events of the gateway: kept until every consumer that ever polled has acknowledged them.

use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Id, Json, Tx};
use crate::sdk::wire::Time;

/// Keeps a new event of `kind` with `payload`: its position. The event is stored as it is sent, so that
/// every repeat has the same `event_id`.
pub fn add(tx: &Tx<'_>, agent: Uuid, kind: &str, payload: &Value) -> rusqlite::Result<i64> {
    let event =
        json!({"event_id": Uuid::now_v7(), "type": kind, "occurred_at": Time::now(), "payload": payload});
    add_raw(tx, agent, &event)
}

/// Keeps an event exactly as given; only its `seq` is added when it is sent.
pub fn add_raw(tx: &Tx<'_>, agent: Uuid, event: &Value) -> rusqlite::Result<i64> {
    tx.execute("INSERT INTO events (agent_id, event) VALUES (?1, ?2)", params![Id(agent), Json(event)])?;
    Ok(tx.last_insert_rowid())
}

/// Unacknowledged events of a consumer above `after`, ascending.
pub fn pending(
    tx: &Tx<'_>,
    agent: Uuid,
    consumer: &str,
    after: i64,
    max: i64,
) -> rusqlite::Result<Vec<Value>> {
    let sql = "SELECT seq, event FROM events e WHERE agent_id = ?1 AND seq > ?3 AND NOT EXISTS \
               (SELECT 1 FROM acks a WHERE a.agent_id = ?1 AND a.consumer = ?2 AND a.seq = e.seq) \
               ORDER BY seq LIMIT ?4";
    tx.prepare(sql)?
        .query_map(params![Id(agent), consumer, after, max], |row| {
            let (seq, Json(mut event)) = (row.get::<_, i64>(0)?, row.get::<_, Json<Value>>(1)?);
            if let Value::Object(members) = &mut event {
                members.entry("seq").or_insert(seq.into());
            }
            Ok(event)
        })?
        .collect()
}

/// Whether the consumer is known, and whether events were lost for it.
pub fn consumer(tx: &Tx<'_>, agent: Uuid, name: &str) -> rusqlite::Result<Option<bool>> {
    let sql = "SELECT gap FROM consumers WHERE agent_id = ?1 AND name = ?2";
    tx.query_row(sql, params![Id(agent), name], |row| row.get(0)).optional()
}

/// How many consumers an agent has.
pub fn consumer_count(tx: &Tx<'_>, agent: Uuid) -> rusqlite::Result<i64> {
    tx.query_row("SELECT count(*) FROM consumers WHERE agent_id = ?1", [Id(agent)], |row| row.get(0))
}

/// Keeps a consumer and whether events were lost for it.
pub fn set_consumer(tx: &Tx<'_>, agent: Uuid, name: &str, gap: bool) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO consumers VALUES (?1, ?2, ?3) ON CONFLICT (agent_id, name) DO UPDATE SET gap = ?3",
        params![Id(agent), name, gap],
    )?;
    Ok(())
}

/// Acknowledges `seqs`; unknown and repeated ones are no error. What everybody has acknowledged goes.
pub fn ack(tx: &Tx<'_>, agent: Uuid, consumer: &str, seqs: &[i64]) -> rusqlite::Result<()> {
    let mut one = tx.prepare(
        "INSERT OR IGNORE INTO acks SELECT ?1, ?2, seq FROM events WHERE agent_id = ?1 AND seq = ?3",
    )?;
    for seq in seqs {
        one.execute(params![Id(agent), consumer, seq])?;
    }
    tx.execute(
        "DELETE FROM events WHERE agent_id = ?1 AND (SELECT count(*) FROM acks a WHERE a.seq = events.seq) >= \
         (SELECT count(*) FROM consumers c WHERE c.agent_id = ?1)",
        [Id(agent)],
    )?;
    Ok(())
}

/// Loses every event of an agent and tells its consumers with their next poll.
pub fn lose(tx: &Tx<'_>, agent: Uuid) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM events WHERE agent_id = ?1", [Id(agent)])?;
    tx.execute("UPDATE consumers SET gap = 1 WHERE agent_id = ?1", [Id(agent)])?;
    Ok(())
}
