//! Accepted runs: an entry goes from accepted over starting and started to closed, never back past a start.

use rusqlite::{Connection, Row, Transaction, params};
use uuid::Uuid;

use super::{EventRef, notes};
use crate::sdk::store::{self, Store, StoreError};
use crate::sdk::wire::Time;
use crate::sdk::wire::event::AgentInvocation;
use crate::sdk::wire::run::{RunStart, RunStarted};

/// An invocation whose token was checked, to be accepted.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The event it came with.
    pub event: EventRef,
    /// Its payload, with the token.
    pub invocation: AgentInvocation,
    /// The token's `jti`.
    pub jti: String,
    /// The token's `exp`, seconds since 1970.
    pub exp: i64,
}

/// What acceptance made of an invocation. All of them are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// A new run.
    New,
    /// A run that is open already; its token was replaced.
    NewerToken,
    /// Nothing changed: the `jti` was seen with this run, the event is older than the stored one, or the
    /// run was refused before.
    Repeated,
    /// The run has ended here; nothing starts.
    Closed,
    /// The `jti` was seen with another run; nothing changed.
    ForeignJti,
}

/// How far an accepted run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Accepted; `startRun` was never sent, or was answered with a no.
    Accepted,
    /// `startRun` may have been sent: key and body are stored and must be repeated unchanged.
    Starting,
    /// `startRun` was answered with 200.
    Started,
    /// The run has ended; kept so that a repeated event starts nothing.
    Closed,
}

impl EntryState {
    fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Starting => "starting",
            Self::Started => "started",
            Self::Closed => "closed",
        }
    }

    fn parse(name: &str) -> Result<EntryState, StoreError> {
        [Self::Accepted, Self::Starting, Self::Started, Self::Closed]
            .into_iter()
            .find(|state| state.name() == name)
            .ok_or(StoreError::Row)
    }
}

/// A `startRun` as it is sent, every time the same.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StoredStart {
    /// The `Idempotency-Key`.
    pub key: Uuid,
    /// The body.
    pub body: RunStart,
}

/// A stop that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The reason of the request, repeated in `finishRun`.
    pub reason: String,
}

/// One accepted run.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The run.
    pub run_id: Uuid,
    /// The newest event that brought it; `occurred_at` stays that of the first one, so a redelivery makes a
    /// run no younger.
    pub event: EventRef,
    /// The payload; its token member is the newest token too.
    pub invocation: AgentInvocation,
    /// The newest token, empty once the entry is closed.
    pub token: String,
    /// The newest token's `jti`.
    pub token_jti: String,
    /// The newest token's `exp`, seconds since 1970.
    pub token_exp: i64,
    /// How far the run is.
    pub state: EntryState,
    /// The stored `startRun`, from [`EntryState::Starting`] on.
    pub start: Option<StoredStart>,
    /// Its answer, from [`EntryState::Started`] on.
    pub started: Option<RunStarted>,
    /// The stop, whenever it came, also before the run itself.
    pub stop: Option<Stop>,
}

/// Columns of an entry with its stop.
const SELECT: &str = "SELECT e.*, s.reason AS stop_reason FROM entries e LEFT JOIN stops s USING (run_id)";

impl Store {
    /// Stores an invocation and its `jti` in one transaction, or finds out that there is nothing to store.
    ///
    /// # Errors
    /// Any error means that nothing was stored: the event must not be acknowledged.
    pub fn accept(&mut self, new: &NewEntry) -> Result<Acceptance, StoreError> {
        self.write(|tx| {
            let acceptance = judge(tx, new)?;
            match acceptance {
                Acceptance::New => insert(tx, new)?,
                Acceptance::NewerToken => renew(tx, new)?,
                Acceptance::Repeated | Acceptance::Closed | Acceptance::ForeignJti => {}
            }
            if acceptance == Acceptance::Closed {
                remember_jti(tx, new.invocation.run_id, &new.jti, new.exp)?;
            }
            notes::mark_handled(tx, &new.event)?;
            Ok(acceptance)
        })
    }

    /// Whether the `jti` was seen before, with whatever run (contract, point 7).
    pub fn knows_jti(&self, jti: &str) -> Result<bool, StoreError> {
        Ok(owner(self.reader(), jti)?.is_some())
    }

    /// The entry of a run.
    pub fn entry(&self, run_id: Uuid) -> Result<Option<Entry>, StoreError> {
        let sql = format!("{SELECT} WHERE run_id = ?1");
        store::one(self.reader(), &sql, [run_id.to_string()], read)
    }

    /// Every entry that is not closed, in the order of acceptance.
    pub fn open_entries(&self) -> Result<Vec<Entry>, StoreError> {
        let sql = format!("{SELECT} WHERE state <> 'closed' ORDER BY position");
        store::all(self.reader(), &sql, [], read)
    }

    /// Stores key and body of `startRun` before they are sent, and gives what is to be sent: a start that
    /// is stored already wins, because it may have reached the server.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] without an entry, [`StoreError::State`] for a started or closed one.
    pub fn begin_start(
        &mut self,
        run_id: Uuid,
        key: Uuid,
        body: &RunStart,
    ) -> Result<StoredStart, StoreError> {
        self.write(|tx| {
            let entry = find(tx, run_id)?;
            match (entry.state, entry.start) {
                (EntryState::Accepted, _) => {}
                (EntryState::Starting, Some(stored)) => return Ok(stored),
                _ => return Err(StoreError::State),
            }
            let start = StoredStart { key, body: body.clone() };
            let sql = "UPDATE entries SET state = 'starting', start = ?2 WHERE run_id = ?1";
            tx.execute(sql, params![run_id.to_string(), store::json_text(&start)?])?;
            Ok(start)
        })
    }

    /// Takes a stored start back after the server has said no to it, so that the next attempt has a key and
    /// a body of its own. Does nothing in any other state than [`EntryState::Starting`].
    pub fn abandon_start(&mut self, run_id: Uuid) -> Result<(), StoreError> {
        let sql =
            "UPDATE entries SET state = 'accepted', start = NULL WHERE run_id = ?1 AND state = 'starting'";
        self.write(|tx| Ok(tx.execute(sql, [run_id.to_string()])?)).map(drop)
    }

    /// Stores the 200 of `startRun`. A repeat changes nothing.
    ///
    /// # Errors
    /// [`StoreError::State`] for an entry that was not starting.
    pub fn mark_started(&mut self, run_id: Uuid, started: &RunStarted) -> Result<(), StoreError> {
        self.write(|tx| match find(tx, run_id)?.state {
            EntryState::Started => Ok(()),
            EntryState::Starting => {
                let sql = "UPDATE entries SET state = 'started', started = ?2 WHERE run_id = ?1";
                tx.execute(sql, params![run_id.to_string(), store::json_text(started)?])?;
                Ok(())
            }
            EntryState::Accepted | EntryState::Closed => Err(StoreError::State),
        })
    }

    /// Closes the entry and forgets its token. A repeat, or an unknown run, changes nothing.
    pub fn close(&mut self, run_id: Uuid) -> Result<(), StoreError> {
        let sql = "UPDATE entries SET state = 'closed', token = '' WHERE run_id = ?1";
        self.write(|tx| Ok(tx.execute(sql, [run_id.to_string()])?)).map(drop)
    }

    /// Stores a renewed token and its `jti`. Does nothing for a closed or unknown entry.
    pub fn replace_token(
        &mut self,
        run_id: Uuid,
        token: &str,
        jti: &str,
        exp: i64,
    ) -> Result<(), StoreError> {
        self.write(|tx| {
            let sql = "UPDATE entries SET token = ?2, token_jti = ?3, token_exp = ?4
                       WHERE run_id = ?1 AND state <> 'closed'";
            let changed = tx.execute(sql, params![run_id.to_string(), token, jti, exp])?;
            if changed > 0 { remember_jti(tx, run_id, jti, exp) } else { Ok(()) }
        })
    }

    /// The newest token of an open entry.
    pub fn newest_token(&self, run_id: Uuid) -> Result<Option<String>, StoreError> {
        let sql = "SELECT token FROM entries WHERE run_id = ?1 AND state <> 'closed'";
        store::one(self.reader(), sql, [run_id.to_string()], |row| Ok(row.get("token")?))
    }
}

/// The run that a `jti` was seen with.
fn owner(connection: &Connection, jti: &str) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT run_id FROM jtis WHERE jti = ?1";
    store::one(connection, sql, [jti], |row| store::uuid(row, "run_id"))
}

fn judge(tx: &Transaction<'_>, new: &NewEntry) -> Result<Acceptance, StoreError> {
    let run_id = new.invocation.run_id;
    match owner(tx, &new.jti)? {
        Some(owner) if owner == run_id => return Ok(Acceptance::Repeated),
        Some(_) => return Ok(Acceptance::ForeignJti),
        None => {}
    }
    if notes::is_refused(tx, run_id)? {
        return Ok(Acceptance::Repeated);
    }
    let known =
        store::one(tx, "SELECT seq, state FROM entries WHERE run_id = ?1", [run_id.to_string()], |row| {
            let state: String = row.get("state")?;
            Ok((row.get::<_, i64>("seq")?, EntryState::parse(&state)?))
        })?;
    Ok(match known {
        None => Acceptance::New,
        Some((_, EntryState::Closed)) => Acceptance::Closed,
        // An event that was left unacknowledged comes late, with a token older than the stored one.
        Some((seq, _)) if new.event.seq <= seq => Acceptance::Repeated,
        Some(_) => Acceptance::NewerToken,
    })
}

fn insert(tx: &Transaction<'_>, new: &NewEntry) -> Result<(), StoreError> {
    let sql = "INSERT INTO entries
        (run_id, seq, event_id, occurred_at, invocation, token, token_jti, token_exp, state)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'accepted')";
    let run_id = new.invocation.run_id;
    tx.execute(
        sql,
        params![
            run_id.to_string(),
            new.event.seq,
            new.event.event_id.to_string(),
            new.event.occurred_at.as_millis(),
            store::json_text(&without_token(&new.invocation))?,
            new.invocation.invocation_token,
            new.jti,
            new.exp,
        ],
    )?;
    remember_jti(tx, run_id, &new.jti, new.exp)
}

/// A redelivery brings a newer token and nothing else: what was accepted stays as it was checked then,
/// the moment it happened included.
fn renew(tx: &Transaction<'_>, new: &NewEntry) -> Result<(), StoreError> {
    let run_id = new.invocation.run_id;
    let sql = "UPDATE entries SET seq = ?2, event_id = ?3, token = ?4, token_jti = ?5, token_exp = ?6
               WHERE run_id = ?1";
    let (event, token) = (&new.event, &new.invocation.invocation_token);
    let event_id = event.event_id.to_string();
    tx.execute(sql, params![run_id.to_string(), event.seq, event_id, token, new.jti, new.exp])?;
    remember_jti(tx, run_id, &new.jti, new.exp)
}

fn remember_jti(tx: &Transaction<'_>, run_id: Uuid, jti: &str, exp: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO jtis (jti, run_id, exp) VALUES (?1, ?2, ?3) ON CONFLICT (jti) DO NOTHING";
    tx.execute(sql, params![jti, run_id.to_string(), exp])?;
    Ok(())
}

/// The token has a column of its own, so that closing an entry leaves no copy of it.
fn without_token(invocation: &AgentInvocation) -> AgentInvocation {
    AgentInvocation { invocation_token: String::new(), ..invocation.clone() }
}

fn find(connection: &Connection, run_id: Uuid) -> Result<Entry, StoreError> {
    let sql = format!("{SELECT} WHERE run_id = ?1");
    store::one(connection, &sql, [run_id.to_string()], read)?.ok_or(StoreError::Unknown)
}

fn read(row: &Row<'_>) -> Result<Entry, StoreError> {
    let token: String = row.get("token")?;
    let mut invocation: AgentInvocation = store::json(row, "invocation")?;
    invocation.invocation_token.clone_from(&token);
    let state: String = row.get("state")?;
    let reason: Option<String> = row.get("stop_reason")?;
    Ok(Entry {
        run_id: store::uuid(row, "run_id")?,
        event: EventRef {
            seq: row.get("seq")?,
            event_id: store::uuid(row, "event_id")?,
            occurred_at: Time::from_millis(row.get("occurred_at")?),
        },
        invocation,
        token,
        token_jti: row.get("token_jti")?,
        token_exp: row.get("token_exp")?,
        state: EntryState::parse(&state)?,
        start: store::opt_json(row, "start")?,
        started: store::opt_json(row, "started")?,
        stop: reason.map(|reason| Stop { reason }),
    })
}
