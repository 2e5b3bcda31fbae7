//! SHA-256 of a stream beside other work with it, and hashes as text.
//!
//! Hashing takes about as long as copying. Where there are two processors, a large stream is hashed on one while
//! it is read and written on the other. Must not know what is hashed.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest as _, Sha256};

/// Bytes read at once: few calls, and what was read is still in the processor's cache when it is written.
const BLOCK: usize = 256 * 1024;

/// Blocks between the reader and the hash, so that neither waits for each block of the other.
const BLOCKS: usize = 4;

/// What a stream held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Length, bytes.
    pub length: u64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

/// A hash that is made on a thread of its own while its bytes are still coming.
pub struct Beside {
    filled: SyncSender<Vec<u8>>,
    emptied: Receiver<Vec<u8>>,
    worker: JoinHandle<Sha256>,
}

impl Beside {
    /// Goes on with `hash`.
    ///
    /// # Errors
    /// That there is no thread.
    pub fn begin(mut hash: Sha256) -> io::Result<Beside> {
        let (filled, blocks) = sync_channel::<Vec<u8>>(BLOCKS);
        let (back, emptied) = channel();
        let worker = thread::Builder::new().name("hash".into()).spawn(move || {
            for block in blocks {
                hash.update(&block);
                // Nobody wants it back once everything came.
                let _ = back.send(block);
            }
            hash
        })?;
        Ok(Beside { filled, emptied, worker })
    }

    /// Adds a copy of `bytes`.
    pub fn update(&self, bytes: &[u8]) {
        let mut block = self.used().unwrap_or_default();
        block.clear();
        block.extend_from_slice(bytes);
        self.push(block);
    }

    /// The hash of everything that came; none when the thread is gone.
    pub fn finish(self) -> Option<Sha256> {
        drop(self.filled);
        self.worker.join().ok()
    }

    fn push(&self, block: Vec<u8>) {
        // Refused only by a thread that is gone, which `finish` tells.
        let _ = self.filled.send(block);
    }

    /// A block that is hashed and free again.
    fn used(&self) -> Option<Vec<u8>> {
        self.emptied.try_recv().ok()
    }
}

/// Reads `source` to its end; `each` gets every block in order, and the digest is of exactly these blocks.
///
/// More than one block is hashed on a thread of its own, which ends by itself when this fails.
///
/// # Errors
/// The first error of `source` or `each`, or that there is no thread.
pub fn through(source: &mut impl Read, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Digest> {
    let mut block = next_block(source, None)?;
    each(&block)?;
    let mut length = block.len() as u64;
    if block.len() < BLOCK {
        return Ok(Digest { length, sha256: Sha256::digest(&block).into() });
    }
    let beside = Beside::begin(Sha256::new())?;
    while !block.is_empty() {
        beside.push(block);
        block = next_block(source, beside.used())?;
        each(&block)?;
        length += block.len() as u64;
    }
    let hash = beside.finish().ok_or_else(|| io::Error::other("the hash was not finished"))?;
    Ok(Digest { length, sha256: hash.finalize().into() })
}

/// Fills `block` from `source`; shorter than [`BLOCK`] only at the end.
fn next_block(source: &mut impl Read, used: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
    let mut block = used.unwrap_or_else(|| vec![0; BLOCK]);
    block.resize(BLOCK, 0);
    let mut filled = 0;
    while filled < BLOCK {
        match source.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    block.truncate(filled);
    Ok(block)
}

/// `bytes` in lowercase hex, the form of every hash in the contract.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of odd lengths, with interruptions between, and then fails or ends.
    struct Pieces<'a> {
        bytes: &'a [u8],
        calls: usize,
        fails: bool,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.bytes.is_empty() && self.fails {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let length = buffer.len().min(self.bytes.len()).min(77_777);
            buffer[..length].copy_from_slice(&self.bytes[..length]);
            self.bytes = &self.bytes[length..];
            Ok(length)
        }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn the_digest_is_of_what_was_handed_on() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 9 * BLOCK + 5] {
            let bytes = bytes(length);
            let mut copy = Vec::new();
            let mut source = Pieces { bytes: &bytes, calls: 0, fails: false };
            let digest = through(&mut source, &mut |block| {
                copy.extend_from_slice(block);
                Ok(())
            });
            let expected = Digest { length: length as u64, sha256: Sha256::digest(&bytes).into() };
            assert_eq!(digest.unwrap(), expected, "{length}");
            assert_eq!(copy, bytes, "{length}");
        }
    }

    #[test]
    fn a_fault_of_either_side_ends_it() {
        for length in [10, 3 * BLOCK] {
            let bytes = bytes(length);
            let mut source = Pieces { bytes: &bytes, calls: 0, fails: true };
            let read = through(&mut source, &mut |_| Ok(()));
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{length}");
            let mut blocks = 0;
            let mut full = |_: &[u8]| {
                blocks += 1;
                if blocks * BLOCK > length { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            };
            let written = through(&mut Pieces { bytes: &bytes, calls: 0, fails: false }, &mut full);
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull, "{length}");
        }
    }

    #[test]
    fn every_byte_has_two_letters() {
        assert_eq!(hex(&[0, 9, 10, 0x7f, 0xff]), "00090a7fff");
        assert_eq!(hex(&[]), "");
    }
}
