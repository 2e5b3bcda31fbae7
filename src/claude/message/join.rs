//! Several lines with one message id are one message; this joins their text.

use std::io::{self, Read};

use super::{Assistant, Message, parse};
use crate::claude::stream::{Line, LineReader};

/// The text of the newest message of the main agent, up to a bound.
pub struct JoinedText {
    bound: usize,
    message: Option<String>,
    text: String,
    /// Whether a tool was called since the last text: the next text is a paragraph of its own.
    paragraph: bool,
    cut: bool,
}

impl JoinedText {
    /// Without text; keeps at most `bound` bytes of a message.
    pub fn new(bound: usize) -> JoinedText {
        JoinedText { bound, message: None, text: String::new(), paragraph: false, cut: false }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether something beyond the bound was left out.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Takes the next line; a subagent's text and the CLI's text in place of an answer do not count. Returns
    /// whether the text can have changed; a message that only calls tools leaves the words before it in place.
    pub fn add(&mut self, assistant: &Assistant) -> bool {
        if assistant.parent_tool_use_id.is_some() || assistant.error.is_some() {
            return false;
        }
        let changed = !assistant.text.is_empty() && self.add_text(assistant);
        self.paragraph |= !assistant.tool_uses.is_empty();
        changed
    }

    fn add_text(&mut self, assistant: &Assistant) -> bool {
        let text = &assistant.text;
        let same = assistant.id.is_some() && assistant.id == self.message;
        if !same {
            self.message.clone_from(&assistant.id);
            self.restart();
        } else if text.starts_with(self.text.as_str()) {
            // The message again, with or without more text (C1-13).
            self.restart();
        } else if text.len() > 1 && self.text.ends_with(text.as_str()) {
            return false;
        } else if self.paragraph {
            self.text.push('\n');
        }
        self.paragraph = false;
        let end = char_boundary(text, self.bound.saturating_sub(self.text.len()));
        self.cut |= end < text.len();
        self.text.push_str(&text[..end]);
        true
    }

    fn restart(&mut self) {
        self.text.clear();
        self.cut = false;
    }
}

/// The largest position of at most `limit` that does not split a character.
pub fn char_boundary(text: &str, limit: usize) -> usize {
    let limit = limit.min(text.len());
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The text of the last message of a recording, for a process that ended without a result. `None` when there is
/// none. `limit` is `runner.stream_line_limit`, bytes.
///
/// # Errors
/// What reading the file gives.
pub fn last_text(file: &mut impl Read, limit: u64) -> io::Result<Option<String>> {
    let mut joined = JoinedText::new(usize::MAX);
    let mut reader = LineReader::new(limit);
    let take = |joined: &mut JoinedText, line: Line<'_>| {
        if let Line::Record(record) = line
            && let Some(Message::Assistant(assistant)) = parse(record)
        {
            joined.add(&assistant);
        }
    };
    while reader.fill(file)? > 0 {
        while let Some(line) = reader.next_line() {
            take(&mut joined, line);
        }
    }
    reader.finish(|line| take(&mut joined, line));
    Ok(Some(joined.text).filter(|text| !text.is_empty()))
}
