//! JSON string text to Rust text, with the tolerance of R-13.
//!
//! A lone surrogate escape and a byte that is not UTF-8 become one replacement character each; nothing here fails.

use memchr::{memchr, memmem};

/// Stands for what cannot be a character.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Number of digits of a `\u` escape.
const HEX_DIGITS: u8 = 4;

/// Decodes the inside of a JSON string that comes in pieces.
#[derive(Default)]
pub(super) struct TextDecoder {
    out: Vec<u8>,
    escape: Escape,
    /// A high surrogate that waits for its second half.
    high: Option<u16>,
}

#[derive(Clone, Copy, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    Unit {
        value: u16,
        digits: u8,
    },
}

impl TextDecoder {
    /// Takes the next bytes between the quotes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            let used = match self.escape {
                Escape::None => self.plain(bytes),
                Escape::Backslash => self.after_backslash(*first),
                Escape::Unit { value, digits } => self.digit(*first, value, digits),
            };
            bytes = &bytes[used..];
        }
    }

    /// The text so far; an escape without its end is left out.
    pub(super) fn finish(mut self) -> String {
        self.end_pair();
        String::from_utf8(self.out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn plain(&mut self, bytes: &[u8]) -> usize {
        let run = memchr(b'\\', bytes).unwrap_or(bytes.len());
        if run > 0 {
            self.end_pair();
            self.out.extend_from_slice(&bytes[..run]);
            return run;
        }
        self.escape = Escape::Backslash;
        1
    }

    fn after_backslash(&mut self, byte: u8) -> usize {
        self.escape = Escape::None;
        let plain = match byte {
            b'u' => {
                self.escape = Escape::Unit { value: 0, digits: 0 };
                return 1;
            }
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 0x08,
            b'f' => 0x0C,
            other => other,
        };
        self.end_pair();
        self.out.push(plain);
        1
    }

    fn digit(&mut self, byte: u8, value: u16, digits: u8) -> usize {
        let Some(digit) = (byte as char).to_digit(16) else {
            self.escape = Escape::None;
            self.put(REPLACEMENT);
            return 0;
        };
        let value = (value << 4) | digit as u16;
        self.escape = Escape::Unit { value, digits: digits + 1 };
        if digits + 1 == HEX_DIGITS {
            self.escape = Escape::None;
            self.unit(value);
        }
        1
    }

    fn unit(&mut self, unit: u16) {
        if let Some(high) = self.high.take() {
            if let Some(Ok(pair)) = char::decode_utf16([high, unit]).next() {
                self.put(pair);
                return;
            }
            self.put(REPLACEMENT);
        }
        match unit {
            0xD800..=0xDBFF => self.high = Some(unit),
            _ => self.put(char::from_u32(unit.into()).unwrap_or(REPLACEMENT)),
        }
    }

    fn end_pair(&mut self) {
        if self.high.take().is_some() {
            self.put(REPLACEMENT);
        }
    }

    fn put(&mut self, character: char) {
        self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// A line with every lone surrogate escape and every byte that is not UTF-8 replaced; for lines that a strict
/// parser refused.
pub fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    if memmem::find(text.as_bytes(), b"\\u").is_none() {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = clean_escape(&rest[at..], &mut out);
    }
    out.push_str(rest);
    out
}

/// Copies one escape, mended; returns what follows it.
fn clean_escape<'a>(text: &'a str, out: &mut String) -> &'a str {
    /// `\uXXXX`
    const UNIT: usize = 6;
    let taken = match (unit_at(text), text.get(UNIT..).and_then(unit_at)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 2 * UNIT,
        (Some(0xD800..=0xDFFF), _) => {
            out.push_str("\\ufffd");
            return &text[UNIT..];
        }
        (Some(_), _) => UNIT,
        // A backslash and the character behind it, which can be a backslash too.
        (None, _) => text.chars().take(2).map(char::len_utf8).sum(),
    };
    out.push_str(&text[..taken]);
    &text[taken..]
}

/// The value of the `\u` escape that `text` starts with.
fn unit_at(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..usize::from(HEX_DIGITS))?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}
