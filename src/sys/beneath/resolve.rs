//! The real path of an announced path, with the identity of every directory on the way (D-M3-12-4, R-21).
//!
//! This is `realpath` done in steps, so that the caller learns the ancestors by device and inode, so that a kernel
//! file system is noticed where it is entered (C5-05), and so that a name in another normal form is found (C5-07).
//! It opens with `O_PATH` only: nothing is read, nothing blocks.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use unicode_normalization::UnicodeNormalization;

use super::{Dir, Facts, FileId, Kind, place};

/// Most links followed for one path, the kernel's own number.
const LINKS_MAX: usize = 40;

/// Most steps for one path: more than the longest path the kernel takes, links included.
const STEPS_MAX: usize = 8192;

/// Most names of a directory that are compared when a name is searched in another normal form.
const NAMES_MAX: usize = 20_000;

/// One component of a real path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The component.
    pub name: OsString,
    /// What it was when the path was resolved.
    pub id: FileId,
}

/// A real path: the root of the file system and the steps from there, without any link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Identity of `/`.
    pub top: FileId,
    /// The components below `/`; none for `/` itself.
    pub steps: Vec<Step>,
}

impl Resolved {
    /// The real path as text for the system.
    pub fn path(&self) -> PathBuf {
        self.below(0)
    }

    /// The components from number `from` on, as a relative path; `from` 0 gives the absolute path.
    pub fn below(&self, from: usize) -> PathBuf {
        let top = if from == 0 { "/" } else { "" };
        let mut path = PathBuf::from(top);
        path.extend(self.steps.iter().skip(from).map(|step| &step.name));
        path
    }

    /// Identity of every directory above the resolved thing, from `/` down, with the number of components up to it.
    pub fn ancestors(&self) -> impl DoubleEndedIterator<Item = (usize, FileId)> + '_ {
        let inner = self.steps.len().saturating_sub(1);
        let below = self.steps.iter().take(inner).enumerate().map(|(at, step)| (at + 1, step.id));
        let top = (!self.steps.is_empty()).then_some((0, self.top));
        top.into_iter().chain(below.collect::<Vec<_>>())
    }

    /// Identity of the resolved thing.
    pub fn id(&self) -> FileId {
        self.steps.last().map_or(self.top, |step| step.id)
    }
}

/// Why a path has no real path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// Missing, a loop, not a directory on the way, two names that differ in their normal form only, or any error.
    NotFound,
    /// The way leads through a view of the kernel such as `/proc`.
    Kernel,
}

impl From<Errno> for ResolveError {
    fn from(_: Errno) -> ResolveError {
        ResolveError::NotFound
    }
}

impl From<io::Error> for ResolveError {
    fn from(_: io::Error) -> ResolveError {
        ResolveError::NotFound
    }
}

/// Resolves `path`, joined with `base` when it is relative. Nothing in it is expanded.
///
/// # Errors
/// [`ResolveError`]; the first fault on the way decides.
pub fn resolve(base: &Path, path: &Path) -> Result<Resolved, ResolveError> {
    let mut walk = Walk::at_top()?;
    // The base is the operator's: links in it are followed like any other.
    let mut pending = Pending::of(base.join(path).as_os_str());
    while let Some(name) = pending.next()? {
        walk.step(&name, &mut pending)?;
    }
    Ok(Resolved { top: walk.top, steps: walk.steps })
}

/// The components still to go, the next one last.
struct Pending {
    names: Vec<OsString>,
    links: usize,
    steps: usize,
}

impl Pending {
    fn of(path: &OsStr) -> Pending {
        let mut pending = Pending { names: Vec::new(), links: 0, steps: 0 };
        pending.push(path);
        pending
    }

    /// Puts the components of `path` before what is pending. An empty one (as after a slash at the end) is `.`,
    /// which only a directory has.
    fn push(&mut self, path: &OsStr) {
        let parts = path.as_bytes().split(|byte| *byte == b'/');
        self.names.extend(parts.rev().map(|part| OsString::from_vec(part.to_vec())));
    }

    fn push_link(&mut self, target: &OsStr) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > LINKS_MAX || target.is_empty() {
            return Err(ResolveError::NotFound);
        }
        self.push(target);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<OsString>, ResolveError> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(ResolveError::NotFound);
        }
        Ok(self.names.pop())
    }
}

/// Where the walk is: the descriptor of the place reached, and how it was reached.
struct Walk {
    top: FileId,
    here: OwnedFd,
    steps: Vec<Step>,
}

impl Walk {
    fn at_top() -> Result<Walk, ResolveError> {
        let here = nix::fcntl::open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(Walk { top: Facts::of(&here)?.id, here, steps: Vec::new() })
    }

    fn step(&mut self, name: &OsStr, pending: &mut Pending) -> Result<(), ResolveError> {
        match name.as_bytes() {
            b"" | b"." => self.stay(),
            b".." => self.up(),
            _ => self.down(name, pending),
        }
    }

    /// `.` is fine in a directory only.
    fn stay(&self) -> Result<(), ResolveError> {
        match Facts::of(&self.here)?.kind {
            Kind::Directory => Ok(()),
            _ => Err(ResolveError::NotFound),
        }
    }

    /// To the parent, which must be the directory that the walk came from: a move in between ends the walk.
    fn up(&mut self) -> Result<(), ResolveError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let parent = openat(&self.here, "..", flags, Mode::empty())?;
        self.steps.pop();
        let expected = self.steps.last().map_or(self.top, |step| step.id);
        if Facts::of(&parent)?.id != expected {
            return Err(ResolveError::NotFound);
        }
        self.here = parent;
        Ok(())
    }

    fn down(&mut self, name: &OsStr, pending: &mut Pending) -> Result<(), ResolveError> {
        let name = self.real_name(name)?;
        let found = self.open(&name)?;
        if place::on_kernel_file_system(&found)? {
            return Err(ResolveError::Kernel);
        }
        let facts = Facts::of(&found)?;
        if facts.kind == Kind::Link {
            return self.follow(&found, pending);
        }
        self.steps.push(Step { name, id: facts.id });
        self.here = found;
        Ok(())
    }

    fn open(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        openat(&self.here, name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
    }

    /// A link is read through its own descriptor, so what was looked at is what is followed.
    fn follow(&mut self, link: &OwnedFd, pending: &mut Pending) -> Result<(), ResolveError> {
        let target = readlinkat(link, "")?;
        if target.as_bytes().first() == Some(&b'/') {
            *self = Walk::at_top()?;
        }
        pending.push_link(&target)
    }

    /// The name that the directory really has for `name`: a single one that is equal in normal form (C5-07).
    fn real_name(&self, name: &OsStr) -> Result<OsString, ResolveError> {
        let Some(wanted) = name.to_str().filter(|text| !text.is_ascii()) else { return Ok(name.to_owned()) };
        let wanted: String = wanted.nfc().collect();
        let mut equal = self.names()?.into_iter().filter(|found| same_normal_form(found, &wanted));
        match (equal.next(), equal.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(ResolveError::NotFound),
            (None, _) => Ok(name.to_owned()),
        }
    }

    /// The names of the directory reached; none when it may not be listed or is too long to compare.
    fn names(&self) -> Result<Vec<OsString>, ResolveError> {
        let dir = Dir { fd: self.here.try_clone()? };
        let Ok(names) = dir.names() else { return Ok(Vec::new()) };
        let names: Vec<OsString> = names.take(NAMES_MAX + 1).filter_map(Result::ok).collect();
        Ok(if names.len() > NAMES_MAX { Vec::new() } else { names })
    }
}

fn same_normal_form(found: &OsStr, wanted: &str) -> bool {
    found.to_str().is_some_and(|text| text.nfc().eq(wanted.chars()))
}
