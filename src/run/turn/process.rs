//! The process of a turn: our own child, or one that a former runner started and this one only watches.
//!
//! Must not know what the process prints.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::claude::argv::{self, TurnArgs};
use crate::claude::environment::TurnEnv;
use crate::run::end::{Cause, End};
use crate::run::record::TurnRecord;
use crate::run::state_dir::ProcessFiles;
use crate::run::{Run, RunSays};
use crate::sys::pidfd::PidFd;
use crate::sys::pipe::{self, PipeWriter};
use crate::sys::private;
use crate::sys::process::{self, Child, Exit, Launch, Signal};

/// A process that lives, or has ended and was not cleared away yet.
pub struct Live {
    kind: Kind,
    watch: PidFd,
    pid: i32,
    start_time: u64,
}

enum Kind {
    /// Started by this runner.
    Own {
        child: Child,
        /// Open until the turn needs no more lines.
        stdin: Option<PipeWriter>,
    },
    /// Started by a former runner; its stdin and its exit code are gone.
    Adopted,
}

/// How a process ended, as far as that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// An own child, with its exit.
    Known(Exit),
    /// An adopted process.
    Unknown,
}

impl Live {
    /// Starts the CLI with `first_line` on its stdin.
    ///
    /// # Errors
    /// [`Cause::SpawnFailed`] when there is no process, [`Cause::StateFault`] when its files cannot be made.
    pub fn spawn(
        run: &Run,
        args: &TurnArgs,
        environment: &TurnEnv,
        files: &ProcessFiles,
    ) -> Result<Live, End> {
        let arguments = argv::build(args).map_err(|_| End::by(Cause::ArgumentRefused))?;
        let (stdin, writer) = pipe::stdin_pipe().map_err(|fault| run.end_of_file(&fault))?;
        let file = |path| private::open_append(path).map_err(|fault| run.end_of_file(&fault));
        let launch = Launch {
            program: args.claude_bin.clone(),
            args: arguments,
            env: environment.vars.clone(),
            cwd: record(run)?.project.path.clone(),
            stdin,
            stdout: file(&files.stream)?,
            stderr: file(&files.stderr)?,
            inherit: run.locks.to_inherit(),
            pid_file: OwnedFd::from(pid_file(run, files)?),
        };
        let child = process::spawn(launch).map_err(|fault| {
            log::error!("code=spawn_failed run={} error={:?}", run.run_id, fault.kind());
            End::by(Cause::SpawnFailed)
        })?;
        let (pid, start_time) = (child.pid(), child.start_time());
        let watch = watch(pid, start_time).ok_or(Cause::SpawnFailed)?;
        log::info!("code=turn_started run={} pid={pid}", run.run_id);
        run.main.say(RunSays::TurnLives);
        Ok(Live { kind: Kind::Own { child, stdin: Some(writer) }, watch, pid, start_time })
    }

    /// The process that `pid` and `start_time` name, when it still lives.
    pub fn adopt(pid: i32, start_time: u64) -> Option<Live> {
        let watch = watch(pid, start_time)?;
        Some(Live { kind: Kind::Adopted, watch, pid, start_time })
    }

    /// Whether it is a child of this runner.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own { .. })
    }

    /// Its stdin, while that is open.
    pub fn stdin(&mut self) -> Option<&mut PipeWriter> {
        match &mut self.kind {
            Kind::Own { stdin, .. } => stdin.as_mut(),
            Kind::Adopted => None,
        }
    }

    /// The descriptor to wait for when bytes are still to be written.
    pub fn blocked_stdin(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Own { stdin: Some(writer), .. } if writer.pending() > 0 => Some(writer.as_fd()),
            Kind::Own { .. } | Kind::Adopted => None,
        }
    }

    /// Closes its stdin: it gets no more lines.
    pub fn close_stdin(&mut self) {
        if let Kind::Own { stdin, .. } = &mut self.kind {
            *stdin = None;
        }
    }

    /// How it ended, or `None` while it lives.
    pub fn ended(&self) -> io::Result<Option<Ended>> {
        match &self.kind {
            Kind::Own { child, .. } => Ok(child.exited()?.map(Ended::Known)),
            Kind::Adopted => Ok(self.watch.wait_ended(Duration::ZERO)?.then_some(Ended::Unknown)),
        }
    }

    /// Signals its group. The group's id is its own: a dead own child holds it until it is reaped, an adopted
    /// one is signalled only while it lives.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.is_own() && self.watch.wait_ended(Duration::ZERO)? {
            return Ok(());
        }
        process::signal_group(self.pid, signal)
    }

    /// Ends its group and forgets the process.
    pub fn end_group(self) -> io::Result<()> {
        self.signal(Signal::SIGKILL)?;
        match self.kind {
            Kind::Own { child, .. } => child.reap().map(|_| ()),
            Kind::Adopted => Ok(()),
        }
    }

    /// When it started, in clock ticks since boot.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }
}

impl AsFd for Live {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The entry that marks every process of the run's turn.
pub fn tmpdir_entry(run: &Run) -> Vec<u8> {
    let path = run.shared.state.run_temp(run.run_id);
    let mut entry = b"TMPDIR=".to_vec();
    entry.extend_from_slice(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    entry
}

fn watch(pid: i32, start_time: u64) -> Option<PidFd> {
    PidFd::open(pid, start_time).ok().flatten()
}

fn record(run: &Run) -> Result<&TurnRecord, End> {
    run.record.as_ref().map(|record| record.get()).ok_or(End::by(Cause::StateFault))
}

/// A fresh, empty pid file; one of a former attempt would name a process that is not this one.
fn pid_file(run: &Run, files: &ProcessFiles) -> Result<File, End> {
    // Usually there is none, which is what is wanted.
    let _ = std::fs::remove_file(&files.pid);
    private::create_file(&files.pid).map_err(|fault| run.end_of_file(&fault))
}
