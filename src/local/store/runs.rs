//! Runs: state, document, and who waits for whom in a thread.

use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;
use uuid::Uuid;

use super::{At, Id, Json, Tx, Word};
use crate::sdk::wire::Time;
use crate::sdk::wire::run::{BillingMode, CostReport, RunInfo, RunState, ToolClass};

/// One run.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// Identity.
    pub id: Uuid,
    /// The thread.
    pub thread_id: Uuid,
    /// The thread's forum.
    pub channel_id: Uuid,
    /// The message that opened it.
    pub trigger_message_id: Uuid,
    /// The person it acts for.
    pub acting_for: Uuid,
    /// How far it is.
    pub state: RunState,
    /// Why it ended.
    pub reason: Option<String>,
    /// Version of the document.
    pub version: i64,
    /// What the runner patched.
    pub document: Value,
    /// What it cost.
    pub costs: Option<Vec<CostReport>>,
    /// Who pays.
    pub billing_mode: BillingMode,
    /// What it may do.
    pub tool_class: ToolClass,
    /// Why it shall stop.
    pub cancel_reason: Option<String>,
    /// Whether its invocation was sent; a later run of a thread waits for the earlier one.
    pub dispatched: bool,
    /// Position below which its context sent nothing.
    pub context_floor: i64,
    /// When it was opened.
    pub created_at: Time,
    /// When it was started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
}

impl RunRow {
    /// As `getRun` shows it.
    pub fn info(&self) -> RunInfo {
        RunInfo { run_id: self.id, state: self.state, version: self.version }
    }
}

const COLUMNS: &str = "id, thread_id, channel_id, trigger_message_id, acting_for, state, reason, version, document, \
                       costs, billing_mode, tool_class, cancel_reason, dispatched, context_floor, created_at, \
                       started_at, finished_at";
const OPEN: &str = "state IN ('queued', 'running', 'cancelling')";

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: row.get::<_, Id>(0)?.0,
        thread_id: row.get::<_, Id>(1)?.0,
        channel_id: row.get::<_, Id>(2)?.0,
        trigger_message_id: row.get::<_, Id>(3)?.0,
        acting_for: row.get::<_, Id>(4)?.0,
        state: row.get::<_, Word<_>>(5)?.0,
        reason: row.get(6)?,
        version: row.get(7)?,
        document: row.get::<_, Json<_>>(8)?.0,
        costs: row.get::<_, Option<Json<_>>>(9)?.map(|costs| costs.0),
        billing_mode: row.get::<_, Word<_>>(10)?.0,
        tool_class: row.get::<_, Word<_>>(11)?.0,
        cancel_reason: row.get(12)?,
        dispatched: row.get(13)?,
        context_floor: row.get(14)?,
        created_at: row.get::<_, At>(15)?.0,
        started_at: row.get::<_, Option<At>>(16)?.map(|at| at.0),
        finished_at: row.get::<_, Option<At>>(17)?.map(|at| at.0),
    })
}

fn list(tx: &Tx<'_>, tail: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<RunRow>> {
    tx.prepare(&format!("SELECT {COLUMNS} FROM runs {tail}"))?.query_map(params, read)?.collect()
}

/// Keeps a new run.
pub fn add(tx: &Tx<'_>, row: &RunRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO runs (id, thread_id, channel_id, trigger_message_id, acting_for, state, version, document, \
         billing_mode, tool_class, dispatched, context_floor, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, ?11)",
        params![
            Id(row.id),
            Id(row.thread_id),
            Id(row.channel_id),
            Id(row.trigger_message_id),
            Id(row.acting_for),
            Word(row.state),
            row.version,
            Json(&row.document),
            Word(row.billing_mode),
            Word(row.tool_class),
            At(row.created_at)
        ],
    )?;
    Ok(())
}

/// Keeps the changeable members of `row`.
pub fn update(tx: &Tx<'_>, row: &RunRow) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE runs SET state = ?2, reason = ?3, version = ?4, document = ?5, costs = ?6, cancel_reason = ?7, \
         dispatched = ?8, context_floor = ?9, started_at = ?10, finished_at = ?11 WHERE id = ?1",
        params![
            Id(row.id),
            Word(row.state),
            row.reason,
            row.version,
            Json(&row.document),
            row.costs.as_ref().map(Json),
            row.cancel_reason,
            row.dispatched,
            row.context_floor,
            row.started_at.map(At),
            row.finished_at.map(At)
        ],
    )?;
    Ok(())
}

/// The run `id`.
pub fn get(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Option<RunRow>> {
    tx.query_row(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"), [Id(id)], read).optional()
}

/// The open runs of a thread, oldest first.
pub fn open_in(tx: &Tx<'_>, thread_id: Uuid) -> rusqlite::Result<Vec<RunRow>> {
    list(tx, &format!("WHERE thread_id = ?1 AND {OPEN} ORDER BY created_at, id"), [Id(thread_id)])
}

/// Every run of a thread, newest first.
pub fn of_thread(tx: &Tx<'_>, thread_id: Uuid, limit: i64) -> rusqlite::Result<Vec<RunRow>> {
    list(tx, "WHERE thread_id = ?1 ORDER BY created_at DESC, id DESC LIMIT ?2", params![Id(thread_id), limit])
}

/// The started runs that have not ended.
pub fn started(tx: &Tx<'_>) -> rusqlite::Result<Vec<RunRow>> {
    list(tx, "WHERE state IN ('running', 'cancelling') ORDER BY created_at", [])
}

/// Threads in which a run waits that was never sent.
pub fn waiting_threads(tx: &Tx<'_>) -> rusqlite::Result<Vec<Uuid>> {
    tx.prepare("SELECT DISTINCT thread_id FROM runs WHERE state = 'queued' AND dispatched = 0")?
        .query_map([], |row| row.get::<_, Id>(0).map(|id| id.0))?
        .collect()
}
