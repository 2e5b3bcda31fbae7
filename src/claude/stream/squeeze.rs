//! Makes a very long line short while it is read, so that it is never held as a whole.
//!
//! A tool result of many megabytes is printed on one line, twice. The runner needs nothing of it but a few ids, and of
//! an answer of that size only the text. This scanner copies a JSON text and on the way
//! - cuts every long string and leaves out containers that nobody reads,
//! - takes the answer's text out, decoded, so that it exists once (R-13: memory stays a small multiple of the line).
//!
//! It must not know what the messages mean beyond the few names in `TEXT_PLACES` and `SKIPPED_VALUES`.

use memchr::memchr2;

use super::decode::TextDecoder;

/// Longest string that is copied, bytes. Step titles come from the first line of such a string; it is far longer than
/// a title and than any secret, so masking still sees what it has to.
const STRING_MAX: usize = 16 * 1024;

/// Depth of the members of the outermost object.
const TOP: usize = 1;

/// Depth of the members of a content block: object, `message`, `content`, block.
const BLOCK: usize = 4;

/// Longest member name that is looked at; all names of interest are shorter.
const NAME_MAX: usize = 32;

/// Length of the longest escape, a pair of surrogates, bytes.
const ESCAPE_MAX: usize = 12;

/// Where the text of a message stands: depth and member name.
const TEXT_PLACES: [(usize, &[u8]); 2] = [(TOP, b"result"), (BLOCK, b"text")];

/// Values nobody reads and that can be large: depth and member name.
const SKIPPED_VALUES: [(usize, &[u8]); 2] = [(TOP, b"tool_use_result"), (BLOCK, b"content")];

/// What is being copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Between strings.
    Outside,
    /// Inside a string.
    Inside(Target),
    /// Inside a string, behind a backslash.
    Escape(Target),
}

/// Where the bytes of a string go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Into the line, up to a length.
    Copy,
    /// Into the line and, as the name of a member, into the memory of names.
    Name,
    /// Decoded into the text.
    Text,
    /// Nowhere.
    Drop,
}

/// The scanner of one line.
pub(super) struct Squeezer {
    mode: Mode,
    /// One entry for each open container: whether it is an object.
    open: Vec<bool>,
    /// Whether the next string is the name of a member.
    name_next: bool,
    /// The newest member name.
    name: Vec<u8>,
    /// Whether the line is known to carry no text of interest (its `type` is another one).
    textless: bool,
    /// Bytes of the present string that were copied.
    copied: usize,
    /// Whether the rest of the present string is left out.
    full: bool,
    /// Where in the line the value of the outermost `type` begins, while it is read.
    type_from: Option<usize>,
    /// Depth at which a skipped container began.
    skip_from: Option<usize>,
    line: Vec<u8>,
    text: TextDecoder,
    has_text: bool,
}

impl Squeezer {
    /// A scanner at the start of a line.
    pub(super) fn new() -> Squeezer {
        Squeezer {
            mode: Mode::Outside,
            open: Vec::new(),
            name_next: false,
            name: Vec::new(),
            textless: false,
            copied: 0,
            full: false,
            type_from: None,
            skip_from: None,
            line: Vec::new(),
            text: TextDecoder::default(),
            has_text: false,
        }
    }

    /// Takes the next bytes of the line.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self.mode {
                Mode::Outside => self.outside(bytes),
                Mode::Inside(target) => self.inside(bytes, target),
                Mode::Escape(target) => {
                    self.take(&bytes[..1], target);
                    self.mode = Mode::Inside(target);
                    1
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// The short line and the text that was taken out of it.
    pub(super) fn finish(self) -> (Vec<u8>, Option<String>) {
        let text = self.has_text.then(|| self.text.finish());
        (self.line, text)
    }

    /// One byte between strings; returns 1.
    fn outside(&mut self, bytes: &[u8]) -> usize {
        let byte = bytes[0];
        match byte {
            b'"' => return self.start_string(),
            b'{' | b'[' => return self.enter(byte),
            b'}' | b']' => return self.leave(byte),
            b',' => self.name_next = self.open.last() == Some(&true),
            _ => {}
        }
        self.put(byte);
        1
    }

    fn enter(&mut self, byte: u8) -> usize {
        let skipped = self.skip_from.is_none() && self.is_at(&SKIPPED_VALUES);
        if skipped {
            self.line.extend_from_slice(b"null");
            self.skip_from = Some(self.open.len());
        }
        self.put(byte);
        self.open.push(byte == b'{');
        self.name_next = byte == b'{';
        1
    }

    fn leave(&mut self, byte: u8) -> usize {
        self.open.pop();
        self.name_next = false;
        self.put(byte);
        if self.skip_from == Some(self.open.len()) {
            self.skip_from = None;
        }
        1
    }

    fn put(&mut self, byte: u8) {
        if self.skip_from.is_none() {
            self.line.push(byte);
        }
    }

    /// Whether the value that begins here is the member of one of `places`.
    fn is_at(&self, places: &[(usize, &[u8])]) -> bool {
        let here = self.open.len();
        self.open.last() == Some(&true)
            && places.iter().any(|(depth, name)| *depth == here && *name == self.name)
    }

    fn start_string(&mut self) -> usize {
        let target = self.target();
        self.copied = 0;
        self.full = false;
        if target == Target::Name {
            self.name.clear();
        }
        if target != Target::Drop {
            self.line.push(b'"');
        }
        if target == Target::Text {
            self.has_text = true;
        }
        if target == Target::Copy && self.is_at(&[(TOP, b"type")]) {
            self.type_from = Some(self.line.len());
        }
        self.mode = Mode::Inside(target);
        1
    }

    fn target(&self) -> Target {
        if self.skip_from.is_some() {
            Target::Drop
        } else if self.name_next {
            Target::Name
        } else if !self.textless && self.is_at(&TEXT_PLACES) {
            Target::Text
        } else {
            Target::Copy
        }
    }

    /// The bytes of a string up to its end, an escape or the end of `bytes`; returns how many were used.
    fn inside(&mut self, bytes: &[u8], target: Target) -> usize {
        let run = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
        self.take(&bytes[..run], target);
        match bytes.get(run) {
            None => run,
            Some(b'\\') => {
                self.copy_backslash(target);
                self.mode = Mode::Escape(target);
                run + 1
            }
            Some(_) => {
                self.end_string(target);
                run + 1
            }
        }
    }

    fn take(&mut self, bytes: &[u8], target: Target) {
        match target {
            Target::Drop => {}
            Target::Text => self.text.push(bytes),
            Target::Name => {
                let room = NAME_MAX.saturating_sub(self.name.len());
                self.name.extend_from_slice(&bytes[..bytes.len().min(room)]);
                self.copy(bytes);
            }
            Target::Copy => self.copy(bytes),
        }
    }

    /// Copies what fits; the cut never falls into a character of these bytes.
    fn copy(&mut self, bytes: &[u8]) {
        if self.full {
            return;
        }
        let room = STRING_MAX.saturating_sub(self.copied);
        let fits = if bytes.len() <= room { bytes.len() } else { char_boundary(bytes, room) };
        self.line.extend_from_slice(&bytes[..fits]);
        self.copied += fits;
        self.full = fits < bytes.len();
    }

    /// An escape is copied whole or not at all; of a pair of surrogates the first can stay, which `clean` mends.
    fn copy_backslash(&mut self, target: Target) {
        self.full |= self.copied + ESCAPE_MAX > STRING_MAX;
        self.take(b"\\", target);
    }

    fn end_string(&mut self, target: Target) {
        if let Some(from) = self.type_from.take() {
            let kind = self.line.get(from..).unwrap_or_default();
            self.textless = !matches!(kind, b"assistant" | b"result");
        }
        if target != Target::Drop {
            self.line.push(b'"');
        }
        self.name_next = false;
        self.mode = Mode::Outside;
    }
}

/// The longest prefix of at most `limit` bytes that does not end inside a UTF-8 character.
fn char_boundary(bytes: &[u8], limit: usize) -> usize {
    /// A continuation byte is `10xxxxxx`.
    const CONTINUATION: std::ops::RangeInclusive<u8> = 0x80..=0xBF;
    (0..=limit).rev().find(|at| bytes.get(*at).is_none_or(|byte| !CONTINUATION.contains(byte))).unwrap_or(0)
}
