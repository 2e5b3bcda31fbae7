//! The bytes of files: parts while they come, then one file per content, named by its SHA-256.
//!
//! Nothing is visible under its final name before it is whole and durable. Knows no rule of the contract.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::mime;
use super::secrets::hex;
use crate::sys::private;

/// Bytes copied at once.
const CHUNK: usize = 256 * 1024;

/// The directories of the bytes.
pub struct Blobs {
    whole: PathBuf,
    parts: PathBuf,
    incoming: PathBuf,
}

/// Bytes that came and have no final name yet; removed when dropped.
pub struct Incoming {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    length: u64,
    start: Vec<u8>,
}

/// What is known of bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Length in bytes.
    pub length: u64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

impl Blobs {
    /// Opens the directories below `dir`; what a crash left half received is removed.
    pub fn open(dir: &Path) -> io::Result<Blobs> {
        let blobs =
            Blobs { whole: dir.join("blobs"), parts: dir.join("parts"), incoming: dir.join("incoming") };
        match std::fs::remove_dir_all(&blobs.incoming) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
            _ => {}
        }
        for dir in [&blobs.whole, &blobs.parts, &blobs.incoming] {
            private::create_dir_all(dir)?;
        }
        Ok(blobs)
    }

    /// A place for bytes that are about to come.
    pub fn receive(&self) -> io::Result<Incoming> {
        let path = self.incoming.join(Uuid::new_v4().to_string());
        let file = private::create_file(&path)?;
        Ok(Incoming { path, file, hasher: Sha256::new(), length: 0, start: Vec::new() })
    }

    /// Keeps `incoming` as part `number` of the upload `id`.
    pub fn keep_part(&self, incoming: &Incoming, id: Uuid, number: u32) -> io::Result<()> {
        let dir = self.parts.join(id.to_string());
        private::create_dir_all(&dir)?;
        publish(incoming, &dir.join(number.to_string()))
    }

    /// Joins parts 1 to `count` of the upload `id` into one incoming file.
    pub fn join(&self, id: Uuid, count: u64) -> io::Result<Incoming> {
        let mut joined = self.receive()?;
        let dir = self.parts.join(id.to_string());
        let mut piece = vec![0; CHUNK];
        for number in 1..=count {
            let mut part = File::open(dir.join(number.to_string()))?;
            loop {
                match part.read(&mut piece)? {
                    0 => break,
                    read => joined.push(&piece[..read])?,
                }
            }
        }
        Ok(joined)
    }

    /// Keeps a whole file under its hash.
    pub fn keep(&self, incoming: &Incoming) -> io::Result<()> {
        let path = self.path_of(&hex(&incoming.seal().sha256));
        if let Some(dir) = path.parent() {
            private::create_dir_all(dir)?;
        }
        publish(incoming, &path)
    }

    /// Opens the whole file with this hash (lowercase hex).
    pub fn open_whole(&self, sha256: &str) -> io::Result<File> {
        File::open(self.path_of(sha256))
    }

    /// Removes the whole file with this hash; none is no error.
    pub fn drop_whole(&self, sha256: &str) {
        let _ = std::fs::remove_file(self.path_of(sha256));
    }

    /// Removes the parts of the upload `id`; none is no error.
    pub fn drop_parts(&self, id: Uuid) {
        let _ = std::fs::remove_dir_all(self.parts.join(id.to_string()));
    }

    fn path_of(&self, sha256: &str) -> PathBuf {
        self.whole.join(&sha256[..sha256.len().min(2)]).join(sha256)
    }
}

impl Incoming {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        let room = mime::SNIFF_BYTES.saturating_sub(self.start.len());
        self.start.extend_from_slice(&bytes[..room.min(bytes.len())]);
        Ok(())
    }

    /// Length and hash of what came so far.
    pub fn seal(&self) -> Seal {
        Seal { length: self.length, sha256: self.hasher.clone().finalize().into() }
    }

    /// The type of what came, by its first bytes.
    pub fn mime_type(&self) -> &'static str {
        mime::detect(&self.start, self.length <= self.start.len() as u64)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn publish(incoming: &Incoming, path: &Path) -> io::Result<()> {
    incoming.file.sync_all()?;
    std::fs::rename(&incoming.path, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn parts_become_one_file_under_its_hash() {
        let dir = TempDir::new().unwrap();
        let blobs = Blobs::open(dir.path()).unwrap();
        let id = Uuid::now_v7();
        for (number, bytes) in [(1, "abc"), (2, "de")] {
            let mut part = blobs.receive().unwrap();
            part.push(bytes.as_bytes()).unwrap();
            blobs.keep_part(&part, id, number).unwrap();
        }
        let joined = blobs.join(id, 2).unwrap();
        blobs.keep(&joined).unwrap();
        blobs.drop_parts(id);
        let mut text = String::new();
        blobs.open_whole(&crate::local::secrets::hash("abcde")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), joined.mime_type(), joined.seal().length), ("abcde", "text/plain", 5));
        assert!(blobs.join(id, 1).is_err());
    }

    #[test]
    fn what_a_crash_left_half_received_goes() {
        let dir = TempDir::new().unwrap();
        let blobs = Blobs::open(dir.path()).unwrap();
        let left = blobs.receive().unwrap();
        let path = left.path.clone();
        std::mem::forget(left);
        assert!(path.exists());
        Blobs::open(dir.path()).unwrap();
        assert!(!path.exists());
    }
}
