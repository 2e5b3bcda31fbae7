//! Retention: what nobody needs any more is deleted (M2-34 note 11, D-M3-12-9).
//!
//! Recordings and prompts go file by file; a run's `tmp` and `outgoing` directories and an incoming file go
//! as a whole, once their newest entry is old. Nothing of a run that is active or has a turn record goes.
//!
//! A directory that a run has just made, or has just touched because it will need it, is young and stays, also
//! while it is empty: runs are prepared while this works.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::run::state_dir::StateDir;
use crate::sys::private;

/// Depth to which the newest entry of a directory is looked for: deeper trees count as they are found.
const MAX_DEPTH: usize = 64;

/// Deletes everything below `state` that is older than `retention`, except what belongs to an `active` run.
/// Links are never followed.
pub fn sweep(state: &StateDir, retention: Duration, active: &HashSet<Uuid>) {
    let Some(limit) = SystemTime::now().checked_sub(retention) else { return };
    for session in entries(&state.sessions()) {
        sweep_session(&session, limit, active);
    }
    for root in [state.temp(), state.outgoing()] {
        for directory in entries(&root) {
            sweep_whole(&directory, limit, active);
        }
    }
    for thread in entries(&state.files()) {
        let is_young = is_young(&thread, limit);
        for file in entries(&thread) {
            sweep_whole(&file, limit, &HashSet::new());
        }
        remove_if_empty(&thread, is_young);
    }
}

fn sweep_session(directory: &Path, limit: SystemTime, active: &HashSet<Uuid>) {
    let is_young = is_young(directory, limit);
    for file in entries(directory) {
        let kept = run_of(&file).is_some_and(|run_id| active.contains(&run_id));
        if !kept && newest(&file, MAX_DEPTH) < limit {
            remove(&file);
        }
    }
    remove_if_empty(directory, is_young);
}

fn sweep_whole(directory: &Path, limit: SystemTime, active: &HashSet<Uuid>) {
    let kept = run_of(directory).is_some_and(|run_id| active.contains(&run_id));
    if !kept && newest(directory, MAX_DEPTH) < limit {
        remove(directory);
    }
}

/// The run that a file or directory name begins with.
fn run_of(path: &Path) -> Option<Uuid> {
    let name = path.file_name()?.to_str()?;
    Uuid::parse_str(name.split('.').next()?).ok()
}

/// When the youngest thing at or below `path` was changed; the far future when that cannot be known.
fn newest(path: &Path, depth: usize) -> SystemTime {
    let unknown = SystemTime::now();
    let Ok(found) = fs::symlink_metadata(path) else { return unknown };
    let own = found.modified().unwrap_or(unknown);
    if !found.is_dir() || depth == 0 {
        return own;
    }
    entries(path).iter().map(|inner| newest(inner, depth - 1)).fold(own, SystemTime::max)
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    let real = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    let listed = real.then(|| fs::read_dir(directory).ok()).flatten();
    listed.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn remove(path: &Path) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let done = if is_dir { private::remove_dir_all(path) } else { fs::remove_file(path) };
    if done.is_err() {
        log::warn!("code=retention_failed");
    }
}

/// Whether the directory itself was changed or touched since `limit`. Asked before anything in it is deleted,
/// which changes it too.
fn is_young(directory: &Path, limit: SystemTime) -> bool {
    newest(directory, 0) >= limit
}

fn remove_if_empty(directory: &Path, is_young: bool) {
    if !is_young {
        // Refused for a directory that still holds something, which is what is wanted.
        let _ = fs::remove_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;
    use std::fs::{File, FileTimes};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn aged(path: &Path, days: u32) {
        private::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        file.set_times(FileTimes::new().set_modified(SystemTime::now() - DAY * days)).unwrap();
    }

    fn age_directory(path: &Path, days: u32) {
        let directory = File::open(path).unwrap();
        directory.set_times(FileTimes::new().set_modified(SystemTime::now() - DAY * days)).unwrap();
    }

    #[test]
    fn state_files_private_and_retention() {
        let dir = TempDir::new().unwrap();
        let state = StateDir::new(dir.path());
        let (gone, active) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let session = state.session(Uuid::from_u128(9));
        for run in [gone, active] {
            aged(&session.join(format!("{run}.stream.jsonl")), 20);
            aged(&state.run_temp(run).join("scratch"), 20);
            age_directory(&state.run_temp(run), 20);
        }
        aged(&session.join(format!("{gone}.stderr.log")), 1);
        aged(&state.run_outgoing(gone).join("1/1"), 20);
        sweep(&state, DAY * 14, &HashSet::from([active]));
        assert!(!session.join(format!("{gone}.stream.jsonl")).exists());
        assert!(session.join(format!("{gone}.stderr.log")).exists(), "young");
        assert!(session.join(format!("{active}.stream.jsonl")).exists(), "active");
        assert!(!state.run_temp(gone).exists() && state.run_temp(active).exists());
        assert!(state.run_outgoing(gone).exists(), "its newest entry, the directory itself, is young");
    }

    #[test]
    fn an_empty_directory_goes_only_when_it_is_old() {
        let dir = TempDir::new().unwrap();
        let state = StateDir::new(dir.path());
        let (fresh, old) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let directories = |id| [state.session(id), state.thread_inbox(id)];
        for directory in [directories(fresh), directories(old)].concat() {
            private::create_dir_all(&directory).unwrap();
        }
        directories(old).iter().for_each(|directory| age_directory(directory, 20));
        sweep(&state, DAY * 14, &HashSet::new());
        assert!(directories(fresh).iter().all(|directory| directory.exists()), "a run is being prepared");
        assert!(directories(old).iter().all(|directory| !directory.exists()));
    }

    #[test]
    fn an_old_file_that_a_live_turn_unpacked_stays() {
        let dir = TempDir::new().unwrap();
        let state = StateDir::new(dir.path());
        let run = Uuid::from_u128(1);
        aged(&state.run_temp(run).join("old"), 900);
        sweep(&state, DAY * 14, &HashSet::from([run]));
        assert!(state.run_temp(run).join("old").exists());
    }
}
