//! One content, read as if its parts were one file. Knows no hash and no rule of the contract.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// An open content: its parts in their order, opened one after the other.
#[derive(Debug)]
pub struct Whole {
    dir: PathBuf,
    /// Length of each part, bytes.
    lengths: Vec<u64>,
    /// The part that is read next, from 0, and how far it is read already.
    next: usize,
    skip: u64,
    open: Option<File>,
}

impl Whole {
    /// Opens the content whose parts, named from `1` on, lie in `dir`.
    ///
    /// # Errors
    /// The file system's answer; a part that is missing between others ends the content there.
    pub fn open(dir: &Path) -> io::Result<Whole> {
        let mut lengths = Vec::new();
        loop {
            match std::fs::metadata(part(dir, lengths.len())) {
                Ok(found) => lengths.push(found.len()),
                Err(fault) if fault.kind() == io::ErrorKind::NotFound && !lengths.is_empty() => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(Whole { dir: dir.to_owned(), lengths, next: 0, skip: 0, open: None })
    }

    /// Reads from byte `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` when the content is shorter.
    pub fn start_at(&mut self, offset: u64) -> io::Result<()> {
        let mut left = offset;
        let full = self.lengths.iter().take_while(|length| match left.checked_sub(**length) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        });
        self.next = full.count();
        if self.next == self.lengths.len() && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.skip, self.open) = (left, None);
        Ok(())
    }

    /// The next part, opened where reading goes on; `None` behind the last.
    fn advance(&mut self) -> io::Result<Option<File>> {
        if self.next == self.lengths.len() {
            return Ok(None);
        }
        let mut file = File::open(part(&self.dir, self.next))?;
        file.seek(SeekFrom::Start(self.skip))?;
        (self.next, self.skip) = (self.next + 1, 0);
        Ok(Some(file))
    }
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.open.is_none() {
                self.open = self.advance()?;
            }
            let Some(file) = &mut self.open else { return Ok(0) };
            match file.read(buffer)? {
                0 if !buffer.is_empty() => self.open = None,
                read => return Ok(read),
            }
        }
    }
}

/// Where part number `at` (from 0) lies.
fn part(dir: &Path, at: usize) -> PathBuf {
    dir.join((at + 1).to_string())
}
