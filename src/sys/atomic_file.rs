//! Replaces a file as a whole: a reader sees the old bytes or the new ones, also after a power cut.
//!
//! Must not know what the bytes mean.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{crash, private};

/// Writes `bytes` to `path`: a private file (0600) beside it, fsync, rename, fsync of the directory.
///
/// # Errors
/// Whatever the file system answers; the old file is then untouched and no temporary file is left, except
/// when only the last step, the fsync of the directory, failed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    crash::point(|| place("before", path));
    let (directory, temporary) = beside(path)?;
    let written = fill(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the one that counts; a file that cannot be removed is found by the sweep.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(directory)?.sync_all()?;
    crash::point(|| place("after", path));
    Ok(())
}

/// As [`write`], without asking the disk to keep it: a reader sees the old bytes or the new ones, and after a power
/// cut perhaps neither. For what is written often and told anew by the next start.
///
/// # Errors
/// Whatever the file system answers; the old file is then untouched and no temporary file is left.
pub fn show(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (_, temporary) = beside(path)?;
    let shown = private::create_file(&temporary).and_then(|mut file| file.write_all(bytes));
    let shown = shown.and_then(|()| fs::rename(&temporary, path));
    if shown.is_err() {
        // The first error is the one that counts.
        let _ = fs::remove_file(&temporary);
    }
    shown
}

fn place(when: &str, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{when} file {}", crash::shape(&name))
}

/// The directory of `path` and a fresh hidden name in it.
fn beside(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    let temporary = directory.join(hidden);
    Ok((directory, temporary))
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::create_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sys::private::TempDir;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_new_file_and_a_replaced_one_are_private_and_whole() {
        let home = TempDir::new().unwrap();
        let path = home.path().join("record.json");
        for way in [write, show] {
            for bytes in [&b"one"[..], b"", &[7; 100_000]] {
                way(&path, bytes).unwrap();
                assert_eq!(fs::read(&path).unwrap(), bytes);
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
                assert_eq!(names(home.path()), ["record.json"]);
            }
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary_one() {
        let home = TempDir::new().unwrap();
        let occupied = home.path().join("occupied");
        fs::create_dir(&occupied).unwrap();
        fs::write(occupied.join("inside"), b"kept").unwrap();
        assert!(write(&occupied, b"new").is_err());
        assert!(show(&occupied, b"new").is_err());
        assert_eq!(fs::read(occupied.join("inside")).unwrap(), b"kept");
        assert_eq!(names(home.path()), ["occupied"]);
        assert!(write(&home.path().join("missing/record"), b"x").is_err());
        assert!(write(Path::new("/"), b"x").is_err());
    }
}
