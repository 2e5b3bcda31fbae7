//! Private copies of the files of one answer, made before anything is sent (D-M3-12-4, M3-12 note 5 c).
//!
//! The copy is made once from the descriptor that was checked, and hashed on the way; every upload reads the copy, so
//! length, hash and bytes belong together whatever happens to the original. The copies lie under the state directory,
//! where the turn does not work. This module must not know of the server.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::candidate::Candidate;
use super::outcome::{Outcome, Reason};
use crate::sys::beneath::{Dir, Facts};
use crate::sys::digest::{self, Digest, hex};

/// Directory of all staged copies, below the state directory.
const OUTGOING: &str = "outgoing";

/// The place of one answer's copies: `<state_dir>/outgoing/<run_id>/<answer>`.
#[derive(Clone, Debug)]
pub struct Staging {
    state_dir: PathBuf,
    run_id: Uuid,
    answer: u32,
}

/// One staged copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Position in the answer, from 1; also the name of the copy.
    pub position: u32,
    /// The name for the server and the notice.
    pub name: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, lowercase hex.
    pub sha256: String,
}

/// Why one copy was not made.
#[derive(Debug)]
enum Fault {
    /// The file is not the one that was checked.
    Changed,
    /// The copy could not be written, for example because the disk is full.
    Disk,
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Fault {
        Fault::Disk
    }
}

impl Staging {
    /// The place of the copies of answer number `answer` (from 1) of a run.
    pub fn new(state_dir: &Path, run_id: Uuid, answer: u32) -> Staging {
        Staging { state_dir: state_dir.to_owned(), run_id, answer }
    }

    /// Copies every candidate, in their order. What an earlier try left is removed before.
    ///
    /// # Errors
    /// The outcomes of the whole set: `changed_during_check` for a file that is not as it was when it was checked,
    /// `upload_failed` for a copy that could not be written, `set_not_sent` for the others. Nothing stays staged.
    pub fn stage(&self, candidates: Vec<Candidate>) -> Result<Vec<Staged>, Vec<Outcome>> {
        let names: Vec<String> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
        let mut staged = Vec::with_capacity(candidates.len());
        let copied = self.fresh_dir().map_err(|error| (0, Fault::from(error))).and_then(|dir| {
            for (at, candidate) in candidates.into_iter().enumerate() {
                staged.push(copy(&dir, position(at), candidate).map_err(|fault| (at, fault))?);
            }
            Ok(())
        });
        copied.map(|()| staged).map_err(|(at, fault)| {
            self.remove_or_log();
            outcomes(&names, at, &fault)
        })
    }

    /// Opens a staged copy for reading, when it still has the length `size_bytes`.
    pub fn open(&self, position: u32, size_bytes: u64) -> io::Result<File> {
        let dir = Dir::open(&self.state_dir)?.dir(&self.relative())?;
        let seen = dir.look(Path::new(&position.to_string()))?;
        match seen.facts()?.size {
            size if size == size_bytes => seen.open_for_reading(),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Removes the copies of this answer; nothing to remove is fine.
    pub fn remove(&self) -> io::Result<()> {
        match Dir::open(&self.state_dir)?.dir(&self.run_dir()) {
            Ok(run) => remove_answer(&run, self.answer.to_string().as_ref()),
            Err(error) => missing_is_fine(error),
        }
    }

    fn remove_or_log(&self) {
        if self.remove().is_err() {
            log::warn!("code=staging_not_removed run={} answer={}", self.run_id, self.answer);
        }
    }

    /// The empty directory for the copies, every level of it checked (C5-11).
    fn fresh_dir(&self) -> io::Result<Dir> {
        self.remove()?;
        let outgoing = Dir::open(&self.state_dir)?.make_dir(OUTGOING.as_ref())?;
        let run = outgoing.make_dir(self.run_id.to_string().as_ref())?;
        run.make_dir(self.answer.to_string().as_ref())
    }

    fn run_dir(&self) -> PathBuf {
        Path::new(OUTGOING).join(self.run_id.to_string())
    }

    fn relative(&self) -> PathBuf {
        self.run_dir().join(self.answer.to_string())
    }
}

/// Removes the copies of every answer of a run, at its end; nothing to remove is fine.
pub fn remove_run(state_dir: &Path, run_id: Uuid) -> io::Result<()> {
    let name = OsString::from(run_id.to_string());
    let outgoing = match Dir::open(state_dir)?.dir(Path::new(OUTGOING)) {
        Err(error) => return missing_is_fine(error),
        Ok(outgoing) => outgoing,
    };
    let run = match outgoing.dir(Path::new(&name)) {
        Err(error) => return missing_is_fine(error),
        Ok(run) => run,
    };
    for answer in run.names()? {
        remove_answer(&run, &answer?)?;
    }
    outgoing.remove_dir(&name)
}

/// Removes one answer's directory with the copies in it.
fn remove_answer(run: &Dir, name: &OsStr) -> io::Result<()> {
    match run.dir(Path::new(name)) {
        Err(error) => missing_is_fine(error),
        Ok(dir) => {
            for copy in dir.names()? {
                dir.unlink(&copy?)?;
            }
            run.remove_dir(name)
        }
    }
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Positions count from one.
fn position(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}

fn outcomes(names: &[String], failed: usize, fault: &Fault) -> Vec<Outcome> {
    let own = match fault {
        Fault::Changed => Reason::ChangedDuringCheck,
        Fault::Disk => Reason::UploadFailed,
    };
    let reason = |at| if at == failed { own } else { Reason::SetNotSent };
    names.iter().enumerate().map(|(at, name)| Outcome::of(name.clone(), reason(at))).collect()
}

fn copy(dir: &Dir, position: u32, candidate: Candidate) -> Result<Staged, Fault> {
    let Candidate { name, facts, mut file, .. } = candidate;
    let mut target = dir.create_new(position.to_string().as_ref())?;
    let digest = copy_unchanged(&mut file, &facts, &mut target)?;
    // Not synced: a copy that a loss of power spoils has another hash than announced, and the server refuses it.
    Ok(Staged { position, name, size_bytes: digest.length, sha256: hex(&digest.sha256) })
}

/// Copies what `source` is by its `facts`, hashed on the way. The facts are compared before and after: equal ones mean
/// that nobody touched it in between (C5-13).
fn copy_unchanged(
    source: &mut (impl Read + AsFd),
    facts: &Facts,
    target: &mut impl Write,
) -> Result<Digest, Fault> {
    unchanged(&*source, facts)?;
    // One byte more than expected is enough to notice growth, and bounds what a growing file can cost.
    let mut bounded = source.by_ref().take(facts.size.saturating_add(1));
    let digest = digest::through(&mut bounded, &mut |block| target.write_all(block))?;
    unchanged(&*source, facts)?;
    if digest.length == facts.size { Ok(digest) } else { Err(Fault::Changed) }
}

fn unchanged(file: &impl AsFd, facts: &Facts) -> Result<(), Fault> {
    if Facts::of(file)? == *facts { Ok(()) } else { Err(Fault::Changed) }
}

#[cfg(test)]
mod race;
#[cfg(test)]
mod tests;
