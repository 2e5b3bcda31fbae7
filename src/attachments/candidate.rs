//! The check of one announced file, and of the whole set (D-M3-12-4, D-M3-12-5, R-21).
//!
//! The real path decides whether the file may go; then it is opened once, below the descriptor of its root, and
//! everything after that, the copy included, happens on that descriptor. Nothing is read here. This module must not
//! know of uploads.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::notice::display_name;
use super::outcome::{Outcome, Reason};
use super::policy::{Below, Patterns, Roots};
use crate::sdk::wire::file::InstanceLimits;
use crate::sys::beneath::{Facts, Kind, ResolveError, Resolved, on_kernel_file_system, resolve};

/// Most files of one set that are held open, whatever the server allows: each costs a descriptor.
const SET_MAX: u64 = 256;

/// What the files of one answer are measured by.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Where they may lie.
    pub roots: &'a Roots,
    /// Names they may not have.
    pub denied: &'a Patterns,
    /// The server's limits, absent when they could not be read.
    pub limits: Option<InstanceLimits>,
    /// Takes every secret that the runner knows out of a name.
    pub mask: &'a dyn Fn(&str) -> String,
}

/// An announced file that passed its own checks, open for reading.
#[derive(Debug)]
pub struct Candidate {
    /// The announced name, for the upload and the notice.
    pub name: String,
    /// The real path; never shown, never logged.
    pub real_path: PathBuf,
    /// What the file was when it was checked.
    pub facts: Facts,
    /// The file, opened below its root.
    pub file: File,
}

/// Why an announced file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub reason: Reason,
    /// The real path, when there is one: the same one announced twice counts once. Never shown, never logged.
    pub real_path: Option<PathBuf>,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        Refused { reason, real_path: None }
    }
}

/// Checks one announced path; the first fault in the order of D-M3-12-4 is the reason. The limits do not matter here.
///
/// `announced` is the path as written; relative ones belong to the working directory. `~`, variables, URLs, quotes and
/// percent signs mean nothing here (C9-11, C10-11).
///
/// # Errors
/// [`Refused`].
pub fn check(announced: &str, rules: &Rules<'_>) -> Result<Candidate, Refused> {
    let resolved = real_path(announced, rules)?;
    let refused = |reason| Refused { reason, real_path: Some(resolved.path()) };
    let below = rules.roots.find(&resolved).ok_or_else(|| refused(Reason::OutsideAllowedRoots))?;
    if rules.denied.deny(&below.relative, announced) {
        return Err(refused(Reason::DeniedPattern));
    }
    let (facts, file) = open(&below).map_err(refused)?;
    Ok(Candidate { name: display_name(announced, rules.mask), real_path: resolved.path(), facts, file })
}

/// A line break or another control character makes a path that nobody meant (C10-09).
fn real_path(announced: &str, rules: &Rules<'_>) -> Result<Resolved, Reason> {
    if announced.is_empty() || announced.chars().any(char::is_control) {
        return Err(Reason::NotFound);
    }
    resolve(rules.roots.working_dir(), Path::new(announced)).map_err(|error| match error {
        ResolveError::NotFound => Reason::NotFound,
        ResolveError::Kernel => Reason::OutsideAllowedRoots,
    })
}

/// Opens the file below its root, in the root's own mount; from here on no name is used, what was opened is what is checked and sent.
fn open(below: &Below<'_>) -> Result<(Facts, File), Reason> {
    let seen = below.root.dir.look_in_mount(&below.relative).map_err(|error| match error.kind() {
        ErrorKind::CrossesDevices => Reason::OutsideAllowedRoots,
        _ => Reason::NotFound,
    })?;
    let facts = seen.facts().map_err(|_| Reason::NotFound)?;
    if on_kernel_file_system(&seen).unwrap_or(true) {
        return Err(Reason::OutsideAllowedRoots);
    }
    check_facts(&facts)?;
    let file = seen.open_for_reading().map_err(|_| Reason::NotFound)?;
    Ok((facts, file))
}

fn check_facts(facts: &Facts) -> Result<(), Reason> {
    match facts {
        facts if facts.kind != Kind::Regular => Err(Reason::NotARegularFile),
        facts if facts.links > 1 => Err(Reason::HardLink),
        facts if facts.size == 0 => Err(Reason::EmptyFile),
        _ => Ok(()),
    }
}

/// One announced file after its own check.
struct Checked {
    name: String,
    real_path: Option<PathBuf>,
    /// The file when it passed; it is dropped again when the set is too large anyway.
    result: Result<Option<Candidate>, Reason>,
    size: u64,
}

/// Checks the whole set: every file passes, or none is sent (D-M3-12-5).
///
/// # Errors
/// One outcome for each distinct file, in the order of announcement.
pub fn check_set(paths: &[String], rules: &Rules<'_>) -> Result<Vec<Candidate>, Vec<Outcome>> {
    let limits = rules.limits;
    let most = limits.map_or(0, |limits| limits.message_max_attachments.min(SET_MAX));
    let files = check_each(paths, rules, most);
    let too_many = u64::try_from(files.len()).unwrap_or(u64::MAX) > most;
    let verdict = |file: &Checked| match (&file.result, limits) {
        (Err(reason), _) => Some(*reason),
        (Ok(_), None) => Some(Reason::LimitsUnavailable),
        (Ok(_), Some(_)) if too_many => Some(Reason::TooMany),
        (Ok(_), Some(limits)) if file.size > limits.file_max_upload_bytes => Some(Reason::TooLarge),
        (Ok(_), Some(_)) => None,
    };
    if files.iter().all(|file| verdict(file).is_none()) {
        return Ok(files.into_iter().filter_map(|file| file.result.ok().flatten()).collect());
    }
    let outcome =
        |file: &Checked| Outcome::of(file.name.clone(), verdict(file).unwrap_or(Reason::SetNotSent));
    Err(files.iter().map(outcome).collect())
}

/// Every distinct file of `paths` with its own check, holding at most `most` of them open.
fn check_each(paths: &[String], rules: &Rules<'_>, most: u64) -> Vec<Checked> {
    let mut files = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut held = 0;
    for path in paths {
        let mut file = check_one(path, rules);
        if file.real_path.take().is_some_and(|path| !seen.insert(path)) {
            continue;
        }
        if let Ok(candidate) = &mut file.result {
            held += 1;
            if held > most {
                *candidate = None;
            }
        }
        files.push(file);
    }
    files
}

fn check_one(path: &str, rules: &Rules<'_>) -> Checked {
    match check(path, rules) {
        Ok(candidate) => Checked {
            name: candidate.name.clone(),
            real_path: Some(candidate.real_path.clone()),
            size: candidate.facts.size,
            result: Ok(Some(candidate)),
        },
        Err(Refused { reason, real_path }) => {
            Checked { name: display_name(path, rules.mask), real_path, size: 0, result: Err(reason) }
        }
    }
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;
