//! A child process: its end is seen first and reaped later.
//!
//! Until it is reaped the dead child holds its process id and group id, so the rest of its group can still be
//! signalled without hitting a stranger. Must not know what the child does.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::libc;

use super::table::start_time;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By the signal of this number.
    Signal(i32),
}

/// A started program, which leads a session and a process group of its own.
///
/// Dropping it neither ends nor reaps the process.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    start_time: u64,
}

impl Child {
    /// Wraps a child of this process that nobody has waited for yet.
    pub(super) fn new(inner: std::process::Child) -> io::Result<Child> {
        // Not reaped yet, so its entry is in the table, also when it has ended already.
        let start_time = start_time(inner.id() as i32).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the child is not in the process table")
        })?;
        Ok(Child { inner, start_time })
    }

    /// Its process id, which is also its group's id.
    pub fn pid(&self) -> i32 {
        self.inner.id() as i32
    }

    /// When it started, in clock ticks since boot.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// How it ended, or `None` while it runs. Does not reap: the ids stay taken.
    ///
    /// # Errors
    /// The system's answer to waitid.
    #[allow(unsafe_code)]
    pub fn exited(&self) -> io::Result<Option<Exit>> {
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: all-zero is a valid siginfo, and the kernel leaves it so when nothing has ended.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a living siginfo; the id is that of our own child.
        if unsafe { libc::waitid(libc::P_PID, self.inner.id(), &raw mut info, flags) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: waitid filled the fields of a child's siginfo or left zeros.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        let exit = if info.si_code == libc::CLD_EXITED { Exit::Code(status) } else { Exit::Signal(status) };
        Ok((pid != 0).then_some(exit))
    }

    /// Waits for its end and frees its ids. Signal its group before this, not after.
    ///
    /// # Errors
    /// The system's answer to wait.
    pub fn reap(mut self) -> io::Result<Exit> {
        Ok(exit_of(self.inner.wait()?))
    }
}

pub(super) fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // wait() reports only ends, so a status is one of the two.
        (None, None) => Exit::Code(status.into_raw()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests_support::launch_sh;
    use super::super::{Signal, signal_group};
    use super::*;
    use crate::sys::pidfd::PidFd;
    use crate::sys::private::TempDir;

    fn wait_ended(child: &Child) {
        let process = PidFd::open(child.pid(), child.start_time()).unwrap().unwrap();
        assert!(process.wait_ended(Duration::MAX).unwrap());
    }

    #[test]
    fn an_end_is_seen_without_reaping_and_then_reaped() {
        for (script, expected) in [
            ("read line", Exit::Code(1)),
            ("read line; exit 0", Exit::Code(0)),
            ("read line; exit 75", Exit::Code(75)),
            ("read line; kill -TERM $$", Exit::Signal(libc::SIGTERM)),
            ("read line; kill -KILL $$", Exit::Signal(libc::SIGKILL)),
            ("read line; kill -40 $$", Exit::Signal(40)),
        ] {
            let home = TempDir::new().unwrap();
            let (child, stdin) = launch_sh(home.path(), script, &[]);
            assert_eq!(child.exited().unwrap(), None, "{script}");
            drop(stdin);
            wait_ended(&child);
            let pid = child.pid();
            assert_eq!(child.exited().unwrap(), Some(expected), "{script}");
            assert_eq!(child.exited().unwrap(), Some(expected), "{script}");
            assert_eq!(start_time(pid), Some(child.start_time()));
            assert_eq!(child.reap().unwrap(), expected, "{script}");
        }
    }

    #[test]
    fn the_group_of_a_dead_leader_can_still_be_signalled() {
        let home = TempDir::new().unwrap();
        let fifo = home.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (child, _stdin) = launch_sh(home.path(), "cat fifo & echo $!", &[]);
        wait_ended(&child);
        let grandchild: i32 = std::fs::read_to_string(home.join("out")).unwrap().trim().parse().unwrap();
        let start = start_time(grandchild).unwrap();
        let process = PidFd::open(grandchild, start).unwrap().unwrap();
        signal_group(child.pid(), Signal::SIGKILL).unwrap();
        assert!(process.wait_ended(Duration::MAX).unwrap());
        assert_eq!(child.reap().unwrap(), Exit::Code(0));
    }
}
