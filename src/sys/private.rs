//! Files and directories that belong to this user alone: 0600 and 0700 from the moment they exist.
//!
//! The mode is given at creation, so no umask widens it, and set once more on the descriptor when a strict
//! umask took away the owner's own bits (M2-34 note 16). Must not know which files these are.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_NOFOLLOW;

use super::beneath::Dir;
use super::process::effective_uid;

/// Mode of every file made here: read and write for the owner.
pub const FILE_MODE: u32 = 0o600;
/// Mode of every directory made here: everything for the owner.
pub const DIR_MODE: u32 = 0o700;
/// Permission bits of the group and of others.
pub const FOREIGN_BITS: u32 = 0o077;
const PERMISSION_BITS: u32 = 0o7777;
/// Depth to which directories are given permissions to be removed; each level holds a descriptor.
const OPEN_UP_DEPTH: usize = 64;

/// Creates `path` and every missing directory above it, each with mode 0700; existing ones stay as they are.
///
/// # Errors
/// The file system's answer, or `AlreadyExists` when something else than a directory has the name.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(DIR_MODE)),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Says that `directory` was just needed: its times are those of this moment.
///
/// # Errors
/// The file system's answer.
pub fn touch(directory: &Path) -> io::Result<()> {
    File::open(directory)?.set_modified(std::time::SystemTime::now())
}

/// Removes the directory `path` with everything in it, also directories in it that their owner may not change: some
/// tools leave such ones. Links are not followed.
///
/// # Errors
/// The file system's answer.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
            open_up(&Dir::open(parent)?, name, OPEN_UP_DEPTH)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Gives the owner every permission on the directory `name` and on those below it.
fn open_up(parent: &Dir, name: &OsStr, depth: usize) -> io::Result<()> {
    // What is no directory needs no permission to be removed.
    let Ok(dir) = parent.dir(Path::new(name)) else { return Ok(()) };
    dir.set_private()?;
    if depth > 0 {
        for inner in dir.names()? {
            open_up(&dir, &inner?, depth - 1)?;
        }
    }
    Ok(())
}

/// Creates the new file `path` for reading and writing, mode 0600.
///
/// # Errors
/// `AlreadyExists` when the name is taken, also by a link; else the file system's answer.
pub fn create_file(path: &Path) -> io::Result<File> {
    narrowed(OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?)
}

/// Opens `path` for appending and creates it with mode 0600 when it is missing; a link is not followed.
///
/// # Errors
/// The file system's answer.
pub fn open_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE).custom_flags(O_NOFOLLOW);
    narrowed(options.open(path)?)
}

/// Sets exactly 0600 on an open file when it has another mode.
pub(super) fn narrowed(file: File) -> io::Result<File> {
    if file.metadata()?.mode() & PERMISSION_BITS != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Why a directory is not private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirFault {
    /// Nothing is there.
    Missing,
    /// Something else than a directory is there.
    NotADirectory,
    /// Another user owns it.
    ForeignOwner,
    /// The group or others have a permission.
    OpenToOthers,
    /// It cannot be looked at.
    Unreadable,
}

impl DirFault {
    /// Stable code for `check-config`.
    pub fn code(self) -> &'static str {
        match self {
            DirFault::Missing => "directory_missing",
            DirFault::NotADirectory => "not_a_directory",
            DirFault::ForeignOwner => "directory_foreign_owner",
            DirFault::OpenToOthers => "directory_open_to_others",
            DirFault::Unreadable => "directory_unreadable",
        }
    }
}

impl fmt::Display for DirFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DirFault::Missing => "the directory does not exist; create it",
            DirFault::NotADirectory => "this is not a directory; name another place",
            DirFault::ForeignOwner => {
                "another user owns the directory; call this as the runner's user, or give the directory to it"
            }
            DirFault::OpenToOthers => "group or others have permissions on the directory; set mode 0700",
            DirFault::Unreadable => "the directory cannot be looked at; check the directories above it",
        })
    }
}

impl std::error::Error for DirFault {}

/// Checks that `path` is a directory of this user on which nobody else has a permission.
///
/// A link is followed, because service managers put one in front of a state directory.
///
/// # Errors
/// The first [`DirFault`] that holds.
pub fn check_dir(path: &Path) -> Result<(), DirFault> {
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DirFault::Missing,
        io::ErrorKind::NotADirectory => DirFault::NotADirectory,
        _ => DirFault::Unreadable,
    })?;
    if !found.is_dir() {
        return Err(DirFault::NotADirectory);
    }
    if found.uid() != effective_uid() {
        return Err(DirFault::ForeignOwner);
    }
    if found.mode() & FOREIGN_BITS != 0 {
        return Err(DirFault::OpenToOthers);
    }
    Ok(())
}

/// A private directory below the system's temporary directory that removes itself when it is dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes a fresh, empty one.
    ///
    /// # Errors
    /// The file system's answer.
    pub fn new() -> io::Result<TempDir> {
        let path = std::env::temp_dir().join(format!("ccr-{}", uuid::Uuid::new_v4().simple()));
        create_dir_all(&path)?;
        // The canonical path, because programs below print and compare it.
        Ok(TempDir(fs::canonicalize(path)?))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Nothing can be done about what cannot be removed; the system sweeps its temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & PERMISSION_BITS
    }

    #[test]
    fn directories_are_private_at_every_level_and_existing_ones_stay() {
        let home = TempDir::new().unwrap();
        let wide = home.join("wide");
        fs::create_dir(&wide).unwrap();
        fs::set_permissions(&wide, Permissions::from_mode(0o755)).unwrap();
        create_dir_all(&wide.join("a/b")).unwrap();
        create_dir_all(&wide.join("a/b")).unwrap();
        let modes = [mode(&wide), mode(&wide.join("a")), mode(&wide.join("a/b"))];
        assert_eq!(modes, [0o755, DIR_MODE, DIR_MODE]);
        fs::write(home.join("file"), b"").unwrap();
        assert!(create_dir_all(&home.join("file")).is_err());
        assert!(create_dir_all(&home.join("file/below")).is_err());
    }

    #[test]
    fn files_are_private_never_replaced_and_never_behind_a_link() {
        let home = TempDir::new().unwrap();
        let path = home.join("file");
        create_file(&path).unwrap().write_all(b"one").unwrap();
        assert_eq!(mode(&path), FILE_MODE);
        assert_eq!(create_file(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open_append(&path).unwrap().write_all(b" two").unwrap();
        assert_eq!(mode(&path), FILE_MODE);
        let mut text = String::new();
        File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        std::os::unix::fs::symlink(&path, home.join("link")).unwrap();
        assert!(open_append(&home.join("link")).is_err());
        assert!(create_file(&home.join("link")).is_err());
        open_append(&home.join("fresh")).unwrap();
        assert_eq!(mode(&home.join("fresh")), FILE_MODE);
    }

    #[test]
    fn check_dir_table() {
        let home = TempDir::new().unwrap();
        fs::write(home.join("file"), b"").unwrap();
        for (name, bits) in [("good", 0o700), ("strict", 0o500), ("group", 0o710), ("others", 0o701)] {
            fs::create_dir(home.join(name)).unwrap();
            fs::set_permissions(home.join(name), Permissions::from_mode(bits)).unwrap();
        }
        std::os::unix::fs::symlink(home.join("good"), home.join("link")).unwrap();
        let rows = [
            ("good", Ok(())),
            ("strict", Ok(())),
            ("link", Ok(())),
            ("group", Err(DirFault::OpenToOthers)),
            ("others", Err(DirFault::OpenToOthers)),
            ("file", Err(DirFault::NotADirectory)),
            ("file/below", Err(DirFault::NotADirectory)),
            ("absent", Err(DirFault::Missing)),
        ];
        for (name, expected) in rows {
            assert_eq!(check_dir(&home.join(name)), expected, "{name}");
        }
        // A directory of another user exists only from an ordinary user's point of view, or for root when it
        // gives one away.
        let foreign = home.join("good");
        if effective_uid() == 0 {
            std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
            assert_eq!(check_dir(&foreign), Err(DirFault::ForeignOwner));
        } else {
            assert_eq!(check_dir(Path::new("/")), Err(DirFault::ForeignOwner));
        }
    }

    /// Root may remove them anyway; for everybody else the permissions decide.
    #[test]
    fn directories_without_permissions_are_removed_too_and_links_not_followed() {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.join("tree/read-only/closed")).unwrap();
        fs::create_dir(home.join("outside")).unwrap();
        fs::write(home.join("outside/kept"), b"x").unwrap();
        fs::write(home.join("tree/read-only/file"), b"x").unwrap();
        fs::write(home.join("tree/read-only/closed/file"), b"x").unwrap();
        std::os::unix::fs::symlink(home.join("outside"), home.join("tree/link")).unwrap();
        for (name, bits) in [("outside", 0o500), ("tree/read-only/closed", 0), ("tree/read-only", 0o500)] {
            fs::set_permissions(home.join(name), Permissions::from_mode(bits)).unwrap();
        }
        remove_dir_all(&home.join("tree")).unwrap();
        assert!(!home.join("tree").exists());
        assert_eq!(fs::metadata(home.join("outside")).unwrap().mode() & 0o777, 0o500);
        fs::set_permissions(home.join("outside"), Permissions::from_mode(0o700)).unwrap();
        assert!(home.join("outside/kept").exists());
        assert_eq!(remove_dir_all(&home.join("tree")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_temp_dir_is_private_and_removes_itself() {
        let home = TempDir::new().unwrap();
        let path = home.path().to_owned();
        create_dir_all(&home.join("a/b")).unwrap();
        fs::write(home.join("a/b/file"), b"x").unwrap();
        assert_eq!(check_dir(&path), Ok(()));
        drop(home);
        assert!(!path.exists());
    }
}
