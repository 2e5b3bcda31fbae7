//! The file as a document: its text, the place of each value, the faults found so far.
//!
//! Values are taken out key by key, and a fault in one does not hide the next: the loader goes on with a
//! stand-in and fails at the end with all faults. Must not know what the keys mean.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Faults, Problem};
use super::keys::{self, KEYS};
use super::source::Source;

/// Longest name from the file that is repeated in a message.
const SHOWN_NAME_LIMIT: usize = 60;

/// A problem at a place inside a value.
#[derive(Debug)]
pub struct Found {
    problem: Problem,
    at: usize,
    name: Option<String>,
}

/// `problem` at the place of `value`.
pub fn found(problem: Problem, value: &Spanned<DeValue<'_>>) -> Found {
    Found { problem, at: value.span().start, name: None }
}

impl Found {
    /// Says that the place is the entry `name` of a table.
    pub fn at_name(mut self, name: &str) -> Found {
        self.name = Some(shown(name));
        self
    }
}

/// A name of the file as it may stand in a message: only what looks like a key, never what could be a value.
fn shown(name: &str) -> String {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let good = !name.is_empty() && name.len() <= SHOWN_NAME_LIMIT && name.bytes().all(legal);
    if good { name.to_owned() } else { "(other name)".to_owned() }
}

/// A parsed file that collects faults.
#[derive(Debug)]
pub struct Document<'t> {
    source: &'t Source<'t>,
    table: DeTable<'t>,
    faults: Vec<Fault>,
}

impl<'t> Document<'t> {
    /// Parses the text; its own faults and unknown keys are noted at once.
    pub fn parse(source: &'t Source<'t>) -> Document<'t> {
        let (table, _) = DeTable::parse_recoverable(&source.readable);
        let mut document = Document { source, table: table.into_inner(), faults: Vec::new() };
        for (line, problem) in &source.broken {
            document.note(*line, String::new(), *problem);
        }
        document.note_unknown();
        document
    }

    fn note_unknown(&mut self) {
        let mut unknown = Vec::new();
        for (section, value) in &self.table {
            let name = section.get_ref();
            match value.get_ref().as_table() {
                _ if !keys::sections().any(|known| known == name) => {
                    unknown.push((section.span().start, shown(name), Problem::UnknownKey));
                }
                None => unknown.push((section.span().start, shown(name), Problem::WrongType("a table"))),
                Some(table) => unknown.extend(unknown_leaves(name, table)),
            }
        }
        for (at, key, problem) in unknown {
            let line = self.source.line_of(at);
            self.note(line, key, problem);
        }
    }

    /// Takes the value of `key` (its default when it is missing) through `read`; `fallback` stands in for a
    /// faulty one, which is noted.
    pub fn take<T>(
        &mut self,
        key: &'static str,
        fallback: T,
        read: impl Fn(&DeValue<'_>) -> Result<T, Problem>,
    ) -> T {
        self.take_whole(key, fallback, |value| {
            read(value.get_ref()).map_err(|problem| vec![found(problem, value)])
        })
    }

    /// As [`Document::take`] for a list; every faulty entry is noted.
    pub fn take_list<T: PartialEq>(
        &mut self,
        key: &'static str,
        read: impl Fn(&DeValue<'_>) -> Result<T, Problem>,
    ) -> Vec<T> {
        self.take_whole(key, Vec::new(), |value| list(value, &read))
    }

    /// As [`Document::take`] for a value of which several places can be faulty.
    pub fn take_whole<T>(
        &mut self,
        key: &'static str,
        fallback: T,
        read: impl Fn(&Spanned<DeValue<'_>>) -> Result<T, Vec<Found>>,
    ) -> T {
        let answer = match lookup(&self.table, key) {
            Some(value) => read(value),
            None => self.default_of(key, read),
        };
        answer.unwrap_or_else(|all| {
            all.into_iter().for_each(|found| self.note_found(key, found));
            fallback
        })
    }

    fn default_of<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Spanned<DeValue<'_>>) -> Result<T, Vec<Found>>,
    ) -> Result<T, Vec<Found>> {
        let missing = || vec![Found { problem: Problem::Missing, at: self.section_start(key), name: None }];
        let entry = keys::find(key).filter(|entry| !entry.required).ok_or_else(missing)?;
        read(&DeValue::parse(entry.default).map_err(|_| missing())?)
    }

    fn note_found(&mut self, key: &str, found: Found) {
        // A damaged text or section may have lost the key; that is the first thing to correct.
        let (section, leaf) = keys::split(key);
        let is_lost = || self.source.may_have_lost(section, leaf) || self.is_faulty(section);
        if found.problem == Problem::Missing && is_lost() {
            return;
        }
        let name = found.name.map_or_else(|| key.to_owned(), |name| format!("{key}.{name}"));
        let line = self.source.line_of(found.at);
        self.note(line, name, found.problem);
    }

    /// Notes a problem that was found later for the whole value of `key`.
    pub fn report(&mut self, key: &'static str, problem: Problem) {
        let at = lookup(&self.table, key).map_or_else(|| self.section_start(key), |value| value.span().start);
        let line = self.source.line_of(at);
        self.note(line, key.to_owned(), problem);
    }

    /// Whether `key` has a fault already.
    pub fn is_faulty(&self, key: &str) -> bool {
        self.faults.iter().any(|fault| fault.key == key)
    }

    /// Whether `key` has a value of its own or a default, and not only a stand-in because its section or text is broken.
    pub fn has_value(&self, key: &str) -> bool {
        lookup(&self.table, key).is_some() || keys::find(key).is_some_and(|entry| !entry.required)
    }

    /// Whether anything has a fault already.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// `value` when nothing was wrong, else all faults by line.
    ///
    /// # Errors
    /// The faults noted so far.
    pub fn finish<T>(mut self, value: T) -> Result<T, Faults> {
        if self.faults.is_empty() {
            return Ok(value);
        }
        self.faults.sort_by_key(|fault| fault.line);
        Err(Faults(self.faults))
    }

    /// What follows from broken text on the same line is no news.
    fn note(&mut self, line: usize, key: String, problem: Problem) {
        if key.is_empty() || !self.source.is_unread(line) {
            self.faults.push(Fault { file: self.source.file.clone(), line: Some(line), key, problem });
        }
    }

    fn section_start(&self, key: &str) -> usize {
        let section = keys::split(key).0;
        self.table.get_key_value(section).map_or(0, |(name, _)| name.span().start)
    }
}

fn unknown_leaves(section: &str, table: &DeTable<'_>) -> Vec<(usize, String, Problem)> {
    let known =
        |leaf: &Cow<'_, str>| KEYS.iter().any(|key| keys::split(key.name) == (section, leaf.as_ref()));
    let leaves = table.keys().filter(|leaf| !known(leaf.get_ref()));
    leaves
        .map(|leaf| (leaf.span().start, format!("{section}.{}", shown(leaf.get_ref())), Problem::UnknownKey))
        .collect()
}

fn lookup<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<&'a Spanned<DeValue<'t>>> {
    let (section, leaf) = keys::split(key);
    table.get(section)?.get_ref().as_table()?.get(leaf)
}

fn list<T: PartialEq>(
    value: &Spanned<DeValue<'_>>,
    read: impl Fn(&DeValue<'_>) -> Result<T, Problem>,
) -> Result<Vec<T>, Vec<Found>> {
    let Some(array) = value.get_ref().as_array() else {
        return Err(vec![found(Problem::WrongType("a list of strings"), value)]);
    };
    let mut all = Vec::new();
    let mut wrong = Vec::new();
    for entry in array {
        match read(entry.get_ref()) {
            Ok(read) if all.contains(&read) => wrong.push(found(Problem::Duplicate, entry)),
            Ok(read) => all.push(read),
            Err(problem) => wrong.push(found(problem, entry)),
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}
