//! A handle on one process that is never another one: pidfd, checked by start time.
//!
//! Process ids are reused; a pidfd opened for an id and then compared with the start time that was noted for
//! it refers to that very process for ever. Must not know why a process is watched or ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::libc;

use super::process::{Signal, start_time};
use super::wait::{Interest, wait};

/// One process. Its descriptor is ready for reading once the process has ended.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process `pid` that started at `start` (ticks since boot); `None` when it is gone or when the
    /// id belongs to another process now.
    ///
    /// # Errors
    /// The system's answer, for example when no descriptor is left.
    pub fn open(pid: i32, start: u64) -> io::Result<Option<PidFd>> {
        let opened = match open_raw(pid) {
            Ok(fd) => PidFd(fd),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Looked at after opening: the same start time now means the descriptor is that process.
        Ok((start_time(pid) == Some(start)).then_some(opened))
    }

    /// Sends `signal` to this process; one that has ended is no error.
    ///
    /// # Errors
    /// The system's answer, for example when the process belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match send(self.0.as_fd(), signal as libc::c_int) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            answer => answer,
        }
    }

    /// Waits at most `timeout` for the end of the process and says whether it has ended.
    ///
    /// # Errors
    /// The system's answer to poll.
    pub fn wait_ended(&self, timeout: Duration) -> io::Result<bool> {
        Ok(wait(&[(self.as_fd(), Interest::Read)], timeout)?.contains(&true))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[allow(unsafe_code)]
fn open_raw(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers, touches no memory of ours, and its answer is a new descriptor
    // that nobody else owns (close-on-exec by definition).
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd as libc::c_int)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[allow(unsafe_code)]
fn send(pidfd: BorrowedFd<'_>, signal: libc::c_int) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the whole call; a null siginfo is allowed and nothing is written.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn signals_the_process_it_was_opened_for_and_is_ready_at_its_end() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let start = start_time(pid).unwrap();
        let process = PidFd::open(pid, start).unwrap().unwrap();
        assert!(!process.wait_ended(Duration::ZERO).unwrap());
        process.signal(Signal::SIGTERM).unwrap();
        assert!(process.wait_ended(Duration::MAX).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        process.signal(Signal::SIGTERM).unwrap();
        assert!(PidFd::open(pid, start).unwrap().is_none());
    }

    #[test]
    fn another_start_time_or_an_impossible_id_is_another_process() {
        let own = std::process::id() as i32;
        let start = start_time(own).unwrap();
        for (pid, start) in [(own, start + 1), (own, 0), (0, start), (-1, start), (i32::MAX, start)] {
            assert!(PidFd::open(pid, start).unwrap().is_none(), "{pid}");
        }
        assert!(PidFd::open(own, start).unwrap().is_some());
    }
}
