//! Looking at the store of a runner that may be at work, from another process: how much waits, nothing of what.
//!
//! Reads only: it makes, repairs and checkpoints nothing, and a writer never waits for it (WAL).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::{StoreError, files, schema};

/// Longest wait for a lock; only a recovery after a crash holds one against readers, for a moment.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much waits in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Runs that were accepted and have not ended.
    pub open_runs: u64,
    /// Messages for live turns whose fate is not settled.
    pub followups: u64,
    /// Refusals that the server has not taken yet.
    pub refusals: u64,
    /// Answers, ends and reports that the server has not taken yet.
    pub deliveries: u64,
}

/// Counts what waits in the store at `path`.
///
/// # Errors
/// The file is missing, damaged, of a later version, or locked for longer than two seconds.
pub fn waiting(path: &Path) -> Result<Waiting, StoreError> {
    let connection = open(path)?;
    schema::refuse_newer(&connection)?;
    let count = |what: &str| -> Result<u64, StoreError> {
        let found: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0))?;
        u64::try_from(found).map_err(|_| StoreError::Row)
    };
    Ok(Waiting {
        open_runs: count("entries WHERE state <> 'closed'")?,
        followups: count("followups WHERE settled = 0")?,
        refusals: count("refusals WHERE settled = 0")?,
        deliveries: count("deliveries WHERE outcome IS NULL")?,
    })
}

/// A store without a journal was closed by its runner. SQLite would make a new journal for a reader, and leave it,
/// unless it is told that nobody changes the file.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let option = if files::has_journal(path) { "" } else { "?immutable=1" };
    let connection = Connection::open_with_flags(format!("file:{}{option}", uri_path(path)), flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// `path` as the path of a URI (RFC 3986): every byte that could mean something else is escaped.
fn uri_path(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match *byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Store;
    use super::*;
    use crate::sys::private::TempDir;

    fn names(home: &TempDir) -> BTreeSet<String> {
        let entries = std::fs::read_dir(home.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn an_open_and_a_closed_store_are_counted_and_left_as_they_are() {
        let home = TempDir::new().unwrap();
        let path = home.join("in box?#%.sqlite3");
        assert!(waiting(&path).is_err());
        assert!(names(&home).is_empty(), "a missing store is not made");
        let mut store = Store::open(&path).unwrap();
        store
            .write(|change| {
                change.execute("INSERT INTO refusals VALUES ('a', 'r', 0, 1), ('b', 'r', 1, 1)", [])?;
                Ok(())
            })
            .unwrap();
        let expected = Waiting { open_runs: 0, followups: 0, refusals: 1, deliveries: 0 };
        let before = names(&home);
        assert_eq!(waiting(&path).unwrap(), expected);
        // A write transaction in progress keeps nobody from reading.
        store
            .write(|_| {
                assert_eq!(waiting(&path).unwrap(), expected);
                Ok(())
            })
            .unwrap();
        assert_eq!(names(&home), before);
        drop(store);
        let before = names(&home);
        assert_eq!(waiting(&path).unwrap(), expected);
        assert_eq!(names(&home), before);
    }
}
