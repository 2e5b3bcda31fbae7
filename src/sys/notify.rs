//! Being told that a file grew (inotify), and telling the service manager how the runner is.
//!
//! Must not know what is in the file or what the states mean.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

pub use super::wait::{Interest, wait};

/// Environment variable by which a service manager names its socket (sd_notify(3)).
pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

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

/// Sends `state` (for example `READY=1`) to the service manager when there is one; says whether it was sent.
///
/// A failure has no other consequence: the runner works without a service manager.
pub fn service_notify(state: &str) -> bool {
    std::env::var_os(NOTIFY_SOCKET).is_some_and(|socket| send(&socket, state).is_ok())
}

/// `socket` is a path, or a name in the abstract space after `@`.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    datagram.set_nonblocking(true)?;
    datagram.send_to_addr(state.as_bytes(), &address).map(drop)
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

    #[test]
    fn the_service_manager_hears_a_state_by_path_and_by_abstract_name() {
        let home = TempDir::new().unwrap();
        let path = home.join("notify");
        let abstract_name = format!("ccr-{}", uuid::Uuid::new_v4());
        let by_name = SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap();
        let rows = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{abstract_name}").into(), UnixDatagram::bind_addr(&by_name).unwrap()),
        ];
        for (address, manager) in rows {
            send(&address, "READY=1").unwrap();
            let mut got = [0; 64];
            let length = manager.recv(&mut got).unwrap();
            assert_eq!(&got[..length], b"READY=1");
        }
        assert!(send(home.join("absent").as_os_str(), "READY=1").is_err());
        assert!(send(OsStr::new(""), "READY=1").is_err());
    }
}
