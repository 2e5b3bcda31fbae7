//! The files of the store: private from their creation, and out of the way when damaged.
//! Must not know the schema.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;
use crate::sdk::wire::Time;

/// Only the owner may read or write: the inbox holds invocation tokens (M2-34 note 17).
const PRIVATE: u32 = 0o600;
/// The permissions of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;
/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// What SQLite puts beside the file; it gives them the mode of the file itself.
const COMPANIONS: &[&str] = &["-wal", "-shm", "-journal"];
const WAL: &str = "-wal";

/// Creates the file with mode 0600 when it is missing (also under umask 000), takes wider permissions away
/// from an old one and its companions, and looks at its beginning.
///
/// # Errors
/// [`StoreError::Damaged`] when this is no store; the file system's errors.
pub fn prepare(path: &Path) -> Result<(), StoreError> {
    let mut file = open_or_create(path)?;
    narrow(&file)?;
    for suffix in COMPANIONS {
        narrow_if_there(&beside(path, suffix))?;
    }
    if looks_damaged(&mut file, path)? { Err(StoreError::Damaged) } else { Ok(()) }
}

/// Whether the store has a journal: somebody uses it, or died while using it.
pub fn has_journal(path: &Path) -> bool {
    beside(path, WAL).exists()
}

/// Renames the file and its companions; gives the new name of the file.
///
/// The companions go along: a journal that belongs to another file would be replayed into the new one.
pub fn move_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let aside = free_name(path);
    for suffix in COMPANIONS {
        rename_if_there(&beside(path, suffix), &beside(&aside, suffix))?;
    }
    fs::rename(path, &aside)?;
    sync_directory(path)?;
    Ok(aside)
}

fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(PRIVATE).custom_flags(nix::libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let file = options.create_new(true).open(path)?;
            // The name of the file must survive a power loss as its content does.
            sync_directory(path)?;
            Ok(file)
        }
        other => other,
    }
}

fn narrow(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    if mode & GROUP_AND_OTHERS == 0 {
        return Ok(());
    }
    log::warn!("code=store_mode_fixed");
    file.set_permissions(Permissions::from_mode(PRIVATE))
}

fn narrow_if_there(path: &Path) -> io::Result<()> {
    match OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(path) {
        Ok(file) => narrow(&file),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// An empty file is a new store, unless a journal with content is beside it: SQLite would delete that.
fn looks_damaged(file: &mut File, path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    if !head.is_empty() {
        return Ok(head != MAGIC);
    }
    match fs::metadata(beside(path, WAL)) {
        Ok(wal) => Ok(wal.len() > 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

fn free_name(path: &Path) -> PathBuf {
    let mut stamp = Time::now().as_millis();
    loop {
        let candidate = beside(path, &format!(".damaged-{stamp}"));
        if fs::symlink_metadata(&candidate).is_err() {
            return candidate;
        }
        stamp = stamp.saturating_add(1);
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
