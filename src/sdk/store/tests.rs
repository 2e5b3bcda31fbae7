use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use rusqlite::params;
use uuid::Uuid;

use super::*;

/// A directory of its own that goes away at the end of the test, and the path of a store in it.
pub(crate) struct Place {
    directory: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        let directory = std::env::temp_dir().join(format!("store-{}", Uuid::new_v4()));
        fs::create_dir(&directory).unwrap();
        Place { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{FILE_NAME}{suffix}"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Enough rows for several pages, all of them in the main file.
fn fill(store: &mut Store) {
    for number in 0..200 {
        let sql = "INSERT INTO stops (run_id, reason, stored_at) VALUES (?1, ?2, 0)";
        store
            .write(|tx| Ok(tx.execute(sql, params![format!("run {number}"), "user_stop ".repeat(20)])?))
            .unwrap();
    }
    store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

fn stops(store: &Store) -> i64 {
    store.connection.query_row("SELECT count(*) FROM stops", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_new_store_is_durable_and_strict() {
    let place = Place::new();
    let store = place.open();
    let pragma = |name: &str| -> String {
        store
            .connection
            .query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|value| match value {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => format!("{other:?}"),
            })
            .unwrap()
    };
    let rows = [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1"), ("secure_delete", "1")];
    for (name, expected) in rows {
        assert_eq!(pragma(name), expected, "{name}");
    }
    let loose: i64 = store
        .connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE '%STRICT%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(loose, 0);
}

/// Set in the process that [`c8_09_files_are_private_under_any_mask`] starts for the real work.
const MASK_CHILD: &str = "STORE_TEST_WITHOUT_MASK";

/// The mask belongs to the whole process, so the test runs itself once more in one of its own.
#[test]
fn c8_09_files_are_private_under_any_mask() {
    if std::env::var_os(MASK_CHILD).is_some() {
        nix::sys::stat::umask(nix::sys::stat::Mode::empty());
        return files_are_private_and_wide_old_ones_are_fixed();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sdk::store::tests::c8_09_files_are_private_under_any_mask"])
        .env(MASK_CHILD, "1")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

fn files_are_private_and_wide_old_ones_are_fixed() {
    let place = Place::new();
    let mut store = place.open();
    fill(&mut store);
    store.write(|tx| Ok(tx.execute("DELETE FROM stops", [])?)).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&place.file(suffix)), 0o600, "{suffix}");
        fs::set_permissions(place.file(suffix), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _second = place.open();
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&place.file(suffix)), 0o600, "{suffix} after 0644");
    }
}

#[test]
fn c8_01_a_damaged_file_is_moved_aside_and_kept() {
    let half = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes[..bytes.len() / 2].to_vec()
    };
    type Damage<'a> = &'a dyn Fn(&Path) -> Vec<u8>;
    let rows: [(&str, Damage<'_>, bool); 5] = [
        ("zero bytes", &|_| vec![0; 1466], true),
        ("half of itself", &half, true),
        ("text with a byte order mark", &|_| b"\xef\xbb\xbfname = \"value\"\n".to_vec(), true),
        ("a few bytes", &|_| b"SQL".to_vec(), true),
        ("no bytes", &|_| Vec::new(), false),
    ];
    for (name, damage, moved) in rows {
        let place = Place::new();
        fill(&mut place.open());
        let bytes = damage(&place.path());
        fs::write(place.path(), &bytes).unwrap();
        let store = place.open();
        assert_eq!(stops(&store), 0, "{name}");
        match store.moved_aside() {
            Some(aside) => assert_eq!(fs::read(aside).unwrap(), bytes, "{name}"),
            None => assert!(!moved, "{name}"),
        }
        drop(store);
        let again = place.open();
        assert_eq!(again.moved_aside(), None, "{name}: the second start finds a good file");
    }
}

#[test]
fn an_empty_file_beside_a_full_journal_is_moved_aside_with_it() {
    let place = Place::new();
    place.open();
    fs::write(place.path(), b"").unwrap();
    fs::write(place.file("-wal"), b"the only copy of an event").unwrap();
    let store = place.open();
    let aside = store.moved_aside().unwrap().to_owned();
    let wal = PathBuf::from(format!("{}-wal", aside.display()));
    assert_eq!(fs::read(wal).unwrap(), b"the only copy of an event");
    assert!(place.names().len() >= 3);
}

#[test]
fn a_store_that_was_never_closed_is_recovered() {
    let (running, after_power_loss) = (Place::new(), Place::new());
    let mut store = running.open();
    store.write(|tx| Ok(tx.execute("INSERT INTO stops VALUES ('run', 'user_stop', 0)", [])?)).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(running.file(suffix), after_power_loss.file(suffix)).unwrap();
    }
    let recovered = after_power_loss.open();
    assert_eq!((stops(&recovered), recovered.moved_aside()), (1, None));
}

#[test]
fn connections_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Store>();
}

#[test]
fn a_file_of_a_later_version_is_refused_and_untouched() {
    let place = Place::new();
    {
        let store = place.open();
        store.connection.pragma_update(None, "user_version", 9).unwrap();
    }
    let before = fs::read(place.path()).unwrap();
    let error = Store::open(&place.path()).unwrap_err();
    assert_eq!((error, error.code()), (StoreError::TooNew { found: 9 }, "store_too_new"));
    assert_eq!(fs::read(place.path()).unwrap(), before);
    assert_eq!(place.names().len(), 1, "nothing was moved aside");
}

#[test]
fn open_refuses_what_is_no_file() {
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    assert_eq!(Store::open(&place.path()).unwrap_err().code(), "store_io");
    let link = Place::new();
    std::os::unix::fs::symlink("/dev/null", link.path()).unwrap();
    assert_eq!(Store::open(&link.path()).unwrap_err().code(), "store_io");
    assert_eq!(Store::connect(&Place::new().path()).unwrap_err().code(), "store_io");
}

#[test]
fn c8_03_a_failed_write_counts_as_not_stored() {
    let place = Place::new();
    let mut store = place.open();
    let pages: i64 = store.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let sql = "INSERT INTO stops (run_id, reason, stored_at) VALUES ('run', ?1, 0)";
    let big = "x".repeat(100_000);
    assert_eq!(store.write(|tx| Ok(tx.execute(sql, [&big])?)), Err(StoreError::Full));
    assert_eq!(stops(&store), 0);
    store.connection.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(())).unwrap();
    store.write(|tx| Ok(tx.execute(sql, [&big])?)).unwrap();
    assert_eq!(stops(&store), 1);
}

#[test]
fn c8_05_two_writers_never_see_locked() {
    const ROUNDS: i64 = 500; // of the case's 2000: each round waits for the disk
    let place = Place::new();
    place.open().write(|tx| Ok(tx.execute("INSERT INTO stops VALUES ('run', '0', 0)", [])?)).unwrap();
    let barrier = Barrier::new(3);
    let round = |store: &mut Store| {
        store.write(|tx| {
            let seen: i64 = tx.query_row("SELECT stored_at FROM stops", [], |row| row.get(0))?;
            Ok(tx.execute("UPDATE stops SET stored_at = ?1", [seen + 1])?)
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut store = Store::connect(&place.path()).unwrap();
                barrier.wait();
                for _ in 0..ROUNDS {
                    round(&mut store).unwrap();
                }
            });
        }
        let reader = Store::connect(&place.path()).unwrap();
        barrier.wait();
        for _ in 0..ROUNDS {
            assert_eq!(stops(&reader), 1);
        }
    });
    let total: i64 =
        place.open().connection.query_row("SELECT stored_at FROM stops", [], |row| row.get(0)).unwrap();
    assert_eq!(total, 2 * ROUNDS);
}

#[test]
fn error_texts_name_no_path() {
    let errors = [
        StoreError::TooNew { found: 3 },
        StoreError::Busy,
        StoreError::Damaged,
        StoreError::Full,
        StoreError::Io(std::io::ErrorKind::NotFound),
        StoreError::Row,
        StoreError::Unknown,
        StoreError::State,
        StoreError::Internal,
    ];
    let mut codes: Vec<&str> = errors.iter().map(|error| error.code()).collect();
    for error in errors {
        assert!(!error.to_string().contains('/'), "{error}");
    }
    codes.dedup();
    assert_eq!(codes.len(), errors.len(), "each code once");
}
