//! The directories of a runner for the tests of this module: two projects, a state directory, and a home outside.

use std::path::{Path, PathBuf};

use crate::attachments::candidate::{Candidate, Rules, check};
use crate::attachments::policy::{Patterns, Places, ROOT_NAMES, Roots};
use crate::sdk::wire::run::ToolClass;
use crate::sys::beneath::{Dir, FileId};

/// The mandatory patterns (D-M3-12-3, R-33).
pub use crate::config::DEFAULT_DENIED_PATTERNS as PATTERNS;

/// Text of every file that must never leave.
pub const CANARY: &str = "canary that must not leave";

/// A tree of directories that goes away with the value.
pub struct World {
    top: PathBuf,
    working_dir: PathBuf,
    projects_root: PathBuf,
    state_dir: PathBuf,
    project: FileId,
}

impl World {
    /// The usual tree, below the directory for temporary files.
    pub fn new() -> World {
        let top = std::env::temp_dir().join(format!("attachments-{}", uuid::Uuid::new_v4()));
        for dir in
            ["projects/website/out", "projects/other", "state/files/thread/file", "state/files/other/file"]
        {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        for dir in ["state/tmp/run", "state/tmp/other", "state/sessions/ref", "home/.ssh"] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        World::at_top(top.canonicalize().unwrap())
    }

    fn at_top(top: PathBuf) -> World {
        let working_dir = top.join("projects/website");
        World {
            project: Dir::open(&working_dir).unwrap().id().unwrap(),
            projects_root: top.join("projects"),
            state_dir: top.join("state"),
            working_dir,
            top,
        }
    }

    /// A path in the tree.
    pub fn at(&self, relative: &str) -> PathBuf {
        self.top.join(relative)
    }

    /// Writes a file in the tree, with its directories.
    pub fn file(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Makes a link in the tree; `target` as it is.
    pub fn link(&self, target: impl AsRef<Path>, relative: &str) {
        let path = self.at(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// The run's places in the tree.
    pub fn places(&self) -> Places<'_> {
        Places {
            working_dir: &self.working_dir,
            project: Some(self.project),
            projects_root: &self.projects_root,
            state_dir: &self.state_dir,
            thread_inbox: Path::new("files/thread"),
            runner_temp: Path::new("tmp/run"),
        }
    }

    /// Every root of the run.
    pub fn roots(&self) -> Roots {
        Roots::open(&self.places(), &ROOT_NAMES, ToolClass::Scoped).unwrap()
    }
}

/// Checks the path in the usual world; the file must pass.
pub fn candidate(world: &World, path: &str) -> Candidate {
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    let rules = Rules { roots: &roots, denied: &denied, limits: None, mask: &|text| text.to_owned() };
    check(path, &rules).unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.top);
    }
}
