//! The temporary directory of a demo. A killed demo cannot remove its own; the next one does.
//!
//! Each holds a lock for as long as its demo lives. A directory without that file, or whose lock is held, is somebody
//! else's and stays.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys::lock::FileLock;
use crate::sys::private::{self, TempDir};

/// The lock of a living demo.
const LOCK: &str = "demo-lock";

/// The lock before it is held: under its final name nobody ever finds it free.
const NEW_LOCK: &str = "new-lock";

/// A directory that is removed with this value.
pub struct Workplace {
    // Dropped first: the directory goes while the lock is held.
    dir: TempDir,
    _lock: FileLock,
}

impl Workplace {
    /// Makes one.
    ///
    /// # Errors
    /// The file system's answer.
    pub fn make() -> io::Result<Workplace> {
        let dir = TempDir::new()?;
        let lock = FileLock::try_acquire(&dir.join(NEW_LOCK))?.ok_or(io::ErrorKind::AlreadyExists)?;
        std::fs::rename(dir.join(NEW_LOCK), dir.join(LOCK))?;
        Ok(Workplace { dir, _lock: lock })
    }

    /// The path of `name` in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }
}

/// Removes what demos left that live no more. What cannot be removed is left for the system's own sweep.
pub fn clear_left_ones() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for place in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if is_left(&place) {
            let _ = std::fs::remove_dir_all(&place);
        }
    }
}

/// Whether `place` is a private directory of this user with the lock of a demo that nobody holds.
fn is_left(place: &Path) -> bool {
    let real = place.symlink_metadata().is_ok_and(|found| found.is_dir());
    let lock = place.join(LOCK);
    real && private::check_dir(place).is_ok()
        && lock.symlink_metadata().is_ok_and(|found| found.is_file())
        && FileLock::try_acquire(&lock).is_ok_and(|lock| lock.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_of_a_dead_demo_is_left() {
        let alive = Workplace::make().unwrap();
        assert!(!is_left(alive.dir.path()));
        let dead = TempDir::new().unwrap();
        assert!(!is_left(dead.path()), "without a lock it is no demo's");
        std::fs::write(dead.join(LOCK), "").unwrap();
        assert!(is_left(dead.path()));
        let link = alive.join("link");
        std::os::unix::fs::symlink(dead.path(), &link).unwrap();
        assert!(!is_left(&link), "a link leads anywhere");
        std::os::unix::fs::symlink(dead.join(LOCK), alive.join("x")).unwrap();
    }
}
