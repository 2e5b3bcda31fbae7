//! Incoming files: downloaded, verified, stored below the thread's inbox, never parsed (IN-1 to IN-6).
//!
//! Every level from the state directory down is opened without following a link, so what a turn planted there leads
//! nowhere and nothing outside is touched (C5-11, R-21). This module must not know HTTP, nor how a prompt names a file.

mod name;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::sdk::bound::RunError;
use crate::sdk::error::TransportError;
use crate::sdk::wire::message::{RunContextAttachment, ScanStatus};
use crate::sdk::wire::problem::{Problem, code};
use crate::sys::beneath::{Dir, Kind};
use crate::sys::digest::hex;

pub use name::{NAME_MAX_BYTES, safe_name};

/// Directory of all inboxes, below the state directory.
const FILES: &str = "files";

/// Begin of the name of a file that is not whole yet.
const UNFINISHED: &str = ".part-";

/// Names that are tried for one file before it is given up: the safe name, then with a number before it. More are only
/// needed when a turn changed or planted what has the name.
const NAMES_TRIED: u32 = 4;

/// Bytes read at once when an existing file is compared.
const BLOCK: usize = 256 * 1024;

/// Status of an answer that says that the bytes are too many.
const STATUS_TOO_LARGE: u16 = 413;

/// The download of one file inside the run binding.
pub trait Fetch {
    /// Writes the bytes of `file_id` into `sink`, at most `limit` of them, and tells `progress` the total so far.
    ///
    /// # Errors
    /// `TransportError::TooLong` when there are more than `limit`; [`RunError::ShutDown`] at once after a stop.
    fn fetch(
        &self,
        file_id: Uuid,
        limit: u64,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, RunError>;
}

/// What a turn is told about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It lies here.
    Local(PathBuf),
    /// It does not, and why.
    Unavailable(Unavailable),
}

/// Why a file cannot be had; the run goes on without it (IN-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unavailable {
    /// The server does not have it, or not for this run.
    NotFound,
    /// Its scan is not done.
    FileNotReady,
    /// Its scan found something, or failed.
    FileBlocked,
    /// Larger than a file may be.
    TooLarge,
    /// Whole, but not the announced bytes.
    ChecksumMismatch,
    /// The transfer or the storing broke.
    TransferFailed,
    /// The server does not give files.
    NotEnabled,
}

/// Every code of [`Unavailable`].
pub const UNAVAILABLE: [Unavailable; 7] = [
    Unavailable::NotFound,
    Unavailable::FileNotReady,
    Unavailable::FileBlocked,
    Unavailable::TooLarge,
    Unavailable::ChecksumMismatch,
    Unavailable::TransferFailed,
    Unavailable::NotEnabled,
];

impl Unavailable {
    /// The stable code, as it stands in the prompt.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::FileNotReady => "file_not_ready",
            Self::FileBlocked => "file_blocked",
            Self::TooLarge => "too_large",
            Self::ChecksumMismatch => "checksum_mismatch",
            Self::TransferFailed => "transfer_failed",
            Self::NotEnabled => "not_enabled",
        }
    }
}

/// Why the files of a run are not fetched any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The server ended the run.
    Ended,
    /// A stop.
    ShutDown,
    /// The credentials are refused for now.
    Hold,
}

/// How the storing of one file stopped.
enum End {
    Unavailable(Unavailable),
    Interrupt(Interrupt),
}

impl From<Unavailable> for End {
    fn from(code: Unavailable) -> End {
        End::Unavailable(code)
    }
}

/// What cannot be written here is a transfer that failed.
impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Unavailable(Unavailable::TransferFailed)
    }
}

/// The inbox of one thread: `<state_dir>/files/<thread_id>`.
#[derive(Clone, Debug)]
pub struct Inbox {
    state_dir: PathBuf,
    thread_id: Uuid,
}

impl Inbox {
    /// The inbox of the thread below the state directory.
    pub fn new(state_dir: &Path, thread_id: Uuid) -> Inbox {
        Inbox { state_dir: state_dir.to_owned(), thread_id }
    }

    /// Where the inbox is.
    pub fn path(&self) -> PathBuf {
        self.state_dir.join(FILES).join(self.thread_id.to_string())
    }

    /// Makes the inbox, private, when it is missing (it stands in `--add-dir` before any file does, R-1), and young,
    /// so that the retention leaves it to the run that needs it.
    ///
    /// # Errors
    /// When a level of it cannot be made.
    pub fn create(&self) -> io::Result<()> {
        self.dir()?.touch()
    }

    /// Stores one attachment of the triggering message or of a follow-up, or uses the stored one with the same bytes.
    ///
    /// `max_bytes` is the server's `file_max_upload_bytes`. Nothing that exists is ever overwritten (IN-3), and no
    /// partial file stays, whatever happens.
    ///
    /// # Errors
    /// Only when the run itself cannot go on; a file that cannot be had is [`Stored::Unavailable`].
    pub fn store(
        &self,
        file: &RunContextAttachment,
        max_bytes: u64,
        fetch: &dyn Fetch,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Stored, Interrupt> {
        match self.try_store(file, max_bytes, fetch, progress) {
            Ok(path) => Ok(Stored::Local(path)),
            Err(End::Unavailable(code)) => Ok(Stored::Unavailable(code)),
            Err(End::Interrupt(interrupt)) => Err(interrupt),
        }
    }

    fn try_store(
        &self,
        file: &RunContextAttachment,
        max_bytes: u64,
        fetch: &dyn Fetch,
        progress: &mut dyn FnMut(u64),
    ) -> Result<PathBuf, End> {
        may_fetch(file, max_bytes)?;
        let dir = self.dir()?.make_own_dir(file.file_id.to_string().as_ref())?;
        // Before the look: the retention must not take an old file away between this and the turn that needs it.
        dir.touch()?;
        remove_unfinished(&dir)?;
        let place = self.path().join(file.file_id.to_string());
        let free = match find_place(&dir, file)? {
            Place::Stored(name) => return Ok(place.join(name)),
            Place::Free(name) => name,
        };
        let mut unfinished = Unfinished::create(&dir)?;
        download(file, fetch, &mut unfinished, progress)?;
        unfinished.finish(&free)?;
        Ok(place.join(free))
    }

    /// Every level is the runner's own: a link that a turn planted there goes, or no file could ever come again.
    fn dir(&self) -> io::Result<Dir> {
        let state = Dir::open(&self.state_dir)?;
        state.make_own_dir(FILES.as_ref())?.make_own_dir(self.thread_id.to_string().as_ref())
    }
}

/// Only what the scan let through and what fits is asked for (IN-1).
fn may_fetch(file: &RunContextAttachment, max_bytes: u64) -> Result<(), Unavailable> {
    match file.scan_status {
        ScanStatus::Pending => Err(Unavailable::FileNotReady),
        ScanStatus::Blocked | ScanStatus::Failed => Err(Unavailable::FileBlocked),
        ScanStatus::Clean | ScanStatus::Skipped if file.size_bytes > max_bytes => Err(Unavailable::TooLarge),
        ScanStatus::Clean | ScanStatus::Skipped => Ok(()),
    }
}

/// What an earlier try left when its runner died. Each file has a directory of its own, so nobody else writes here.
fn remove_unfinished(dir: &Dir) -> io::Result<()> {
    for name in dir.names()? {
        let name = name?;
        if name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            dir.unlink(&name)?;
        }
    }
    Ok(())
}

/// Where a file goes.
enum Place {
    /// It is there already.
    Stored(OsString),
    /// Nothing has this name.
    Free(OsString),
}

fn find_place(dir: &Dir, file: &RunContextAttachment) -> Result<Place, End> {
    for number in 1..=NAMES_TRIED {
        let name = OsString::from(name::numbered(&file.name, number));
        match dir.look(Path::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Free(name)),
            Ok(_) if is_stored(dir, &name, file) => return Ok(Place::Stored(name)),
            // A link, a directory or other bytes: somebody else's, left as it is.
            _ => {}
        }
    }
    Err(Unavailable::TransferFailed.into())
}

/// Whether `name` is a file of its own with exactly the announced bytes.
fn is_stored(dir: &Dir, name: &OsStr, file: &RunContextAttachment) -> bool {
    let opened = dir.look(Path::new(name)).and_then(|seen| {
        let facts = seen.facts()?;
        let fits = facts.kind == Kind::Regular && facts.links == 1 && facts.size == file.size_bytes;
        if fits { seen.open_for_reading().map(Some) } else { Ok(None) }
    });
    let hash = opened.ok().flatten().and_then(|opened| hash_of(opened, file.size_bytes).ok());
    hash.is_some_and(|hash| hash.eq_ignore_ascii_case(&file.sha256))
}

fn hash_of(file: File, most: u64) -> io::Result<String> {
    let mut file = file.take(most.saturating_add(1));
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

/// Fetches the bytes and compares length and hash with what the context announced.
fn download(
    file: &RunContextAttachment,
    fetch: &dyn Fetch,
    unfinished: &mut Unfinished<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), End> {
    let mut sink =
        Hashing { file: &mut unfinished.file, hash: Sha256::new(), written: 0, limit: file.size_bytes };
    let fetched = fetch.fetch(file.file_id, file.size_bytes, &mut sink, progress);
    let too_long = sink.written > sink.limit;
    let same =
        sink.written == file.size_bytes && hex(&sink.hash.finalize()).eq_ignore_ascii_case(&file.sha256);
    match fetched {
        Ok(_) if same => Ok(()),
        Ok(_) => Err(Unavailable::ChecksumMismatch.into()),
        Err(RunError::Transport(_)) if too_long => Err(Unavailable::ChecksumMismatch.into()),
        Err(fault) => Err(judge(fault)),
    }
}

/// Writes and hashes in one pass, and takes nothing above its limit.
struct Hashing<'a> {
    file: &'a mut File,
    hash: Sha256,
    written: u64,
    limit: u64,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written = self.written.saturating_add(bytes.len() as u64);
        if self.written > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What a failed download means (IN-4).
fn judge(fault: RunError) -> End {
    match fault {
        RunError::Ended => End::Interrupt(Interrupt::Ended),
        RunError::ShutDown => End::Interrupt(Interrupt::ShutDown),
        RunError::Hold(_) => End::Interrupt(Interrupt::Hold),
        RunError::Transport(TransportError::TooLong) => Unavailable::ChecksumMismatch.into(),
        RunError::Transport(_) => Unavailable::TransferFailed.into(),
        RunError::Problem(problem) => refusal(&problem).into(),
    }
}

fn refusal(problem: &Problem) -> Unavailable {
    match problem.code.as_str() {
        code::NOT_FOUND | code::FORBIDDEN => Unavailable::NotFound,
        code::FILE_NOT_READY => Unavailable::FileNotReady,
        code::FILE_BLOCKED => Unavailable::FileBlocked,
        code::PAYLOAD_TOO_LARGE => Unavailable::TooLarge,
        code::NOT_ENABLED => Unavailable::NotEnabled,
        _ if problem.status == STATUS_TOO_LARGE => Unavailable::TooLarge,
        _ => Unavailable::TransferFailed,
    }
}

/// A file that is not whole yet; it goes away unless it is finished.
struct Unfinished<'a> {
    dir: &'a Dir,
    name: OsString,
    file: File,
    finished: bool,
}

impl<'a> Unfinished<'a> {
    fn create(dir: &'a Dir) -> io::Result<Unfinished<'a>> {
        let name = OsString::from(format!("{UNFINISHED}{}", Uuid::new_v4()));
        let file = dir.create_new(&name)?;
        Ok(Unfinished { dir, name, file, finished: false })
    }

    /// Gives the file its name, which must be free, once its bytes are on the disk.
    fn finish(mut self, name: &OsStr) -> io::Result<()> {
        self.file.sync_all()?;
        self.dir.rename_new(&self.name, name)?;
        self.finished = true;
        self.dir.sync()
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished && self.dir.unlink(&self.name).is_err() {
            log::warn!("code=partial_file_not_removed");
        }
    }
}

#[cfg(test)]
mod tests;
