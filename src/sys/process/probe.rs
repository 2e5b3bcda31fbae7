//! Runs a short program to its end within a limit and keeps what it printed.
//!
//! For questions such as `--version`: stdin is closed, output beyond a bound is dropped, and the whole group
//! is gone on return, whatever it did. Must not know what the output means.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::super::pidfd::PidFd;
use super::super::wait::{Interest, wait};
use super::child::{Child, Exit};
use super::spawn::spawn_piped;
use super::{Signal, signal_group};

/// Most bytes kept of each output; an answer of `auth status` or `--version` has a few hundred.
pub const PROBE_OUTPUT_LIMIT: usize = 256 * 1024;
/// How often it is asked whether the answer is still wanted: a stop must not feel slow.
pub const LOOK: Duration = Duration::from_millis(100);
const CHUNK: usize = 8 * 1024;

/// What a probed program printed and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutput {
    /// The first [`PROBE_OUTPUT_LIMIT`] bytes of stdout.
    pub stdout: Vec<u8>,
    /// The first [`PROBE_OUTPUT_LIMIT`] bytes of stderr.
    pub stderr: Vec<u8>,
    /// How it ended; `None` when it was killed at the limit.
    pub exit: Option<Exit>,
}

/// Runs `program` with exactly `args` and `env` in `cwd` for at most `limit`.
///
/// # Errors
/// Why it could not be started or watched; its group is killed then too.
pub fn run_probe(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    limit: Duration,
) -> io::Result<ProbeOutput> {
    run_probe_while(program, args, env, cwd, limit, &|| true)
}

/// The same, but ended within [`LOOK`] as at the limit when `wanted` says that nobody waits any more.
///
/// # Errors
/// As [`run_probe`].
pub fn run_probe_while(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    limit: Duration,
    wanted: &dyn Fn() -> bool,
) -> io::Result<ProbeOutput> {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env.iter().cloned()).current_dir(cwd);
    let mut started = spawn_piped(command)?;
    let pipes = (started.stdout.take(), started.stderr.take());
    let child = Child::new(started)?;
    let watched = watch(&child, pipes, Instant::now(), limit, wanted);
    // The leader is not reaped yet, so the group's id is still its own.
    signal_group(child.pid(), Signal::SIGKILL)?;
    child.reap()?;
    watched
}

type Pipes = (Option<ChildStdout>, Option<ChildStderr>);

fn watch(
    child: &Child,
    pipes: Pipes,
    begin: Instant,
    limit: Duration,
    wanted: &dyn Fn() -> bool,
) -> io::Result<ProbeOutput> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let process = PidFd::open(child.pid(), child.start_time())?.ok_or_else(gone)?;
    let mut stdout = Capture::new(pipes.0)?;
    let mut stderr = Capture::new(pipes.1)?;
    loop {
        let mut fds = vec![(process.as_fd(), Interest::Read)];
        fds.extend(stdout.fd().into_iter().chain(stderr.fd()).map(|fd| (fd, Interest::Read)));
        wait(&fds, limit.saturating_sub(begin.elapsed()).min(LOOK))?;
        // Asked before the last reading: what the program printed before its end is in the pipes by then.
        let exit = child.exited()?;
        stdout.read()?;
        stderr.read()?;
        if exit.is_some() || begin.elapsed() >= limit || !wanted() {
            return Ok(ProbeOutput { stdout: stdout.kept, stderr: stderr.kept, exit });
        }
    }
}

/// One output: read until its end, kept up to the bound.
struct Capture<P> {
    pipe: Option<P>,
    kept: Vec<u8>,
}

impl<P: Read + AsFd> Capture<P> {
    fn new(pipe: Option<P>) -> io::Result<Capture<P>> {
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Capture { pipe, kept: Vec::new() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads one chunk, so that a program that never stops printing cannot hold the limit up, and all that
    /// is left when the pipe holds less.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        for _ in 0..=PROBE_OUTPUT_LIMIT / CHUNK {
            let Some(pipe) = &mut self.pipe else { return Ok(()) };
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.keep(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = PROBE_OUTPUT_LIMIT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    const LONG: Duration = Duration::from_secs(60);

    fn probe(home: &TempDir, script: &str, limit: Duration) -> ProbeOutput {
        let args = ["-c".into(), script.into()];
        let env = [("PATH".into(), "/usr/bin:/bin".into())];
        run_probe(Path::new("/bin/sh"), &args, &env, home.path(), limit).unwrap()
    }

    #[test]
    fn output_and_exit_are_kept_apart() {
        let home = TempDir::new().unwrap();
        let got = probe(&home, "echo out; echo err >&2; pwd; exit 3", LONG);
        assert_eq!(got.stdout, format!("out\n{}\n", home.path().display()).into_bytes());
        assert_eq!((got.stderr.as_slice(), got.exit), (&b"err\n"[..], Some(Exit::Code(3))));
        let silent = probe(&home, "read line || exec >&- 2>&-; kill -TERM $$", LONG);
        assert_eq!((silent.stdout.len(), silent.exit), (0, Some(Exit::Signal(15))));
    }

    #[test]
    fn the_limit_ends_the_whole_group() {
        let home = TempDir::new().unwrap();
        nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for script in
            ["trap '' INT TERM; read line < fifo", "cat fifo & wait", "exec >&- 2>&-; read line < fifo"]
        {
            let got = probe(&home, script, Duration::from_millis(50));
            assert_eq!(got.exit, None, "{script}");
        }
    }

    #[test]
    fn a_grandchild_that_holds_the_pipes_does_not_hold_the_probe() {
        let home = TempDir::new().unwrap();
        nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let got = probe(&home, "cat fifo & echo done", LONG);
        assert_eq!((got.stdout.as_slice(), got.exit), (&b"done\n"[..], Some(Exit::Code(0))));
    }

    #[test]
    fn output_beyond_the_bound_is_dropped_and_does_not_block() {
        let home = TempDir::new().unwrap();
        let got = probe(&home, "head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2", LONG);
        assert_eq!((got.stdout.len(), got.stderr.len()), (PROBE_OUTPUT_LIMIT, PROBE_OUTPUT_LIMIT));
        assert_eq!(got.exit, Some(Exit::Code(0)));
        let endless = probe(&home, "cat /dev/zero", Duration::from_millis(50));
        assert_eq!((endless.stdout.len(), endless.exit), (PROBE_OUTPUT_LIMIT, None));
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let home = TempDir::new().unwrap();
        assert!(run_probe(&home.join("absent"), &[], &[], home.path(), LONG).is_err());
    }
}
