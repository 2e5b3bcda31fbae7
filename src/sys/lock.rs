//! A lock that lives as long as any process holds its descriptor.
//!
//! Closing a descriptor leaves it to whoever has another one, so a turn that inherited the descriptor keeps the lock
//! when the runner dies (M2-34 note 11). Only [`FileLock::release`] takes it away from everybody. Must not know what
//! it guards.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc::O_NOFOLLOW;

use super::private;

/// How often the file is opened anew when it was removed between opening and locking; one removal is a
/// coincidence, more are a fault.
const ATTEMPTS: usize = 8;

/// Longest wait of [`FileLock::acquire`]: far longer than a fork takes to become a program.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the lock is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// An exclusive lock on a file.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the lock of the file `path` (made with mode 0600 when missing) without waiting; `None` when
    /// somebody else holds it.
    ///
    /// # Errors
    /// The file system's answer; a link is not followed.
    pub fn try_acquire(path: &Path) -> io::Result<Option<FileLock>> {
        for _ in 0..ATTEMPTS {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, path) => return Ok(Some(FileLock(file))),
                // The name points to another file now, so this lock guards nothing.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("the lock file keeps being replaced"))
    }

    /// As [`FileLock::try_acquire`], with some patience: a former owner that has just gone may live on for a moment in
    /// a child that it was about to start, which holds the lock until its exec, and who asks with [`is_held`] holds
    /// it as shortly.
    ///
    /// # Errors
    /// As [`FileLock::try_acquire`].
    pub fn acquire(path: &Path) -> io::Result<Option<FileLock>> {
        let begin = Instant::now();
        loop {
            let lock = FileLock::try_acquire(path)?;
            if lock.is_some() || begin.elapsed() >= PATIENCE {
                return Ok(lock);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Whether `path`, whose lock this was, names another file now, or none: it guards nothing any more.
    pub fn is_lost(&self, path: &Path) -> bool {
        let lost = |fault: io::Error| matches!(fault.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        // What cannot be looked at for another reason may be there all the same.
        path.symlink_metadata().map_or_else(lost, |_| !is_at(&self.0, path))
    }

    /// Unlocks for everybody who has the descriptor, also a process that outlives the turn it was started in.
    ///
    /// # Errors
    /// The system's answer; the lock then lasts as long as the other descriptors.
    pub fn release(self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Whether somebody holds the lock of the file `path`. Makes no file; a missing one is held by nobody.
///
/// Asks with a shared lock that is let go at once, so two who ask do not see each other; who takes the lock in
/// that moment must try again, as a start of the runner does.
///
/// # Errors
/// The file system's answer; a link is not followed.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let file = match OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl AsFd for FileLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private::narrowed(options.mode(private::FILE_MODE).custom_flags(O_NOFOLLOW).open(path)?)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::process::Stdio;

    use super::*;
    use crate::sys::private::TempDir;
    use crate::sys::process::tests_support::launch_sh;
    use crate::sys::process::{Signal, signal_group};

    /// Whether the lock can be taken. A test beside this one may be between fork and exec with a copy of the
    /// descriptor for a moment, so this asks until the answer is yes or the time is up.
    fn free(path: &Path) -> bool {
        soon(|| FileLock::try_acquire(path).unwrap().is_some())
    }

    fn soon(check: impl Fn() -> bool) -> bool {
        let begin = std::time::Instant::now();
        while !check() {
            if begin.elapsed() > std::time::Duration::from_secs(20) {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[test]
    fn test_locks_exclusive() {
        let home = TempDir::new().unwrap();
        let path = home.join("thread.lock");
        let first = FileLock::try_acquire(&path).unwrap();
        assert!(first.is_some());
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        assert!(FileLock::try_acquire(&home.join("other.lock")).unwrap().is_some());
        drop(first);
        assert!(free(&path));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_lock_that_is_held_for_a_moment_is_waited_for() {
        let home = TempDir::new().unwrap();
        let path = home.join("runner.lock");
        let held = FileLock::try_acquire(&path).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let other = std::thread::spawn({
            let path = path.clone();
            move || {
                begun.send(FileLock::try_acquire(&path).unwrap().is_none()).unwrap();
                FileLock::acquire(&path).unwrap().is_some()
            }
        });
        assert!(begins.recv().unwrap(), "held by somebody else");
        drop(held);
        assert!(other.join().unwrap());
        let held = FileLock::acquire(&path).unwrap();
        assert!(held.is_some() && FileLock::acquire(&path).unwrap().is_none(), "not for ever");
    }

    #[test]
    fn who_asks_makes_no_file_and_keeps_no_lock() {
        let home = TempDir::new().unwrap();
        let path = home.join("runner.lock");
        assert!(!is_held(&path).unwrap() && !path.exists());
        let lock = FileLock::try_acquire(&path).unwrap();
        assert!(lock.is_some() && is_held(&path).unwrap());
        drop(lock);
        assert!(soon(|| !is_held(&path).unwrap()));
        std::os::unix::fs::symlink(&path, home.join("link")).unwrap();
        assert!(is_held(&home.join("link")).is_err());
    }

    #[test]
    fn test_locks_child_that_inherited_the_descriptor_keeps_the_lock() {
        let home = TempDir::new().unwrap();
        let path = home.join("thread.lock");
        let lock = FileLock::try_acquire(&path).unwrap().unwrap();
        let (child, _stdin) = launch_sh(home.path(), "read line", &[lock.as_fd()]);
        drop(lock);
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        signal_group(child.pid(), Signal::SIGKILL).unwrap();
        child.reap().unwrap();
        assert!(free(&path));
    }

    #[test]
    fn a_released_lock_is_free_whoever_has_its_descriptor() {
        let home = TempDir::new().unwrap();
        let path = home.join("thread.lock");
        let lock = FileLock::try_acquire(&path).unwrap().unwrap();
        let (child, _stdin) = launch_sh(home.path(), "read line", &[lock.as_fd()]);
        lock.release().unwrap();
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
        signal_group(child.pid(), Signal::SIGKILL).unwrap();
        child.reap().unwrap();
    }

    #[test]
    fn another_child_does_not_keep_the_lock() {
        let home = TempDir::new().unwrap();
        let path = home.join("thread.lock");
        let lock = FileLock::try_acquire(&path).unwrap().unwrap();
        let mut other = std::process::Command::new("/bin/cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(lock);
        assert!(free(&path));
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn a_removed_lock_file_guards_nothing_and_a_link_is_refused() {
        let home = TempDir::new().unwrap();
        let path = home.join("thread.lock");
        let stale = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(!stale.is_lost(&path));
        fs::remove_file(&path).unwrap();
        assert!(stale.is_lost(&path));
        assert!(free(&path));
        assert!(stale.is_lost(&path), "another file has the name");
        assert!(stale.is_lost(&path.join("below a file")));
        std::os::unix::fs::symlink(&path, home.join("link")).unwrap();
        assert!(FileLock::try_acquire(&home.join("link")).is_err());
    }
}
