//! The server's one SQLite file: opened, brought to the present schema, and its queries by subject.
//!
//! One connection behind a lock; every change is one immediate transaction, durable before it is answered.
//! Nobody waits for anything but the disk while holding the lock.

pub mod changes;
pub mod events;
pub mod files;
pub mod followups;
pub mod idempotency;
pub mod identity;
pub mod messages;
pub mod projects;
pub mod runs;
mod schema;
pub mod sessions;
pub mod threads;
pub mod tokens;
mod value;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use value::{At, Id, Json, Size, Word};

use super::fail::Fail;
use super::lock;

/// How long a statement waits for another process's lock (a backup, a shell); ours never overlap.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// The database.
pub struct Store(Mutex<Connection>);

impl Store {
    /// Opens or creates the file and applies the steps that are missing.
    ///
    /// # Errors
    /// Any error of SQLite, `SQLITE_MISMATCH` when a newer program wrote the file.
    pub fn open(path: &Path) -> rusqlite::Result<Store> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_LIMIT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        migrate(&mut connection)?;
        Ok(Store(Mutex::new(connection)))
    }

    /// Runs `work` in one immediate transaction; an error of any kind leaves no trace.
    pub fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, Fail>) -> Result<T, Fail> {
        let mut connection = lock(&self.0);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Runs `work` on one consistent view of the data.
    pub fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, Fail>) -> Result<T, Fail> {
        let mut connection = lock(&self.0);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        work(&transaction)
    }
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let known = i64::try_from(schema::STEPS.len()).unwrap_or(i64::MAX);
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > known {
        let newer = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISMATCH);
        return Err(rusqlite::Error::SqliteFailure(newer, None));
    }
    for (step, number) in schema::STEPS.iter().zip(1i64..).skip(usize::try_from(version).unwrap_or(0)) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}

/// A transaction, as every query takes it.
pub type Tx<'a> = Transaction<'a>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn a_store_opens_twice_and_keeps_its_data() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        let store = Store::open(&path).unwrap();
        store.write(|tx| Ok(tx.execute("INSERT INTO consumers VALUES ('a', 'b', 0)", [])?)).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let count: i64 = store
            .read(|tx| Ok(tx.query_row("SELECT count(*) FROM consumers", [], |row| row.get(0))?))
            .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_failed_change_leaves_no_trace() {
        let dir = TempDir::new().unwrap();
        let store = Store::open(&dir.path().join("a.db")).unwrap();
        let failed: Result<(), Fail> = store.write(|tx| {
            tx.execute("INSERT INTO consumers VALUES ('a', 'b', 0)", [])?;
            Err(crate::local::problems::not_found())
        });
        assert!(failed.is_err());
        let count: i64 = store
            .read(|tx| Ok(tx.query_row("SELECT count(*) FROM consumers", [], |row| row.get(0))?))
            .unwrap();
        assert_eq!(count, 0);
    }

    #[test]
    fn a_file_of_a_newer_program_is_refused() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.db");
        drop(Store::open(&path).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(Store::open(&path).is_err());
    }
}
