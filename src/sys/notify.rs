//! Being told that a file grew (inotify).
//!
//! Must not know what is in the file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

pub use super::wait::{Interest, wait};

/// A descriptor that is ready when the watched file was written to.
#[derive(Debug)]
pub struct FileWatch(Inotify);

impl FileWatch {
    /// Watches the file `path`, which must exist.
    ///
    /// # Errors
    /// The system's answer; among others when the user's number of watches is used up, which a caller
    /// answers by looking at the file at intervals.
    pub fn new(path: &Path) -> io::Result<FileWatch> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
        Ok(FileWatch(inotify))
    }

    /// Takes every notice so far and says whether there was one. Call it before reading the file.
    pub fn drain(&self) -> bool {
        let mut any = false;
        loop {
            match self.0.read_events() {
                Ok(_) => any = true,
                Err(Errno::EINTR) => continue,
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for FileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::sys::private::{self, TempDir};

    #[test]
    fn a_write_makes_the_watch_ready_until_it_is_drained() {
        let home = TempDir::new().unwrap();
        let path = home.join("stream.jsonl");
        let mut file = private::create_file(&path).unwrap();
        let watch = FileWatch::new(&path).unwrap();
        assert!(!watch.drain());
        file.write_all(b"line\n").unwrap();
        assert_eq!(wait(&[(watch.as_fd(), Interest::Read)], Duration::MAX).unwrap(), [true]);
        assert!(watch.drain());
        assert_eq!(wait(&[(watch.as_fd(), Interest::Read)], Duration::ZERO).unwrap(), [false]);
        assert!(FileWatch::new(&home.join("absent")).is_err());
    }
}
