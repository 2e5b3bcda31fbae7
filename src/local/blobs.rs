//! The bytes of files: parts while they come, then one content, named by its SHA-256.
//!
//! A content is the directory of its parts, so that no byte is written twice. A part is durable before anything says
//! that it came: the disk writes while the bytes come in, so that little is left to wait for. Nothing is visible under
//! its final name before it is whole. Knows no rule of the contract.

mod growing;
mod whole;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub use whole::Whole;

use self::growing::{Growing, Longer};
use super::mime;
use crate::sys::digest::{self, Digest};
use crate::sys::{private, write_out};

/// Bytes after which the disk is told to go on writing what came.
const WRITE_OUT_BYTES: u64 = 1024 * 1024;

/// The directories of the bytes.
pub struct Blobs {
    whole: PathBuf,
    parts: PathBuf,
    incoming: PathBuf,
    growing: Growing,
}

/// Bytes that came and have no final name yet; removed when dropped.
pub struct Incoming {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    length: u64,
    /// How many bytes the disk was told of.
    written_out: u64,
    /// The content so far with these bytes, when they go on with it.
    longer: Option<Longer>,
}

impl Blobs {
    /// Opens the directories below `dir`; what a crash left half received is removed.
    pub fn open(dir: &Path) -> io::Result<Blobs> {
        let [whole, parts, incoming] = ["blobs", "parts", "incoming"].map(|name| dir.join(name));
        let blobs = Blobs { whole, parts, incoming, growing: Growing::default() };
        match std::fs::remove_dir_all(&blobs.incoming) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
            _ => {}
        }
        for dir in [&blobs.whole, &blobs.parts, &blobs.incoming] {
            private::create_dir_all(dir)?;
        }
        Ok(blobs)
    }

    /// A place for the bytes of part `number` of the upload `id`, which are about to come.
    pub fn receive(&self, id: Uuid, number: u32) -> io::Result<Incoming> {
        let path = self.incoming.join(Uuid::new_v4().to_string());
        let file = private::create_file(&path)?;
        let longer = self.growing.begin(id, number);
        Ok(Incoming { path, file, hasher: Sha256::new(), length: 0, written_out: 0, longer })
    }

    /// Keeps `incoming` as part `number` of the upload `id`, durable when this returns.
    pub fn keep_part(&self, incoming: &mut Incoming, id: Uuid, number: u32) -> io::Result<()> {
        let dir = self.parts.join(id.to_string());
        if !dir.exists() {
            private::create_dir_all(&dir)?;
            File::open(&self.parts)?.sync_all()?;
        }
        let place = dir.join(number.to_string());
        let longer = incoming.longer.take();
        self.growing.keep(id, number, longer, || std::fs::rename(&incoming.path, place))?;
        // In this order the first of the two mostly does the work of both.
        incoming.file.sync_all()?;
        File::open(&dir)?.sync_all()
    }

    /// Length, hash and type of the parts of the upload `id`, up to number `last`, one after the other; of the content
    /// `sha256` when an earlier completion, which was not recorded, has kept it already.
    pub fn examine(&self, id: Uuid, last: u32, sha256: &str) -> io::Result<(Digest, &'static str)> {
        if let Some(known) = self.growing.whole(id, last) {
            return Ok(known);
        }
        let parts = self.parts.join(id.to_string());
        let place = if parts.exists() { parts } else { self.path_of(sha256) };
        examine(Whole::open(&place)?)
    }

    /// Keeps the parts of the upload `id` as the content `sha256` (lowercase hex), which they were found to be.
    pub fn keep(&self, id: Uuid, sha256: &str) -> io::Result<()> {
        let parts = self.parts.join(id.to_string());
        let place = self.path_of(sha256);
        if place.exists() {
            return Ok(());
        }
        if let Some(dir) = place.parent() {
            private::create_dir_all(dir)?;
        }
        std::fs::rename(&parts, &place)?;
        place.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }

    /// Opens the whole file with this hash (lowercase hex).
    pub fn open_whole(&self, sha256: &str) -> io::Result<Whole> {
        Whole::open(&self.path_of(sha256))
    }

    /// Removes the whole file with this hash; none is no error.
    pub fn drop_whole(&self, sha256: &str) {
        let _ = std::fs::remove_dir_all(self.path_of(sha256));
    }

    /// Removes the parts of the upload `id`; none is no error.
    pub fn drop_parts(&self, id: Uuid) {
        self.growing.forget(id);
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
        if let Some(longer) = &mut self.longer {
            longer.push(bytes);
        }
        self.length += bytes.len() as u64;
        let waiting = self.length - self.written_out;
        if waiting >= WRITE_OUT_BYTES {
            write_out::begin(&self.file, self.written_out, waiting);
            self.written_out = self.length;
        }
        Ok(())
    }

    /// Length and hash of what came so far.
    pub fn digest(&self) -> Digest {
        Digest { length: self.length, sha256: self.hasher.clone().finalize().into() }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn examine(mut whole: Whole) -> io::Result<(Digest, &'static str)> {
    let mut start = Vec::new();
    let digest = digest::through(&mut whole, &mut |block| {
        let room = mime::SNIFF_BYTES.saturating_sub(start.len());
        start.extend_from_slice(&block[..room.min(block.len())]);
        Ok(())
    })?;
    let mime_type = mime::detect(&start, digest.length <= start.len() as u64);
    Ok((digest, mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::digest::hex;
    use crate::sys::private::TempDir;

    #[test]
    fn parts_become_one_file_under_its_hash() {
        let dir = TempDir::new().unwrap();
        let blobs = Blobs::open(dir.path()).unwrap();
        let id = Uuid::now_v7();
        for (number, bytes) in [(1, "abc"), (2, "de")] {
            let mut part = blobs.receive(id, number).unwrap();
            part.push(bytes.as_bytes()).unwrap();
            blobs.keep_part(&mut part, id, number).unwrap();
        }
        let hash = crate::local::secrets::hash("abcde");
        let (digest, mime_type) = blobs.examine(id, 2, &hash).unwrap();
        blobs.growing.forget(id);
        assert_eq!(blobs.examine(id, 2, &hash).unwrap(), (digest.clone(), mime_type), "read instead");
        assert_eq!((hex(&digest.sha256), digest.length, mime_type), (hash.clone(), 5, "text/plain"));
        blobs.keep(id, &hash).unwrap();
        blobs.drop_parts(id);
        let read = |from: u64| {
            let mut whole = blobs.open_whole(&hash).unwrap();
            whole.start_at(from).unwrap();
            std::io::read_to_string(whole).unwrap()
        };
        assert_eq!([0, 2, 3, 4, 5].map(read), ["abcde", "cde", "de", "e", ""]);
        // A crash before the completion was recorded: the parts are the content now.
        assert_eq!(blobs.examine(id, 2, &hash).unwrap().0, digest);
        blobs.keep(id, &hash).unwrap();
        blobs.drop_whole(&hash);
        assert!(blobs.open_whole(&hash).is_err());
    }

    #[test]
    fn what_a_crash_left_half_received_goes() {
        let dir = TempDir::new().unwrap();
        let blobs = Blobs::open(dir.path()).unwrap();
        let left = blobs.receive(Uuid::nil(), 1).unwrap();
        let path = left.path.clone();
        std::mem::forget(left);
        assert!(path.exists());
        Blobs::open(dir.path()).unwrap();
        assert!(!path.exists());
    }
}
