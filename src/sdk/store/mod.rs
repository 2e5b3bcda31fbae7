//! The durable memory of the runner: one SQLite file that the inbox and the outbox share.
//!
//! Opens, checks and migrates the file and runs transactions. Must not know what an entry, a stop or a
//! delivery means: `sdk::inbox` and `sdk::outbox` say that in their own `impl Store` blocks.
//!
//! What is committed here is on the disk (WAL with `synchronous = FULL`), so an event may be acknowledged
//! once the call that stores it has returned `Ok`. An error means: not stored.

mod error;
mod files;
pub mod peek;
mod row;
mod schema;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::sys::crash;

pub use error::StoreError;
pub(super) use row::{all, json, json_text, one, opt_json, uuid};

/// Name of the store's file in the state directory.
pub const FILE_NAME: &str = "inbox.sqlite3";

/// How long a connection waits for another one's write lock before it gives up.
///
/// Every writing transaction is a few rows long, so only a stalled disk makes anybody wait this long.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// One connection to the store; each thread opens its own.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    moved_aside: Option<PathBuf>,
}

impl Store {
    /// Opens the store at `path` for the first time in this process: creates it (mode 0600, also its
    /// companions), checks it, brings its schema up to date.
    ///
    /// A file that is damaged is renamed, with its companions, and a new one takes its place, so that the
    /// runner starts; [`Store::moved_aside`] tells where it went and a log line says that it happened.
    /// Call it before any other connection exists in this process: it opens and closes the files itself,
    /// and closing a descriptor drops the POSIX locks that another connection holds on the same file.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for a file of a later version, which stays as it is, and every error of the
    /// file system.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        match Store::open_checked(path) {
            Err(StoreError::Damaged) => Store::replace_damaged(path),
            other => other,
        }
    }

    /// Opens one more connection to a store that [`Store::open`] has opened before.
    ///
    /// # Errors
    /// Those of the file system; a missing file is one.
    pub fn connect(path: &Path) -> Result<Store, StoreError> {
        let connection = bare_connection(path)?;
        configure(&connection)?;
        Ok(Store { connection, moved_aside: None })
    }

    /// Where [`Store::open`] put a damaged file, if it found one.
    pub fn moved_aside(&self) -> Option<&Path> {
        self.moved_aside.as_deref()
    }

    fn open_checked(path: &Path) -> Result<Store, StoreError> {
        files::prepare(path)?;
        let mut connection = bare_connection(path)?;
        check_integrity(&connection)?;
        schema::refuse_newer(&connection)?;
        configure(&connection)?;
        schema::migrate(&mut connection)?;
        Ok(Store { connection, moved_aside: None })
    }

    fn replace_damaged(path: &Path) -> Result<Store, StoreError> {
        let aside = files::move_aside(path)?;
        log::error!("code=store_moved_aside");
        let mut store = Store::open_checked(path)?;
        store.moved_aside = Some(aside);
        Ok(store)
    }

    /// The connection for reading; a single statement sees one state of the file.
    pub(super) fn reader(&self) -> &Connection {
        &self.connection
    }

    /// Runs `work` in one transaction that holds the write lock from its start, so that reading first and
    /// writing later cannot fail as locked. What `work` did is on the disk when this returns `Ok`, and
    /// undone otherwise.
    pub(super) fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        crash::point(|| "before commit".to_owned());
        transaction.commit()?;
        crash::point(|| "after commit".to_owned());
        Ok(value)
    }
}

/// A connection without settings other than the wait for locks; never creates the file.
fn bare_connection(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Asks SQLite to read every page; the file is small, so this is cheap at a start.
fn check_integrity(connection: &Connection) -> Result<(), StoreError> {
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(StoreError::Damaged) }
}

/// Durability, foreign keys, and zeroes over deleted tokens.
fn configure(connection: &Connection) -> Result<(), StoreError> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Internal);
    }
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;")?;
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
