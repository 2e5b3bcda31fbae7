//! Processes: starting one in a session of its own, seeing its end, ending what it left.
//!
//! Must not know what the programs do. Invariants: no shell, no inherited environment, no descriptor in a
//! child but its stdio and the named locks, no signal to a group whose id may have been reused.

mod child;
mod group;
mod leftovers;
mod probe;
mod spawn;
mod table;

pub use child::{Child, Exit};
pub use group::{group_alive, signal_group};
pub use leftovers::end_by_env;
pub use nix::sys::signal::Signal;
pub use probe::{PROBE_OUTPUT_LIMIT, ProbeOutput, run_probe, run_probe_while};
pub use spawn::{Launch, spawn};
pub use table::{boot_id, parse_pid_line, start_time};

/// The user id by which the system decides what this process may do.
pub fn effective_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Makes this process's memory, environment and descriptors unreadable to other processes of the same user
/// children are ordinary again after their exec.
///
/// # Errors
/// The system's answer.
pub fn set_not_dumpable() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_dumpable(false)?)
}

#[cfg(test)]
pub(crate) mod tests_support {
    //! Starts small shell programs the way a turn is started.

    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::path::Path;

    use super::{Child, Launch, spawn};
    use crate::sys::pipe::{PipeWriter, stdin_pipe};
    use crate::sys::private::open_append;

    /// A launch of `/bin/sh -c script` in `home` with the files `out`, `err` and `pid` there.
    pub fn sh<'a>(home: &Path, script: &str, locks: &[BorrowedFd<'a>]) -> (Launch<'a>, PipeWriter) {
        let (stdin, writer) = stdin_pipe().unwrap();
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: home.to_owned(),
            stdin,
            stdout: open_append(&home.join("out")).unwrap(),
            stderr: open_append(&home.join("err")).unwrap(),
            inherit: locks.to_vec(),
            pid_file: OwnedFd::from(open_append(&home.join("pid")).unwrap()),
        };
        (launch, writer)
    }

    /// Starts [`sh`].
    pub fn launch_sh(home: &Path, script: &str, locks: &[BorrowedFd<'_>]) -> (Child, PipeWriter) {
        let (launch, writer) = sh(home, script, locks);
        (spawn(launch).unwrap(), writer)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn a_process_can_be_made_not_dumpable() {
        let before = nix::sys::prctl::get_dumpable().unwrap();
        super::set_not_dumpable().unwrap();
        assert!(!nix::sys::prctl::get_dumpable().unwrap());
        nix::sys::prctl::set_dumpable(before).unwrap();
        assert!(fs::read("/proc/self/environ").is_ok());
    }
}
