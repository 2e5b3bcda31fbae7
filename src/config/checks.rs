//! What the configuration says of the file system, held against the file system.
//!
//! Must not read any value itself. The state directory is made here, but only for a file without faults.

use std::fs;
use std::path::Path;

use super::fault::Problem;
use super::model::Config;
use super::raw::Document;
use crate::sys::place;
use crate::sys::private::{self, DirFault};

const PROJECTS_ROOT: &str = "runner.projects_root";
const STATE_DIR: &str = "runner.state_dir";
const CA_FILE: &str = "sdk.ca_file";

/// Notes in `document` what is wrong on disk. `make`: a missing state directory is made.
pub(super) fn on_disk(document: &mut Document<'_>, config: &Config, make: bool) {
    let root = config.runner.projects_root.as_path();
    let state = config.runner.state_dir.as_path();
    check(document, PROJECTS_ROOT, || projects_root(root));
    check(document, CA_FILE, || config.sdk.ca_file.as_deref().map_or(Ok(()), ca_file));
    if !document.is_faulty(PROJECTS_ROOT) && document.has_value(PROJECTS_ROOT) {
        check(document, STATE_DIR, || apart(state, root));
    }
    let may_create = make && !document.has_faults();
    check(document, STATE_DIR, || state_dir(state, may_create));
}

fn check(document: &mut Document<'_>, key: &'static str, look: impl FnOnce() -> Result<(), Problem>) {
    // A faulty or lost value was replaced by a stand-in, about which there is nothing to say.
    if document.is_faulty(key) || !document.has_value(key) {
        return;
    }
    if let Err(problem) = look() {
        document.report(key, problem);
    }
}

fn projects_root(root: &Path) -> Result<(), Problem> {
    let real = fs::canonicalize(root).map_err(|_| Problem::NoDirectory)?;
    match real {
        _ if !real.is_dir() => Err(Problem::NoDirectory),
        _ if real.parent().is_none() => Err(Problem::RootOfAll),
        _ => Ok(()),
    }
}

fn ca_file(path: &Path) -> Result<(), Problem> {
    if path.is_file() { Ok(()) } else { Err(Problem::NoFile) }
}

/// A state directory at or above the projects root would make every project a forbidden place (D-M3-12-2); one
/// below it could be named as a project, and its turn would write into the runner's own files.
fn apart(state: &Path, root: &Path) -> Result<(), Problem> {
    let (state, root) = (place::real(state), place::real(root));
    if root.starts_with(&state) {
        Err(Problem::StateAboveProjects)
    } else if state.starts_with(&root) {
        Err(Problem::StateBelowProjects)
    } else {
        Ok(())
    }
}

fn state_dir(path: &Path, may_create: bool) -> Result<(), Problem> {
    match private::check_dir(path) {
        Err(DirFault::Missing) if may_create => {
            private::create_dir_all(path).map_err(|_| Problem::CannotCreate)?;
            private::check_dir(path).map_err(Problem::Directory)
        }
        Err(DirFault::Missing) => Ok(()),
        other => other.map_err(Problem::Directory),
    }
}
