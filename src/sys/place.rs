//! What the file system says of a place that may not exist yet. Must not know what lies there.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// The path without links, and without `..`, as far as it exists.
pub fn real(path: &Path) -> PathBuf {
    let of = |above: &Path| Some(fs::canonicalize(above).ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(of).unwrap_or_else(|| path.to_owned())
}

/// What is free for this user where `directory` is, or will be, bytes; `None` when the system does not tell.
pub fn free_space(directory: &Path) -> Option<u64> {
    let there = directory.ancestors().find(|above| above.is_dir())?;
    let found = statvfs(there).ok()?;
    Some(found.blocks_available().saturating_mul(found.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn links_are_resolved_as_far_as_the_path_exists() {
        let home = TempDir::new().unwrap();
        fs::create_dir(home.join("there")).unwrap();
        std::os::unix::fs::symlink(home.join("there"), home.join("link")).unwrap();
        let rows = [("link", "there"), ("link/not/yet", "there/not/yet"), ("there/../link/x", "there/x")];
        for (path, expected) in rows {
            assert_eq!(real(&home.join(path)), home.join(expected), "{path}");
        }
        assert!(free_space(&home.join("not/yet")).is_some());
    }
}
