//! Where everything lies below `runner.state_dir`. Paths only; nothing here reads or writes.
//!
//! | path | what | who writes |
//! |---|---|---|
//! | `runner.lock` | one runner per directory | main thread |
//! | `status.json` | what `status` shows | main thread |
//! | `inbox.sqlite3` | inbox and outbox | every thread, a connection each |
//! | `locks/` | one file per thread and session | run thread, inherited by the turn |
//! | `turns/<run>.json`, `.pid` | turn record and pid of each process | run thread, the pid by the child |
//! | `sessions/<session>/<run>.*` | input, prompt, stream, stderr | run thread, the CLI |
//! | `files/<thread>/<file>/` | incoming files | run thread |
//! | `tmp/<run>/` | TMPDIR of the turn | the turn |
//! | `outgoing/<run>/` | staged copies | run thread |
//! | `claude-config/organization/` | the CLI's own files in mode organization | the CLI |

use std::path::{Path, PathBuf};

use uuid::Uuid;

/// The state directory of one runner.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The layout below `root`, an absolute path.
    pub fn new(root: &Path) -> StateDir {
        StateDir(root.to_owned())
    }

    /// `runner.state_dir` itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The lock of the runner that owns the directory.
    pub fn runner_lock(&self) -> PathBuf {
        self.0.join("runner.lock")
    }

    /// What the runner shows of itself.
    pub fn status(&self) -> PathBuf {
        self.0.join("status.json")
    }

    /// The database of inbox and outbox.
    pub fn inbox(&self) -> PathBuf {
        self.0.join("inbox.sqlite3")
    }

    /// The directory of turn records.
    pub fn turns(&self) -> PathBuf {
        self.0.join("turns")
    }

    /// The lock of a thread.
    pub fn thread_lock(&self, thread_id: Uuid) -> PathBuf {
        self.locks().join(format!("thread-{thread_id}.lock"))
    }

    /// The lock of a session.
    pub fn session_lock(&self, session: Uuid) -> PathBuf {
        self.locks().join(format!("session-{session}.lock"))
    }

    /// The directory of locks.
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks")
    }

    /// The directory of a session's recordings.
    pub fn session(&self, session: Uuid) -> PathBuf {
        self.sessions().join(session.to_string())
    }

    /// The directory of all sessions' recordings.
    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// The directory of incoming files of a thread.
    pub fn thread_inbox(&self, thread_id: Uuid) -> PathBuf {
        self.files().join(thread_id.to_string())
    }

    /// The directory of all incoming files.
    pub fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    /// The temporary directory of a run, its turn's TMPDIR (M3-12 note 3 c).
    pub fn run_temp(&self, run_id: Uuid) -> PathBuf {
        self.temp().join(run_id.to_string())
    }

    /// The directory of all temporary directories.
    pub fn temp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// The directory of a run's staged copies.
    pub fn run_outgoing(&self, run_id: Uuid) -> PathBuf {
        self.outgoing().join(run_id.to_string())
    }

    /// The directory of all staged copies.
    pub fn outgoing(&self) -> PathBuf {
        self.0.join("outgoing")
    }

    /// The CLI's configuration directory in mode organization.
    pub fn organization_config(&self) -> PathBuf {
        self.0.join("claude-config").join("organization")
    }

    /// Every directory the runner itself makes, parents first.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut all = vec![self.0.clone()];
        all.extend([self.turns(), self.locks(), self.sessions(), self.files(), self.temp(), self.outgoing()]);
        all.push(self.organization_config());
        all
    }

    /// The files of process `number` of a run's turn.
    pub fn process(&self, run_id: Uuid, session: Uuid, number: u32) -> ProcessFiles {
        let base = self.session(session);
        let stem = if number == 1 { run_id.to_string() } else { format!("{run_id}.{number}") };
        ProcessFiles {
            input: base.join(format!("{run_id}.input.jsonl")),
            system_prompt: base.join(format!("{run_id}.system-prompt.md")),
            stream: base.join(format!("{stem}.stream.jsonl")),
            stderr: base.join(format!("{stem}.stderr.log")),
            pid: self.turns().join(format!("{stem}.pid")),
        }
    }
}

/// The files of one process of a turn.
#[derive(Clone, Debug)]
pub struct ProcessFiles {
    /// Every line written to stdin, one per line; shared by the processes of a run.
    pub input: PathBuf,
    /// The appended system prompt; shared by the processes of a run.
    pub system_prompt: PathBuf,
    /// What the process prints.
    pub stream: PathBuf,
    /// What it complains.
    pub stderr: PathBuf,
    /// Its pid and start time, written by the child itself.
    pub pid: PathBuf,
}
