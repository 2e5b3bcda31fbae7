//! What the file system says of a place that may not exist yet. Must not know what lies there.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// The path without links, and without `..`, as far as it exists.
pub fn real(path: &Path) -> PathBuf {
    let of = |above: &Path| {
        let found = fs::canonicalize(above).ok()?;
        let rest = path.strip_prefix(above).ok()?;
        // An empty rest would end the path with a slash, which a file refuses.
        Some(if rest.as_os_str().is_empty() { found } else { found.join(rest) })
    };
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
        fs::write(home.join("file"), "").unwrap();
        let rows = [
            ("link", "there"),
            ("link/not/yet", "there/not/yet"),
            ("there/../link/x", "there/x"),
            ("file", "file"),
        ];
        for (path, expected) in rows {
            // By its bytes: paths that differ in a last slash count as equal.
            assert_eq!(real(&home.join(path)).as_os_str(), home.join(expected).as_os_str(), "{path}");
        }
        assert!(free_space(&home.join("not/yet")).is_some());
    }
}
