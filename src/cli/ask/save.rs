//! The answer's files into a directory: safe names, nothing overwritten, nothing half.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::attachments::incoming::safe_name;
use crate::cli::exit::Failure;
use crate::cli::person::{Person, PersonError};
use crate::cli::show::Live;
use crate::sdk::wire::file;

/// Most files of one name in a directory; more are an accident.
const NUMBERS: u32 = 10_000;

/// A file that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its name at the server.
    pub name: String,
    /// Where it is now.
    pub path: PathBuf,
    /// Its length, bytes.
    pub size_bytes: u64,
    /// Its SHA-256, lowercase hex.
    pub sha256: String,
}

/// Whether `out` is or can become a directory.
///
/// # Errors
/// When something else is there.
pub fn check(out: &Path) -> Result<(), Failure> {
    if out.exists() && !out.is_dir() {
        return Err(Failure::usage(format!("{} is no directory; name another with --out", out.display())));
    }
    Ok(())
}

/// Saves one file of the answer in `out`.
///
/// # Errors
/// Why it is not there now; what was begun is removed.
pub fn save(person: &Person, file: &file::File, out: &Path, live: &Live) -> Result<Saved, Failure> {
    let cannot = |fault: std::io::Error| {
        Failure::new(format!("{}: files cannot be saved there ({})", out.display(), fault.kind()))
    };
    std::fs::create_dir_all(out).map_err(cannot)?;
    let (mut target, path) = fresh(out, &safe_name(&file.name)).map_err(cannot)?;
    let transfer = live.transfer("saving", &file.name, file.size_bytes);
    if let Err(fault) = person.download(file, &mut target, &|bytes| transfer.add(bytes)) {
        return Err(discarded(&path, &fault));
    }
    Ok(Saved { name: file.name.clone(), path, size_bytes: file.size_bytes, sha256: file.sha256.clone() })
}

fn discarded(path: &Path, fault: &PersonError) -> Failure {
    // It is this call's own file; when even that fails, the message is still the one that counts.
    let _ = std::fs::remove_file(path);
    Failure::new(format!("{}: {fault}", path.display()))
}

/// A new file called `name`, or the first numbered name that is free.
fn fresh(out: &Path, name: &str) -> std::io::Result<(File, PathBuf)> {
    for number in 1..=NUMBERS {
        let path = out.join(numbered(name, number));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(fault) if fault.kind() == ErrorKind::AlreadyExists => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// `name` for the first try; `name-2.ending` and so on for the others.
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
        None => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn numbers_stand_before_the_ending() {
        let rows = [
            ("report.txt", 1, "report.txt"),
            ("report.txt", 2, "report-2.txt"),
            ("a.tar.gz", 3, "a.tar-3.gz"),
            ("LICENSE", 2, "LICENSE-2"),
        ];
        for (name, number, expected) in rows {
            assert_eq!(numbered(name, number), expected);
        }
    }

    #[test]
    fn output_names_stay_in_the_directory_and_overwrite_nothing() {
        let out = TempDir::new().unwrap();
        std::fs::write(out.join("report.txt"), "mine").unwrap();
        std::os::unix::fs::symlink("/nonexistent/target", out.join("link.txt")).unwrap();
        let rows = [
            ("report.txt", "report-2.txt"),
            ("report.txt", "report-3.txt"),
            ("link.txt", "link-2.txt"),
            ("../../escape.txt", "_.._escape.txt"),
            ("/etc/passwd", "_etc_passwd"),
            (".bashrc", "bashrc"),
            ("CLAUDE.md", "file-CLAUDE.md"),
        ];
        for (name, expected) in rows {
            let (_, path) = fresh(out.path(), &safe_name(name)).unwrap();
            assert_eq!(path, out.join(expected), "{name}");
        }
        assert_eq!(std::fs::read(out.join("report.txt")).unwrap(), b"mine");
    }

    #[test]
    fn a_file_is_no_output_directory() {
        let top = TempDir::new().unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        assert!(check(&top.join("file")).is_err());
        assert!(check(top.path()).is_ok() && check(&top.join("new")).is_ok());
    }
}
