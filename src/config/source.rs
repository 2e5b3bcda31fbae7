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
            line_starts,
        };
        for error in &errors {
            let (line, problem) = source.place(error);
            source.broken.entry(line).or_insert(problem);
        }
        if let Some(rest) = source.without_broken_lines(text) {
            source.readable = Cow::Owned(rest);
        }
        source
    }

    /// Whether any of it is not TOML.
    pub fn is_broken(&self) -> bool {
        !self.broken.is_empty()
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

    /// The parser gives up the rest behind some broken lines; with blanks in their place it reads the others.
    fn without_broken_lines(&self, text: &str) -> Option<String> {
        let is_broken = |index: usize| self.broken.contains_key(&(index + 1));
        let keep = |(index, line): (usize, &str)| {
            if is_broken(index) { " ".repeat(line.len()) } else { line.to_owned() }
        };
        let kept: Vec<String> = text.split('\n').enumerate().map(keep).collect();
        let kept = kept.join("\n");
        DeTable::parse(&kept).is_ok().then_some(kept).filter(|_| self.is_broken())
    }
}
