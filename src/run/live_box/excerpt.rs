//! The excerpt of the newest text: what people read while the model writes.
//!
//! Lines that speak to the runner (`TITLE:`, `ATTACH:`) never show, also not while they are half written (D-M3-12-1,
//! C10-15). It must not know what those lines cause.

use super::{Mask, cut};
use crate::claude::message::{Assistant, JoinedText, char_boundary};

/// Longest excerpt, characters.
pub(super) const EXCERPT_MAX: usize = 500;

/// Most text of a message that is looked at, bytes: an excerpt with room for many lines that do not show.
const SOURCE_MAX: usize = 64 * 1024;

/// What is left out at the end of a text that was cut at `SOURCE_MAX`, bytes. The cut can fall into a secret, whose
/// rest the mask does not know; no secret is longer than this.
const MARGIN: usize = 16 * 1024;

const TITLE: &str = "TITLE:";
const ATTACH: &str = "ATTACH:";

/// Longest indent of a fence and its shortest length (CommonMark 4.5).
const FENCE_INDENT_MAX: usize = 3;
const FENCE_MIN: usize = 3;

/// The newest message of the main agent, as it is shown.
pub(super) struct Excerpt {
    title_wanted: bool,
    source: JoinedText,
    shown: String,
}

impl Excerpt {
    pub(super) fn new(title_wanted: bool) -> Excerpt {
        Excerpt { title_wanted, source: JoinedText::new(SOURCE_MAX), shown: String::new() }
    }

    /// Takes the next line; returns the excerpt when it changed.
    pub(super) fn on(&mut self, assistant: &Assistant, mask: Mask<'_>) -> Option<String> {
        if !self.source.add(assistant) {
            return None;
        }
        let text = self.render(mask);
        if text == self.shown {
            return None;
        }
        self.shown.clone_from(&text);
        Some(text)
    }

    fn render(&self, mask: Mask<'_>) -> String {
        let masked = mask(self.source.text());
        let margin = if self.source.is_cut() { MARGIN } else { 0 };
        let text = &masked[..char_boundary(&masked, masked.len().saturating_sub(margin))];
        let shown = without_control(visible_lines(text, self.title_wanted));
        cut(shown.trim(), EXCERPT_MAX).trim_end().to_owned()
    }
}

/// The text without control characters; most texts have none and stay as they are.
fn without_control(text: String) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) {
        return text;
    }
    text.chars().filter(|one| !one.is_control() || matches!(one, '\n' | '\t')).collect()
}

/// The text without the lines that speak to the runner.
fn visible_lines(text: &str, title_wanted: bool) -> String {
    let mut out = String::new();
    let mut fence = None;
    let mut first = title_wanted;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        let half = !line.ends_with('\n');
        let is_title = first && speaks(bare, TITLE, half, false);
        first &= bare.trim().is_empty();
        let outside = fence.is_none();
        fence = next_fence(fence, bare);
        let is_attach = outside && speaks(bare, ATTACH, half, true);
        if !is_title && !is_attach {
            out.push_str(line);
        }
    }
    out
}

/// Whether a line begins with the word, or is the beginning of such a line; `ATTACH:` wants white space behind it.
fn speaks(line: &str, word: &str, half: bool, space_behind: bool) -> bool {
    match line.strip_prefix(word) {
        Some("") => true,
        Some(rest) => !space_behind || rest.starts_with([' ', '\t']),
        None => half && !line.is_empty() && word.starts_with(line),
    }
}

/// An open fence: its character and length.
type Fence = (char, usize);

/// The fence that is open behind this line (CommonMark 4.5, R-33).
fn next_fence(open: Option<Fence>, line: &str) -> Option<Fence> {
    let bare = line.trim_start_matches(' ');
    let indent = line.len() - bare.len();
    let mark = bare.chars().next().filter(|mark| matches!(mark, '`' | '~'));
    let Some(mark) = mark.filter(|_| indent <= FENCE_INDENT_MAX) else { return open };
    let info = bare.trim_start_matches(mark);
    let length = bare.len() - info.len();
    match open {
        None if length >= FENCE_MIN && !(mark == '`' && info.contains('`')) => Some((mark, length)),
        Some((open_mark, open_length))
            if mark == open_mark && length >= open_length && info.trim().is_empty() =>
        {
            None
        }
        _ => open,
    }
}
