//! What the state directory takes on the disk, part by part, and what is left.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sys::place::free_space;

/// Bytes of the unit in which the system counts blocks (stat(2)).
const BLOCK: u64 = 512;

/// What a directory takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Everything below it.
    pub used_bytes: u64,
    /// What is left for this user on its file system; absent when the system does not tell.
    pub free_bytes: Option<u64>,
    /// The parts that take anything, the largest first.
    pub parts: Vec<Part>,
}

/// One entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name, one of the runner's own.
    pub name: String,
    /// What it and everything below it takes.
    pub bytes: u64,
}

/// Adds up what `root` takes. What vanishes meanwhile counts as nothing; links are not followed.
///
/// # Errors
/// `root` itself cannot be read.
pub fn measure(root: &Path) -> std::io::Result<Disk> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        parts.push(Part { name, bytes: total(entry.path()) });
    }
    parts.retain(|part| part.bytes > 0);
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let used_bytes = parts.iter().map(|part| part.bytes).sum();
    Ok(Disk { used_bytes, free_bytes: free_space(root), parts })
}

/// What `top` and everything below it takes; a list instead of calls, because a turn can nest directories at will.
fn total(top: PathBuf) -> u64 {
    let (mut open, mut sum) = (vec![top], 0_u64);
    while let Some(path) = open.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        sum = sum.saturating_add(found.blocks().saturating_mul(BLOCK));
        if found.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn parts_are_added_up_and_links_are_not_followed() {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.join("sessions/deep/er")).unwrap();
        fs::write(home.join("sessions/deep/er/stream"), vec![7; 1 << 20]).unwrap();
        fs::write(home.join("small"), "x").unwrap();
        std::os::unix::fs::symlink("/", home.join("link")).unwrap();
        let disk = measure(home.path()).unwrap();
        assert_eq!(disk.parts[0].name, "sessions");
        assert!(disk.parts[0].bytes >= 1 << 20 && disk.used_bytes < 2 << 20, "{disk:?}");
        assert!(disk.free_bytes.is_some());
        assert!(measure(&home.join("missing")).is_err());
    }
}
