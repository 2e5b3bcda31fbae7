//! Directories and files that only their owner may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode of directories.
const DIR_MODE: u32 = 0o700;
/// Mode of files.
const FILE_MODE: u32 = 0o600;

/// Makes `path` and what is missing above it, each readable by its owner only.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
}

/// Whether `path` is a directory of nobody but its owner.
pub fn is_private_dir(path: &Path) -> io::Result<bool> {
    let meta = std::fs::metadata(path)?;
    Ok(meta.is_dir() && meta.mode() & 0o077 == 0)
}

/// Opens `path` for reading and writing, made when missing.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Makes the new file `path`.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Replaces `path` by `bytes` in one step: no reader sees a half, no crash leaves one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4()));
    let mut file = create_new(&beside)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
        return written;
    }
    sync_dir_of(path)
}

/// Makes renames in the directory of `path` durable.
pub fn sync_dir_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Takes every permission of group and others from `path`.
pub fn make_private(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(FILE_MODE))
}
