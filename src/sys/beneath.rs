//! Files below a directory descriptor, without ever following a link (R-21, C5-01, C5-11).
//!
//! A path is a question that the file system may answer differently each time. What is opened here is opened once,
//! below a descriptor that is held, and every later check and read happens on that descriptor. This module must
//! not know what the files are for.

mod place;
mod resolve;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat};

pub use place::on_kernel_file_system;
pub use resolve::{ResolveError, Resolved, Step, resolve};

/// Mode of every directory made here: nobody but the owner.
const PRIVATE_DIR: Mode = Mode::S_IRWXU;

/// Mode of every file made here: nobody but the owner.
const PRIVATE_FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// What makes two names the same file, whatever their spelling (D-M3-12-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// What an opened thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Other,
}

/// Everything about an opened file that changes when somebody touches it.
///
/// Two equal values before and after a copy mean that the copy is the file (D-M3-12-4, C5-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Identity.
    pub id: FileId,
    /// Type.
    pub kind: Kind,
    /// Number of names.
    pub links: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Last change of content, names or rights: seconds and nanoseconds.
    pub changed: (i64, i64),
}

impl Facts {
    /// Asks the descriptor `fd`.
    pub fn of(fd: impl AsFd) -> io::Result<Facts> {
        Ok(Facts::from(fstat(fd)?))
    }
}

impl From<FileStat> for Facts {
    fn from(stat: FileStat) -> Facts {
        Facts {
            id: FileId { device: stat.st_dev, inode: stat.st_ino },
            kind: kind_of(stat.st_mode),
            links: widen(stat.st_nlink),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A link count, whose width differs between architectures.
fn widen(links: impl Into<u64>) -> u64 {
    links.into()
}

fn kind_of(mode: u32) -> Kind {
    use nix::sys::stat::SFlag;
    match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Kind::Regular,
        SFlag::S_IFDIR => Kind::Directory,
        SFlag::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    }
}

/// Something opened with `O_PATH`: it can be looked at, and not yet read.
///
/// Looking never blocks and never has an effect, also not on a FIFO or a device.
#[derive(Debug)]
pub struct Seen {
    fd: OwnedFd,
}

impl Seen {
    /// What the opened thing is now.
    pub fn facts(&self) -> io::Result<Facts> {
        Facts::of(&self.fd)
    }

    /// The same file opened for reading, through the descriptor and never through a name.
    ///
    /// # Errors
    /// `InvalidInput` when it is not a regular file; else what the system says, for example no permission.
    pub fn open_for_reading(&self) -> io::Result<File> {
        if self.facts()?.kind != Kind::Regular {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(File::from(nix::fcntl::open(proc_path(&self.fd).as_str(), flags, Mode::empty())?))
    }
}

impl AsFd for Seen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A directory that is held open, as the place below which files are found and made.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
}

impl Dir {
    /// Opens the directory at `path`, a path of the operator (links in it are followed).
    pub fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Dir { fd: nix::fcntl::open(path, flags, Mode::empty())? })
    }

    /// Identity of the directory.
    pub fn id(&self) -> io::Result<FileId> {
        Ok(Facts::of(&self.fd)?.id)
    }

    /// Opens what `relative` names below this directory, for looking only.
    ///
    /// # Errors
    /// When a component is missing or a link, or when `relative` could leave the directory.
    pub fn look(&self, relative: &Path) -> io::Result<Seen> {
        Ok(Seen { fd: open_beneath(self.fd.as_fd(), relative, OFlag::O_PATH, Mode::empty())? })
    }

    /// The same as [`Dir::look`], within the mount of this directory: what is mounted below it, a bind mount of
    /// another place for example, is not below it in this sense. Kernels without `openat2` compare devices.
    ///
    /// # Errors
    /// `CrossesDevices` behind a mount; else as [`Dir::look`].
    pub fn look_in_mount(&self, relative: &Path) -> io::Result<Seen> {
        let beneath = beneath().union(ResolveFlag::RESOLVE_NO_XDEV);
        let fd = open_resolved(self.fd.as_fd(), relative, OFlag::O_PATH, Mode::empty(), beneath)?;
        match Facts::of(&fd)?.id.device == self.id()?.device {
            true => Ok(Seen { fd }),
            false => Err(io::ErrorKind::CrossesDevices.into()),
        }
    }

    /// Opens the directory that `relative` names below this one.
    pub fn dir(&self, relative: &Path) -> io::Result<Dir> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        Ok(Dir { fd: open_beneath(self.fd.as_fd(), relative, flags, Mode::empty())? })
    }

    /// The directory `name` in this one, made with mode 0700 when it is missing.
    ///
    /// # Errors
    /// When something that is not a directory, for example a planted link, has the name (C5-11).
    pub fn make_dir(&self, name: &OsStr) -> io::Result<Dir> {
        match nix::sys::stat::mkdirat(&self.fd, single(name)?, PRIVATE_DIR) {
            Ok(()) | Err(Errno::EEXIST) => self.dir(Path::new(name)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same as [`Dir::make_dir`] for a name that belongs to the caller: a link or a file that took it is removed
    /// first, never what a link points to.
    ///
    /// # Errors
    /// As [`Dir::make_dir`], when what has the name cannot be removed.
    pub fn make_own_dir(&self, name: &OsStr) -> io::Result<Dir> {
        match self.make_dir(name) {
            Err(fault) => self.unlink(name).map_err(|_| fault).and_then(|()| self.make_dir(name)),
            made => made,
        }
    }

    /// Says that this directory was just needed: its times are those of this moment.
    ///
    /// # Errors
    /// The file system's answer.
    pub fn touch(&self) -> io::Result<()> {
        File::open(proc_path(&self.fd))?.set_modified(std::time::SystemTime::now())
    }

    /// Gives this directory the mode 0700.
    ///
    /// # Errors
    /// The file system's answer.
    pub fn set_private(&self) -> io::Result<()> {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(PRIVATE_DIR.bits());
        std::fs::set_permissions(proc_path(&self.fd), mode)
    }

    /// Makes the file `name` with mode 0600.
    ///
    /// # Errors
    /// `AlreadyExists` when anything, also a dangling link, has the name.
    pub fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let path = Path::new(single(name)?);
        Ok(File::from(open_beneath(self.fd.as_fd(), path, flags, PRIVATE_FILE)?))
    }

    /// Gives the file `from` of this directory the name `to`, which must be free.
    ///
    /// # Errors
    /// `AlreadyExists` when anything has the name `to`; nothing is ever replaced.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (single(from)?, single(to)?);
        match rename_without_replacing(self.fd.as_fd(), from, to) {
            Err(Errno::EINVAL | Errno::ENOSYS) => self.link_and_unlink(from, to),
            other => Ok(other?),
        }
    }

    /// [`Dir::rename_new`] on file systems that cannot rename without replacing.
    fn link_and_unlink(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        nix::unistd::linkat(&self.fd, from, &self.fd, to, nix::fcntl::AtFlags::empty())?;
        self.unlink(from)
    }

    /// Removes the file or link `name`, never what a link points to.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        let flag = nix::unistd::UnlinkatFlags::NoRemoveDir;
        Ok(nix::unistd::unlinkat(&self.fd, single(name)?, flag)?)
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        let flag = nix::unistd::UnlinkatFlags::RemoveDir;
        Ok(nix::unistd::unlinkat(&self.fd, single(name)?, flag)?)
    }

    /// The names in this directory, in no order.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<std::ffi::OsString>> + use<>> {
        Ok(std::fs::read_dir(proc_path(&self.fd))?.map(|entry| entry.map(|entry| entry.file_name())))
    }

    /// Makes sure that names made and removed in this directory survive a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        File::open(proc_path(&self.fd))?.sync_all()
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The name of a descriptor of this process, which the kernel resolves without looking at any file name.
fn proc_path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// `name`, when it is one ordinary component.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn rename_without_replacing(dir: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    #[cfg(target_env = "gnu")]
    return nix::fcntl::renameat2(dir, from, dir, to, nix::fcntl::RenameFlags::RENAME_NOREPLACE);
    #[cfg(not(target_env = "gnu"))]
    return Err(Errno::ENOSYS);
}

/// No link and no way out.
fn beneath() -> ResolveFlag {
    ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS
}

/// One open below `dir`; the kernel refuses every link and every way out.
fn open_beneath(dir: BorrowedFd<'_>, relative: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    open_resolved(dir, relative, flags, mode, beneath())
}

fn open_resolved(
    dir: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlag,
    mode: Mode,
    resolve: ResolveFlag,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).mode(mode).resolve(resolve);
    let opened = match openat2(dir, relative, how) {
        // Old kernels do not know the call, some sandboxes refuse it.
        Err(Errno::ENOSYS | Errno::EPERM) => walk_beneath(dir, relative, flags, mode)?,
        other => other?,
    };
    refuse_link(opened)
}

/// The same as the call above on kernels without it: component by component, following nothing.
fn walk_beneath(dir: BorrowedFd<'_>, relative: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut names = relative.components().map(|component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    });
    let mut name = names.next().ok_or(io::ErrorKind::InvalidInput)??;
    let mut held: Option<OwnedFd> = None;
    for next in names {
        let parent = held.as_ref().map_or(dir, AsFd::as_fd);
        held = Some(openat(parent, name, step, Mode::empty())?);
        name = next?;
    }
    Ok(openat(held.as_ref().map_or(dir, AsFd::as_fd), name, flags, mode)?)
}

/// `O_PATH` with `O_NOFOLLOW` opens a link itself where `openat2` refuses it; both ways answer the same.
fn refuse_link(fd: OwnedFd) -> io::Result<OwnedFd> {
    if Facts::of(&fd)?.kind == Kind::Link {
        return Err(Errno::ELOOP.into());
    }
    Ok(fd)
}

#[cfg(test)]
mod tests;
