//! Which files an answer may take: the roots of a run and the names that secrets have (D-M3-12-2, D-M3-12-3).
//!
//! Roots are places, not texts: each is an open descriptor with device and inode, and a file is below it when one of
//! its ancestors is that very directory. This module must not know what is done with a file that is allowed.

mod pattern;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::sdk::wire::run::ToolClass;
use crate::sys::beneath::{Dir, FileId, Resolved, on_kernel_file_system, resolve};

pub use pattern::Patterns;

/// A root of `runner.attach_allowed_roots`, by name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootName {
    /// The turn's working directory.
    Project,
    /// The inbox of the run's own thread.
    ThreadInbox,
    /// The run's own temporary directory.
    RunnerTemp,
}

/// Every root name, the default of the key.
pub const ROOT_NAMES: [RootName; 3] = [RootName::Project, RootName::ThreadInbox, RootName::RunnerTemp];

impl RootName {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::ThreadInbox => "thread_inbox",
            Self::RunnerTemp => "runner_temp",
        }
    }

    /// The root with `name`, if there is one.
    pub fn from_name(name: &str) -> Option<RootName> {
        ROOT_NAMES.into_iter().find(|root| root.name() == name)
    }
}

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The directories of one run, as the runner made or resolved them.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The turn's working directory, to which relative paths belong; the project, unless the class is chat.
    pub working_dir: &'a Path,
    /// Device and inode of the project when the turn started; another directory there now is no root (IN-9).
    /// Absent when the binding is gone, which takes the root away.
    pub project: Option<FileId>,
    /// `runner.projects_root`, never a root itself.
    pub projects_root: &'a Path,
    /// `runner.state_dir`.
    pub state_dir: &'a Path,
    /// The inbox of the thread, relative to the state directory: `files/<thread_id>`.
    pub thread_inbox: &'a Path,
    /// The temporary directory of the run, relative to the state directory: `tmp/<run_id>`.
    pub runner_temp: &'a Path,
}

/// One root, open.
#[derive(Debug)]
pub struct Root {
    /// Which one it is.
    pub name: RootName,
    /// The directory, held.
    pub dir: Dir,
    /// Its identity.
    pub id: FileId,
}

/// The roots of one run, and the places below them that stay closed.
#[derive(Debug)]
pub struct Roots {
    working_dir: PathBuf,
    roots: Vec<Root>,
    state_dir: FileId,
}

/// Where an allowed file lies.
#[derive(Debug)]
pub struct Below<'a> {
    /// The innermost root above it.
    pub root: &'a Root,
    /// Its path below that root, without links and with at least one component.
    pub relative: PathBuf,
}

impl Roots {
    /// Opens the roots that `allowed` names. A root that is missing, replaced by a link, or a place that is never
    /// one, is left out (D-M3-12-2); class chat has no project.
    ///
    /// # Errors
    /// Only when the state directory itself cannot be opened: then nothing can be kept closed.
    pub fn open(places: &Places<'_>, allowed: &[RootName], class: ToolClass) -> io::Result<Roots> {
        let state = Dir::open(places.state_dir)?;
        let state_dir = state.id()?;
        let mut roots = Vec::new();
        for name in allowed {
            let dir = match name {
                RootName::Project if class == ToolClass::Chat => None,
                RootName::Project => project(places, state_dir),
                RootName::ThreadInbox => state.dir(places.thread_inbox).ok(),
                RootName::RunnerTemp => state.dir(places.runner_temp).ok(),
            };
            if let Some(root) = dir.and_then(|dir| Root::new(*name, dir)) {
                roots.push(root);
            }
        }
        Ok(Roots { working_dir: places.working_dir.to_owned(), roots, state_dir })
    }

    /// What relative paths are joined with.
    pub fn working_dir(&self) -> &Path {
        &self.working_dir
    }

    /// The roots that are open.
    pub fn names(&self) -> Vec<RootName> {
        self.roots.iter().map(|root| root.name).collect()
    }

    /// The root that the resolved file lies strictly below, unless the place is a closed one.
    pub fn find<'a>(&'a self, file: &Resolved) -> Option<Below<'a>> {
        let mut ancestors: Vec<(usize, FileId)> = file.ancestors().collect();
        ancestors.reverse();
        let (depth, root) = ancestors
            .iter()
            .find_map(|(depth, id)| Some((*depth, self.roots.iter().find(|root| root.id == *id)?)))?;
        let in_state = ancestors.iter().any(|(_, id)| *id == self.state_dir);
        if in_state && root.name == RootName::Project {
            return None;
        }
        Some(Below { root, relative: relative(file, depth) })
    }
}

/// The components below the ancestor at `depth`.
fn relative(file: &Resolved, depth: usize) -> PathBuf {
    file.steps.iter().skip(depth).map(|step| &step.name).collect()
}

impl Root {
    fn new(name: RootName, dir: Dir) -> Option<Root> {
        let id = dir.id().ok()?;
        let ordinary = !on_kernel_file_system(&dir).ok()?;
        ordinary.then_some(Root { name, dir, id })
    }
}

/// The project directory, unless it is a place that is never a root: another directory than at the start, `/`, the
/// projects root or a directory above it, the state directory or one below it.
fn project(places: &Places<'_>, state_dir: FileId) -> Option<Dir> {
    let expected = places.project?;
    let resolved = resolve(Path::new("/"), places.working_dir).ok()?;
    let dir = Dir::open(&resolved.path()).ok()?;
    let id = dir.id().ok()?;
    let same = id == expected && id == resolved.id();
    let in_state = id == state_dir || resolved.ancestors().any(|(_, above)| above == state_dir);
    let too_wide = resolved.steps.is_empty() || is_at_or_above(id, places.projects_root);
    (same && !in_state && !too_wide).then_some(dir)
}

/// Whether the directory `id` is `path` or one of its ancestors. Without such a path there is nothing to be above of.
fn is_at_or_above(id: FileId, path: &Path) -> bool {
    resolve(Path::new("/"), path)
        .is_ok_and(|found| found.id() == id || found.ancestors().any(|(_, above)| above == id))
}

#[cfg(test)]
mod tests;
