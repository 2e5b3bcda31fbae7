//! Helpers of this module's own tests.

use std::path::{Path, PathBuf};

/// A directory of one test, removed when dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new empty directory that only its owner may enter.
    pub fn new() -> TempDir {
        let path = std::env::temp_dir().join(format!("local-{}", uuid::Uuid::new_v4()));
        super::private_files::make_dir(&path).unwrap();
        TempDir(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
