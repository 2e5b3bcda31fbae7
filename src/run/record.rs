//! The turn record: what a new runner needs to take a turn over (turn-paths, "Crash and restart"; R-27).
//!
//! Written before the process starts and before every effect that must not happen twice. Never holds a
//! token, a prompt or an answer: bodies to be sent are in the outbox.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::sdk::wire::Time;
use crate::sdk::wire::run::{BillingMode, CostReport, FollowupState, RunMetrics, RunState, ToolClass};
use crate::sys::{atomic_file, crash};

/// Version of the record's shape; a record of another one is set aside, not guessed at.
pub const RECORD_VERSION: u32 = 1;

/// What is known of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// [`RECORD_VERSION`].
    pub record_version: u32,
    /// The run.
    pub run_id: Uuid,
    /// Its thread.
    pub thread_id: Uuid,
    /// Its channel.
    pub channel_id: Uuid,
    /// When the turn was prepared.
    pub started_at: Time,
    /// The boot of the host, so that a pid of another boot is never taken for the turn.
    pub boot_id: String,
    /// The session the turn works in.
    pub session: SessionRecord,
    /// The project it works on.
    pub project: ProjectRecord,
    /// What it may do.
    pub tool_class: ToolClass,
    /// Who pays.
    pub billing_mode: BillingMode,
    /// The model asked for.
    pub model: String,
    /// The title is wanted from the first answer.
    pub title_wanted: bool,
    /// The title was proposed, or the attempt was made.
    pub title_done: bool,
    /// The processes of the turn, the newest last.
    pub processes: Vec<ProcessRecord>,
    /// Every line written to stdin, in order.
    pub lines: Vec<LineRecord>,
    /// Planned answers by position.
    pub answers: Vec<AnswerRecord>,
    /// What was reported of follow-ups.
    pub followups: Vec<FollowupRecord>,
    /// The runner itself ended the process; a result after that is not an answer.
    pub signalled: bool,
    /// How the run ends, once that is decided.
    pub end: Option<EndRecord>,
}

/// The session of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The reference.
    pub id: Uuid,
    /// The server's version of it, for `If-Match`.
    pub version: i64,
    /// The server knows that it was started.
    pub started: bool,
    /// The session had turns before this one.
    pub had_turns: bool,
    /// A new reference replaced the one the server knew and was not reported yet.
    pub bind_failed: bool,
}

/// The project of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectRecord {
    /// The binding's reference.
    pub workspace_ref: String,
    /// The resolved directory.
    pub path: PathBuf,
    /// Its device (IN-9).
    pub device: u64,
    /// Its inode (IN-9).
    pub inode: u64,
    /// Revision of the permissions at the start (IN-8).
    pub grant_revision: Option<i64>,
}

/// One process of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Counts from one; part of its files' names.
    pub number: u32,
    /// The session of its command line.
    pub session: Uuid,
    /// `--resume` rather than `--session-id`.
    pub resumed: bool,
}

/// One line written to stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRecord {
    /// The line's own uuid.
    pub uuid: Uuid,
    /// The process it was written to.
    pub process: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// The line whose texts it repeats.
    pub replaces: Option<Uuid>,
}

/// What a line on stdin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The message that triggered the run.
    First,
    /// A follow-up.
    Followup(Uuid),
    /// The one `/compact`.
    Compact,
}

/// One planned answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Counts from one.
    pub position: u32,
    /// Its key in the outbox.
    pub client_msg_id: Uuid,
    /// It has reached its end: sent, sent without files, or empty and not sent.
    pub sent: bool,
}

/// What was reported of one follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowupRecord {
    /// The follow-up.
    pub followup_id: Uuid,
    /// Its newest state.
    pub state: FollowupState,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// Code of the end, for the log.
    pub code: String,
    /// Final state.
    pub state: RunState,
    /// Finish reason.
    pub reason: Option<String>,
    /// What the person reads.
    pub sentence: Option<SentenceRecord>,
    /// Key of `finishRun` in the outbox.
    pub finish_id: Uuid,
    /// What the run cost; absent when unknown.
    pub costs: Option<Vec<CostReport>>,
    /// The last numbers.
    pub metrics: Option<RunMetrics>,
}

/// One of the runner's own sentences for the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentenceRecord {
    /// Its key in the outbox.
    pub id: Uuid,
    /// Its text.
    pub text: String,
}

/// A turn record and its file.
pub struct RecordFile {
    path: PathBuf,
    record: TurnRecord,
}

/// Why a record cannot be used.
#[derive(Debug)]
pub enum RecordFault {
    /// The file cannot be read.
    Io(io::Error),
    /// It is not a record of this version; it was moved aside.
    Damaged,
}

impl RecordFile {
    /// Writes a new record to `<turns_dir>/<run_id>.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(turns_dir: &Path, record: TurnRecord) -> io::Result<RecordFile> {
        let file = RecordFile { path: path_of(turns_dir, record.run_id), record };
        file.save()?;
        Ok(file)
    }

    /// Reads the record at `path`.
    ///
    /// # Errors
    /// [`RecordFault::Damaged`] after the file was moved aside (C8-01), so that a start never loops on it.
    pub fn load(path: &Path) -> Result<RecordFile, RecordFault> {
        let bytes = std::fs::read(path).map_err(RecordFault::Io)?;
        match serde_json::from_slice::<TurnRecord>(&bytes) {
            Ok(record) if record.record_version == RECORD_VERSION => {
                Ok(RecordFile { path: path.to_owned(), record })
            }
            Ok(_) | Err(_) => {
                std::fs::rename(path, path.with_extension("json.damaged")).map_err(RecordFault::Io)?;
                Err(RecordFault::Damaged)
            }
        }
    }

    /// What is known.
    pub fn get(&self) -> &TurnRecord {
        &self.record
    }

    /// Changes the record and writes it before returning.
    ///
    /// # Errors
    /// The file cannot be written; the change is then kept in memory only.
    pub fn update(&mut self, change: impl FnOnce(&mut TurnRecord)) -> io::Result<()> {
        change(&mut self.record);
        self.save()
    }

    /// Removes the file: the run has ended.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        crash::point(|| "before record is removed".to_owned());
        match std::fs::remove_file(&self.path) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
            _ => {
                crash::point(|| "after record is removed".to_owned());
                Ok(())
            }
        }
    }

    fn save(&self) -> io::Result<()> {
        atomic_file::write(&self.path, &serde_json::to_vec(&self.record)?)
    }
}

/// The record files of `turns_dir`, by run.
pub fn list(turns_dir: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(turns_dir)? {
        let path = entry?.path();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let run_id = path.file_stem().and_then(|stem| Uuid::parse_str(&stem.to_string_lossy()).ok());
        if let (true, Some(run_id)) = (is_json, run_id) {
            found.push((run_id, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what a write that was cut off left in `turns_dir`. Only for the owner of the state directory, before
/// any run thread begins.
///
/// # Errors
/// The directory cannot be read.
pub fn clear_partial(turns_dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(turns_dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            // It is looked at again at the next start.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Where the record of a run lies.
pub fn path_of(turns_dir: &Path, run_id: Uuid) -> PathBuf {
    turns_dir.join(format!("{run_id}.json"))
}
