//! From a binding's opaque `workspace_ref` to a directory of this host, and whether it can be worked on.
//!
//! Knows the file system, not the server. The resolved real path is used from here on, never the joined one.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::AccessFlags;

use super::end::Cause;

/// Where workspace references are looked up.
#[derive(Clone, Debug)]
pub enum Workspaces {
    /// Below `runner.projects_root`.
    Root(PathBuf),
    /// In a map of references to directories, as the embedded server's `--project` gives them.
    Map(BTreeMap<String, PathBuf>),
}

/// A project's directory, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The real path, working directory of the turn.
    pub path: PathBuf,
    /// Its device, to notice a directory that was replaced (IN-9).
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// Why a project is not ready; the codes of M2-34 note 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The reference is malformed or leads out of the root.
    OutsideRoot,
    /// There is no such directory.
    WorkspaceMissing,
    /// The directory has no `.git`.
    NotAGitWorktree,
    /// The runner's user may not read, search or, where needed, write it.
    NotWritable,
    /// Class host as root.
    HostAsRoot,
}

impl NotReady {
    /// The stable code for the log.
    pub fn code(self) -> &'static str {
        match self {
            Self::OutsideRoot => "outside_root",
            Self::WorkspaceMissing => "workspace_missing",
            Self::NotAGitWorktree => "not_a_git_worktree",
            Self::NotWritable => "not_writable",
            Self::HostAsRoot => "host_as_root",
        }
    }
}

impl From<NotReady> for Cause {
    fn from(fault: NotReady) -> Cause {
        match fault {
            NotReady::OutsideRoot => Cause::OutsideRoot,
            NotReady::HostAsRoot => Cause::HostAsRoot,
            NotReady::WorkspaceMissing | NotReady::NotAGitWorktree | NotReady::NotWritable => {
                Cause::WorkspaceMissing
            }
        }
    }
}

impl Workspaces {
    /// The directory that `workspace_ref` names (M2-34 note 6).
    ///
    /// # Errors
    /// [`NotReady::OutsideRoot`] for a malformed reference or one that leads out of the root, also through
    /// a link; [`NotReady::WorkspaceMissing`] when there is no such directory.
    pub fn resolve(&self, workspace_ref: &str) -> Result<Project, NotReady> {
        if !well_formed(workspace_ref) {
            return Err(NotReady::OutsideRoot);
        }
        let path = match self {
            Self::Root(root) => below(root, workspace_ref)?,
            Self::Map(map) => real(map.get(workspace_ref).ok_or(NotReady::WorkspaceMissing)?)?,
        };
        let found = std::fs::metadata(&path).map_err(|_| NotReady::WorkspaceMissing)?;
        if !found.is_dir() {
            return Err(NotReady::WorkspaceMissing);
        }
        Ok(Project { path, device: found.dev(), inode: found.ino() })
    }

    /// Whether the project can be worked on: resolved, a Git working tree, rights that fit.
    ///
    /// `writes`: whether the turns of this binding may write (IN-8).
    ///
    /// # Errors
    /// The first thing that is missing.
    pub fn readiness(&self, workspace_ref: &str, writes: bool) -> Result<Project, NotReady> {
        let project = self.resolve(workspace_ref)?;
        if !project.path.join(".git").exists() {
            return Err(NotReady::NotAGitWorktree);
        }
        let mut needed = AccessFlags::R_OK | AccessFlags::X_OK;
        needed.set(AccessFlags::W_OK, writes);
        nix::unistd::access(&project.path, needed).map_err(|_| NotReady::NotWritable)?;
        Ok(project)
    }
}

/// Refuses what no server should send (defence in depth): empty, absolute, `~`, `-`, backslash, drive, `..`.
fn well_formed(workspace_ref: &str) -> bool {
    let first_is_bad = workspace_ref.is_empty() || workspace_ref.starts_with(['/', '~', '-']);
    let drive = workspace_ref.as_bytes().get(1) == Some(&b':');
    !first_is_bad
        && !drive
        && !workspace_ref.contains(['\\', '\0'])
        && Path::new(workspace_ref).components().all(|part| matches!(part, Component::Normal(_)))
}

fn real(path: &Path) -> Result<PathBuf, NotReady> {
    std::fs::canonicalize(path).map_err(|_| NotReady::WorkspaceMissing)
}

fn below(root: &Path, workspace_ref: &str) -> Result<PathBuf, NotReady> {
    let root = real(root)?;
    let path = real(&root.join(workspace_ref))?;
    if path == root || !path.starts_with(&root) {
        return Err(NotReady::OutsideRoot);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn layout() -> (TempDir, Workspaces) {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("projects");
        for name in ["projects/website/.git", "projects/team/website", "outside"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(root.join("team/website/.git"), "gitdir: elsewhere").unwrap();
        fs::write(root.join("file"), "x").unwrap();
        symlink(dir.path().join("outside"), root.join("escape")).unwrap();
        symlink("website", root.join("alias")).unwrap();
        (dir, Workspaces::Root(root))
    }

    #[test]
    fn workspace_resolves_or_refuses() {
        let (_dir, workspaces) = layout();
        for good in ["website", "team/website", "alias"] {
            assert!(workspaces.resolve(good).is_ok(), "{good}");
        }
        let rows = [
            ("", NotReady::OutsideRoot),
            ("/etc", NotReady::OutsideRoot),
            ("~x", NotReady::OutsideRoot),
            ("-x", NotReady::OutsideRoot),
            ("a\\b", NotReady::OutsideRoot),
            ("C:x", NotReady::OutsideRoot),
            ("team/../website", NotReady::OutsideRoot),
            ("..", NotReady::OutsideRoot),
            (".", NotReady::OutsideRoot),
            ("escape", NotReady::OutsideRoot),
            ("nothing", NotReady::WorkspaceMissing),
            ("file", NotReady::WorkspaceMissing),
            ("a\0b", NotReady::OutsideRoot),
        ];
        for (reference, fault) in rows {
            assert_eq!(workspaces.resolve(reference), Err(fault), "{reference:?}");
        }
    }

    #[test]
    fn workspace_of_a_link_is_its_real_path() {
        let (_dir, workspaces) = layout();
        assert_eq!(workspaces.resolve("alias"), workspaces.resolve("website"));
    }

    #[test]
    fn readiness_needs_a_git_working_tree_and_a_git_file_counts() {
        let (dir, workspaces) = layout();
        assert!(workspaces.readiness("website", true).is_ok());
        assert!(workspaces.readiness("team/website", true).is_ok());
        fs::create_dir_all(dir.path().join("projects/plain")).unwrap();
        assert_eq!(workspaces.readiness("plain", true), Err(NotReady::NotAGitWorktree));
        assert_eq!(workspaces.readiness("nothing", false), Err(NotReady::WorkspaceMissing));
    }

    #[test]
    fn map_knows_only_its_own_references() {
        let (dir, _) = layout();
        let map = BTreeMap::from([("website".to_owned(), dir.path().join("projects/website"))]);
        let workspaces = Workspaces::Map(map);
        assert!(workspaces.resolve("website").is_ok());
        assert_eq!(workspaces.resolve("team/website"), Err(NotReady::WorkspaceMissing));
    }
}
