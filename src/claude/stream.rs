//! Reads the CLI's output line by line while it grows.
//!
//! Only LF ends a record. The reader holds one chunk of the file and the unfinished last line; a line longer than
//! `SQUEEZE_FROM` is shortened while it comes in (see `squeeze`), so its length is no measure of the memory used.
//! It knows nothing of what the lines mean; `claude::message` does.

mod decode;
mod squeeze;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

pub use decode::clean;
use memchr::memchr;
use squeeze::Squeezer;

/// Bytes that are read at once. Small enough that the caller looks at its other work many times a second, large enough
/// that the system calls do not count.
const CHUNK: usize = 128 * 1024;

/// From this length on a line is shortened while it is read, bytes.
const SQUEEZE_FROM: usize = 512 * 1024;

/// A buffer larger than this is given back after its line, bytes.
const KEEP: usize = 64 * 1024;

/// One line of the stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The line without its LF. In a line that was shortened long strings are cut and the text is missing.
    pub json: &'a [u8],
    /// The message's text when the line was shortened; otherwise it stands in `json`.
    pub text: Option<String>,
    /// Where the line begins in the file, bytes.
    pub offset: u64,
}

/// What the reader found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line of permitted length.
    Record(Record<'a>),
    /// A line longer than the limit; its bytes are dropped, the next line is read as usual.
    TooLong,
}

/// The reader of one growing file.
pub struct LineReader {
    limit: u64,
    chunk: Vec<u8>,
    /// The part of `chunk` that was not looked at yet.
    unread: std::ops::Range<usize>,
    /// The unfinished line, or the finished one that was handed out last.
    partial: Vec<u8>,
    /// Takes the place of `partial` for a long line.
    squeezer: Option<Box<Squeezer>>,
    /// Bytes of the unfinished line.
    length: u64,
    /// Where the unfinished line begins.
    start: u64,
    /// Whether the line in `partial` was handed out.
    handed_out: bool,
    /// Whether the unfinished line was reported as too long.
    reported: bool,
    squeeze_from: usize,
}

impl LineReader {
    /// A reader for a file whose cursor stands at its start; `limit` is `runner.stream_line_limit`, bytes.
    pub fn new(limit: u64) -> LineReader {
        LineReader::at(limit, 0)
    }

    /// A reader for a file whose cursor stands at `offset`, the start of a line.
    pub fn at(limit: u64, offset: u64) -> LineReader {
        LineReader {
            limit,
            chunk: Vec::new(),
            unread: 0..0,
            partial: Vec::new(),
            squeezer: None,
            length: 0,
            start: offset,
            handed_out: false,
            reported: false,
            squeeze_from: SQUEEZE_FROM,
        }
    }

    /// Where the first line begins that was not handed out yet, bytes.
    pub fn offset(&self) -> u64 {
        self.start
    }

    /// Reads the next piece of the file once `next` has nothing left of the one before; returns how many bytes wait to
    /// be looked at, 0 at the present end of the file.
    ///
    /// # Errors
    /// What reading the file gives; an interrupted call is repeated.
    pub fn fill(&mut self, file: &mut impl Read) -> io::Result<usize> {
        if self.unread.is_empty() {
            self.chunk.resize(CHUNK, 0);
            let read = loop {
                match file.read(&mut self.chunk) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            self.unread = 0..read;
        }
        Ok(self.unread.len())
    }

    /// The next finished line of what was read; `None` when more must be read. A line beyond the limit is reported
    /// once, as soon as it is seen to be, also while it has no end.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        self.drop_handed_out();
        loop {
            let unread = self.unread.clone();
            let found = memchr(b'\n', &self.chunk[unread.clone()]);
            let end = found.map_or(unread.end, |length| unread.start + length);
            self.unread = found.map_or(end, |_| end + 1)..unread.end;
            let piece = unread.start..end;
            let newly_too_long = self.is_too_long(&piece) && !std::mem::replace(&mut self.reported, true);
            match found {
                Some(_) if self.is_too_long(&piece) => self.skip_line(piece.len()),
                Some(_) => return Some(self.end_line(piece)),
                None => self.keep(piece),
            }
            if newly_too_long {
                return Some(Line::TooLong);
            }
            found?;
        }
    }

    /// Hands out the last line when it has no LF, for a process that has ended. Nothing can follow.
    pub fn finish(mut self, with: impl FnOnce(Line<'_>)) {
        self.drop_handed_out();
        if self.length > 0 && self.length <= self.limit {
            with(self.end_line(0..0));
        }
    }

    fn is_too_long(&self, piece: &std::ops::Range<usize>) -> bool {
        self.length + piece.len() as u64 > self.limit
    }

    fn drop_handed_out(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.partial.clear();
            if self.partial.capacity() > KEEP {
                self.partial = Vec::new();
            }
        }
    }

    /// Adds a piece of the chunk to the unfinished line.
    fn keep(&mut self, piece: std::ops::Range<usize>) {
        self.length += piece.len() as u64;
        if self.length > self.limit {
            self.partial = Vec::new();
            self.squeezer = None;
            return;
        }
        let piece = &self.chunk[piece];
        if let Some(squeezer) = &mut self.squeezer {
            squeezer.push(piece);
        } else if self.partial.len() + piece.len() <= self.squeeze_from {
            self.partial.extend_from_slice(piece);
        } else {
            let mut squeezer = Box::new(Squeezer::new());
            squeezer.push(&std::mem::take(&mut self.partial));
            squeezer.push(piece);
            self.squeezer = Some(squeezer);
        }
    }

    /// Ends the line with the last piece of it.
    fn end_line(&mut self, piece: std::ops::Range<usize>) -> Line<'_> {
        let offset = self.start;
        self.start += self.length + piece.len() as u64 + 1;
        if self.length == 0 && piece.len() <= self.squeeze_from {
            return Line::Record(Record { json: &self.chunk[piece], text: None, offset });
        }
        self.keep(piece);
        self.length = 0;
        self.handed_out = true;
        let mut text = None;
        if let Some(squeezer) = self.squeezer.take() {
            (self.partial, text) = squeezer.finish();
        }
        Line::Record(Record { json: &self.partial, text, offset })
    }

    /// Leaves a line behind that was too long.
    fn skip_line(&mut self, last_piece: usize) {
        self.start += self.length + last_piece as u64 + 1;
        self.partial = Vec::new();
        self.squeezer = None;
        self.length = 0;
        self.reported = false;
    }
}
