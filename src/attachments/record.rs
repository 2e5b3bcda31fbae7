//! The record of one answer's files, so that a runner that starts anew goes on where the old one was (D-M3-12-9).
//!
//! It is stored before each request that depends on it. It never holds a token, a content or the answer's text. This
//! module must not know how a request is made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::outcome::{Outcome, Reason, Refusal};
use super::staging::Staged;
use crate::sdk::wire::file::UploadPart;
use crate::sdk::wire::problem::Problem;

/// Version of the record's form. A record of another one is not read.
const VERSION: u32 = 1;

/// Longest record that is read, bytes: far above a full set with long part plans.
const RECORD_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// What is known of the files of one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentSetRecord {
    version: u32,
    /// The run.
    pub run_id: Uuid,
    /// Number of the answer among the run's planned ones, from 1.
    pub answer: u32,
    /// The staged files, by position; none when the set was refused before.
    pub files: Vec<FileRecord>,
    /// What became of each announced file when the set was not sent; empty while it may still be.
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
    /// How many files the notice names, the server's `message_max_attachments`; absent when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_shown: Option<u64>,
    /// Id of the message with the files, stored before it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<Uuid>,
    /// Id of the message without them, stored before it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_msg_id: Option<Uuid>,
}

/// One file of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Position in the answer, from 1.
    pub position: u32,
    /// The announced name.
    pub name: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, lowercase hex.
    pub sha256: String,
    /// How far the upload is.
    pub state: FileState,
    /// Key of `createUpload`, stored before it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_key: Option<Uuid>,
    /// Key of `completeUpload`, stored before it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_key: Option<Uuid>,
    /// The server's id, stored right after its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<Uuid>,
    /// How the bytes are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The confirmed parts and their marks.
    #[serde(default)]
    pub etags: BTreeMap<u32, String>,
}

/// How far the upload of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Copied, nothing asked of the server, or asked without an answer.
    Staged,
    /// The server has a session for it.
    Created,
    /// The server has the whole file.
    Completed,
    /// Given up.
    Failed,
}

/// How the bytes of a file are cut into parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Length of every part but the last, bytes.
    pub part_size_bytes: u64,
    /// The parts, numbered from 1 without a gap.
    pub parts: Vec<UploadPart>,
}

impl FileRecord {
    /// Forgets the session: the file starts anew with fresh keys.
    pub fn start_anew(&mut self) {
        self.state = FileState::Staged;
        self.create_key = None;
        self.complete_key = None;
        self.file_id = None;
        self.plan = None;
        self.etags.clear();
    }
}

impl From<Staged> for FileRecord {
    fn from(staged: Staged) -> FileRecord {
        FileRecord {
            position: staged.position,
            name: staged.name,
            size_bytes: staged.size_bytes,
            sha256: staged.sha256,
            state: FileState::Staged,
            create_key: None,
            complete_key: None,
            file_id: None,
            plan: None,
            etags: BTreeMap::new(),
        }
    }
}

impl AttachmentSetRecord {
    /// The record of a set that is staged and not yet uploaded.
    pub fn staged(run_id: Uuid, answer: u32, files: Vec<Staged>) -> AttachmentSetRecord {
        let files = files.into_iter().map(FileRecord::from).collect();
        AttachmentSetRecord { files, ..AttachmentSetRecord::refused(run_id, answer, Vec::new()) }
    }

    /// The record of a set that was refused before anything was staged.
    pub fn refused(run_id: Uuid, answer: u32, outcomes: Vec<Outcome>) -> AttachmentSetRecord {
        AttachmentSetRecord {
            version: VERSION,
            run_id,
            answer,
            files: Vec::new(),
            outcomes,
            names_shown: None,
            client_msg_id: None,
            fallback_msg_id: None,
        }
    }

    /// The ids of the uploaded files in their order, once every file is complete and none was given up.
    pub fn uploaded(&self) -> Option<Vec<Uuid>> {
        let complete = self.outcomes.is_empty() && !self.files.is_empty();
        let ids = self.files.iter().map(|file| file.file_id.filter(|_| file.state == FileState::Completed));
        complete.then(|| ids.collect()).flatten()
    }

    /// Turns the set into one that is not sent: file `position` for its own `reason`, the others for it.
    pub fn fail(&mut self, position: u32, reason: Reason, refusal: Option<Refusal>) {
        let outcome = |file: &FileRecord| match file.position {
            own if own == position => Outcome { name: file.name.clone(), reason, refusal: refusal.clone() },
            _ => Outcome::of(file.name.clone(), Reason::SetNotSent),
        };
        self.outcomes = self.files.iter().map(outcome).collect();
    }

    /// Turns the uploaded set into one that the server would not attach (D-M3-12-8). A record that was lost and made
    /// anew knows no files, but the names of its outcomes.
    pub fn not_attached(&mut self, problem: &Problem) {
        let refusal = Some(Refusal::from(problem));
        let names: Vec<String> = match self.files.is_empty() {
            true => self.outcomes.drain(..).map(|outcome| outcome.name).collect(),
            false => self.files.iter().map(|file| file.name.clone()).collect(),
        };
        let outcome = |name| Outcome { name, reason: Reason::NotAttached, refusal: refusal.clone() };
        self.outcomes = names.into_iter().map(outcome).collect();
    }
}

/// Where a record lies: `<state_dir>/sessions/<session_ref>/<run_id>.attach-<answer>.json`.
pub fn path(state_dir: &Path, session_ref: Uuid, run_id: Uuid, answer: u32) -> PathBuf {
    state_dir.join("sessions").join(session_ref.to_string()).join(format!("{run_id}.attach-{answer}.json"))
}

/// What stores a record; every change is on the disk when `save` returns.
pub trait Persist {
    /// Stores the record whole, or leaves the old one whole.
    ///
    /// # Errors
    /// When it is not certain that the record is stored; the request that depends on it is then not made.
    fn save(&mut self, record: &AttachmentSetRecord) -> io::Result<()>;
}

/// A record in its file.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    write: fn(&Path, &[u8]) -> io::Result<()>,
}

impl RecordFile {
    /// The record at `path`; `write` replaces a file in one step, with mode 0600 (`sys::atomic_file::write`).
    pub fn new(path: PathBuf, write: fn(&Path, &[u8]) -> io::Result<()>) -> RecordFile {
        RecordFile { path, write }
    }

    /// Reads the record, if there is one.
    ///
    /// # Errors
    /// [`Unreadable`]: the keys in it are lost, so the set must not be uploaded again and is `upload_failed`.
    pub fn load(&self) -> Result<Option<AttachmentSetRecord>, Unreadable> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|_| Unreadable)?,
        };
        let mut bytes = Vec::new();
        file.take(RECORD_MAX_BYTES).read_to_end(&mut bytes).map_err(|_| Unreadable)?;
        let record: AttachmentSetRecord = serde_json::from_slice(&bytes).map_err(|_| Unreadable)?;
        if record.version == VERSION { Ok(Some(record)) } else { Err(Unreadable) }
    }

    /// Removes the record once its answer is settled; nothing to remove is fine.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Persist for RecordFile {
    fn save(&mut self, record: &AttachmentSetRecord) -> io::Result<()> {
        (self.write)(&self.path, &serde_json::to_vec(record)?)
    }
}

/// A record is there and cannot be used: damaged, of another version, or not to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Unreadable {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        "attachment_record_unreadable"
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the record of an answer's files cannot be read")
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
mod tests;
