//! The text of the file: what of it is TOML, and on which line an offset lies.
//!
//! Must not know any key.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toml::de::{DeTable, Error};

use super::fault::Problem;

/// A text with the lines that are no TOML.
#[derive(Debug)]
pub struct Source<'t> {
    /// How messages call the file.
    pub(super) file: String,
    /// The text, without its broken lines when the rest is whole then; offsets are those of the text.
    pub(super) readable: Cow<'t, str>,
    /// The lines, counted from 1, at which the text itself is faulty, with the first fault of each.
    pub(super) broken: BTreeMap<usize, Problem>,
    text: &'t str,
    /// The parser gives up the rest behind a broken line.
    is_cut: bool,
    line_starts: Vec<usize>,
}

impl<'t> Source<'t> {
    /// Looks at the whole text once.
    pub fn new(text: &'t str, file: &str) -> Source<'t> {
        let (_, errors) = DeTable::parse_recoverable(text);
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut source = Source {
            file: file.to_owned(),
            readable: Cow::Borrowed(text),
            broken: BTreeMap::new(),
            text,
            is_cut: false,
            line_starts,
        };
        for error in &errors {
            let (line, problem) = source.place(error);
            source.broken.entry(line).or_insert(problem);
        }
        if source.broken.values().any(|problem| *problem == Problem::Syntax) {
            match source.without_broken_lines() {
                Some(rest) => source.readable = Cow::Owned(rest),
                None => source.is_cut = true,
            }
        }
        source
    }

    /// Whether a key of `section` may stand in the file and not be read, because the text is broken there.
    pub fn may_have_lost(&self, section: &str, leaf: &str) -> bool {
        let named = |line: usize| {
            let text = self.text.split('\n').nth(line - 1).unwrap_or_default();
            text.contains(section) || text.contains(leaf)
        };
        let mut unread = self.broken.iter().filter(|(_, problem)| **problem == Problem::Syntax);
        unread.any(|(line, _)| self.is_cut || named(*line))
    }

    /// Whether the line holds no TOML.
    pub fn is_unread(&self, line: usize) -> bool {
        self.broken.get(&line) == Some(&Problem::Syntax)
    }

    /// The line, counted from 1, of a byte offset.
    pub fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at).max(1)
    }

    fn place(&self, error: &Error) -> (usize, Problem) {
        let doubled = error.message().starts_with("duplicate key");
        let line = self.line_of(error.span().map_or(0, |span| span.start));
        (line, if doubled { Problem::DuplicateKey } else { Problem::Syntax })
    }

    /// The parser gives up the rest behind some broken lines; with blanks in their place it reads the others. What
    /// stands twice it reads by itself: a table as one with the first, a key as it stands first.
    fn without_broken_lines(&self) -> Option<String> {
        let keep = |(index, line): (usize, &str)| {
            if self.is_unread(index + 1) { " ".repeat(line.len()) } else { line.to_owned() }
        };
        let kept: Vec<String> = self.text.split('\n').enumerate().map(keep).collect();
        let kept = kept.join("\n");
        let (_, errors) = DeTable::parse_recoverable(&kept);
        let is_known = |error: &Error| {
            let (line, problem) = self.place(error);
            self.broken.get(&line) == Some(&problem)
        };
        errors.iter().all(is_known).then_some(kept)
    }
}
