//! A directory of the command line as a project: checked, and with a name that is the same at every start.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::exit::Failure;
use crate::sys::digest::hex;

/// Letters of the path's hash in a name: enough to keep directories of the same name apart.
const HASH_LETTERS: usize = 8;

/// Name of a directory whose own name has nothing that may stand in a name.
const NAMELESS: &str = "project";

/// One project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDir {
    /// Its workspace ref at the server.
    pub reference: String,
    /// Its real path.
    pub path: PathBuf,
}

impl ProjectDir {
    /// The project in `dir`.
    ///
    /// # Errors
    /// What is wrong with it: no directory, or no Git working tree.
    pub fn of(dir: &Path) -> Result<ProjectDir, Failure> {
        let shown = dir.display();
        let path = std::fs::canonicalize(dir).ok().filter(|path| path.is_dir()).ok_or_else(|| {
            Failure::usage(format!("{shown} is no directory; name the project's with --project"))
        })?;
        if path.to_str().is_none() {
            let cure = "the server names it in JSON; rename it, or one of the directories above it";
            return Err(Failure::usage(format!("{shown}: the path is not UTF-8; {cure}")));
        }
        if !path.join(".git").exists() {
            let cure = "name its top directory with --project, or make it one with `git init`";
            return Err(Failure::usage(format!("{shown} is no Git working tree; {cure}")));
        }
        Ok(ProjectDir { reference: reference(&path), path })
    }
}

/// The directory's name and a part of the hash of its path, as a plain word.
fn reference(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let word: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' })
        .collect();
    let word = word.trim_matches('-');
    let word = if word.is_empty() { NAMELESS } else { word };
    let hash = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
    format!("{word}-{}", &hash[..HASH_LETTERS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn names_are_plain_words_and_differ_by_place() {
        let rows = [
            ("/a/website", "website-"),
            ("/a/my site", "my-site-"),
            ("/a/.hidden", "hidden-"),
            ("/a/\u{e9}", "project-"),
        ];
        for (path, begin) in rows {
            let name = reference(Path::new(path));
            assert!(name.starts_with(begin), "{name}");
            assert_eq!(name, reference(Path::new(path)));
        }
        assert_ne!(reference(Path::new("/a/website")), reference(Path::new("/b/website")));
    }

    #[test]
    fn only_git_working_trees_are_projects() {
        let top = TempDir::new().unwrap();
        std::fs::create_dir_all(top.join("good/.git")).unwrap();
        std::fs::create_dir_all(top.join("worktree")).unwrap();
        std::fs::write(top.join("worktree/.git"), "gitdir: elsewhere").unwrap();
        std::fs::create_dir_all(top.join("plain")).unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        let rows = [
            ("good", None),
            ("worktree", None),
            ("plain", Some("no Git working tree")),
            ("file", Some("no directory")),
            ("missing", Some("no directory")),
        ];
        for (name, fault) in rows {
            let found = ProjectDir::of(&top.join(name)).err().map(|failure| failure.message);
            assert_eq!(found.is_some(), fault.is_some(), "{name}");
            assert!(found.unwrap_or_default().contains(fault.unwrap_or_default()), "{name}");
        }
    }
}
