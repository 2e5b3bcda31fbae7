//! Process groups: signalling one and asking whether anybody in it still runs.
//!
//! Must not know the ladder of a stop.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::table;

/// Ids below this name "my own group", "everybody" or init in the system's calls, never a turn.
const FIRST_GROUP: i32 = 2;

/// Sends `signal` to every process of the group `pgid`; a group that is gone is no error.
///
/// Call it only while the group's leader is not reaped, or the id may be a stranger's.
///
/// # Errors
/// `InvalidInput` for an id that is no group of a child; else the system's answer.
pub fn signal_group(pgid: i32, signal: Signal) -> io::Result<()> {
    if pgid < FIRST_GROUP {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match killpg(Pid::from_raw(pgid), signal) {
        Err(Errno::ESRCH) => Ok(()),
        answer => Ok(answer?),
    }
}

/// Whether a process of the group `pgid` still runs; one that only waits to be reaped does not count.
pub fn group_alive(pgid: i32) -> bool {
    if pgid < FIRST_GROUP || killpg(Pid::from_raw(pgid), None) == Err(Errno::ESRCH) {
        return false;
    }
    let stats = table::all().into_iter().filter_map(table::stat);
    stats.filter(|stat| stat.group == pgid).any(|stat| !stat.is_dead())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests_support::launch_sh;
    use super::*;
    use crate::sys::pidfd::PidFd;
    use crate::sys::private::TempDir;

    #[test]
    fn a_group_lives_until_its_last_process_ended() {
        let home = TempDir::new().unwrap();
        let (child, _stdin) = launch_sh(home.path(), "read line", &[]);
        let pid = child.pid();
        let process = PidFd::open(pid, child.start_time()).unwrap().unwrap();
        assert!(group_alive(pid));
        signal_group(pid, Signal::SIGTERM).unwrap();
        assert!(process.wait_ended(Duration::MAX).unwrap());
        assert!(!group_alive(pid));
        signal_group(pid, Signal::SIGKILL).unwrap();
        child.reap().unwrap();
        assert!(!group_alive(pid));
        signal_group(pid, Signal::SIGKILL).unwrap();
    }

    #[test]
    fn ids_that_mean_more_than_one_group_are_refused() {
        for pgid in [1, 0, -1, i32::MIN] {
            assert_eq!(signal_group(pgid, Signal::SIGCONT).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert!(!group_alive(pgid));
        }
    }
}
