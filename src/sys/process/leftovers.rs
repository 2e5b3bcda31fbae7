//! Ends what a turn left behind in sessions of its own, recognised by its environment.
//!
//! The CLI's shells leave the turn's process group, so a signal to the group misses them; the one thing they
//! keep is the environment. What took the entry out of its environment is not found. Must not know which
//! entry it is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, Instant};

use super::super::pidfd::PidFd;
use super::table::{self, Stat};
use super::{Signal, effective_uid};

/// Longest environment that is looked at; the kernel allows about 6 MiB for arguments and environment.
const ENVIRONMENT_LIMIT: u64 = 8 * 1024 * 1024;
/// How often the table is read: a process may fork while it is being ended, its child is found next time.
const PASSES: usize = 16;
/// Longest wait for a killed process to be gone; only an uninterruptible device keeps one longer.
const GONE_WAIT: Duration = Duration::from_secs(2);
/// Bound of the walk to the first process; deeper trees do not occur.
const ANCESTORS: usize = 1024;

/// Kills every process of this user that did not start before `started_after` (ticks since boot) and whose
/// environment has exactly `entry` (for example `TMPDIR=/...`), never this process or one of its ancestors.
///
/// Returns how many were killed; they are gone on return, or wait to be reaped by their parent.
pub fn end_by_env(entry: &[u8], started_after: u64) -> usize {
    let spared = self_and_ancestors();
    let mut killed = BTreeSet::new();
    for _ in 0..PASSES {
        let before = killed.len();
        let found: Vec<PidFd> = table::all()
            .into_iter()
            .filter(|pid| !spared.contains(pid))
            .filter_map(|pid| kill_match(pid, entry, started_after, &mut killed))
            .collect();
        wait_gone(&found);
        if killed.len() == before {
            break;
        }
    }
    killed.len()
}

fn self_and_ancestors() -> BTreeSet<i32> {
    let own = std::process::id() as i32;
    let parent = |pid: &i32| table::stat(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(Some(own), parent).take(ANCESTORS).collect()
}

/// Kills `pid` when it matches and was not killed before.
fn kill_match(pid: i32, entry: &[u8], after: u64, killed: &mut BTreeSet<(i32, u64)>) -> Option<PidFd> {
    let stat = table::stat(pid).filter(|stat| candidate(stat, after))?;
    // Opened first: what is read about the id below is true of this process, or it has ended and the signal
    // reaches nobody.
    let process = PidFd::open(pid, stat.start).ok()??;
    let ours = owner(pid)? == effective_uid() && has_entry(&environment(pid)?, entry);
    if !ours || killed.contains(&(pid, stat.start)) || process.signal(Signal::SIGKILL).is_err() {
        return None;
    }
    killed.insert((pid, stat.start));
    Some(process)
}

fn candidate(stat: &Stat, after: u64) -> bool {
    stat.start >= after && !stat.is_dead()
}

/// The effective user of a process; the owner of its directory would be root for one that is not dumpable.
fn owner(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(table::of(pid, "status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(table::of(pid, "environ")).ok()?.take(ENVIRONMENT_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn has_entry(environment: &[u8], entry: &[u8]) -> bool {
    environment.split(|byte| *byte == 0).any(|found| found == entry)
}

fn wait_gone(processes: &[PidFd]) {
    let begin = Instant::now();
    for process in processes {
        // A failed or late wait changes nothing: the signal was delivered.
        let _ = process.wait_ended(GONE_WAIT.saturating_sub(begin.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::super::tests_support::sh;
    use super::super::{Exit, Signal, signal_group, spawn, start_time};
    use super::*;
    use crate::sys::private::TempDir;

    fn entry_of(home: &TempDir) -> Vec<u8> {
        format!("TMPDIR={}", home.path().display()).into_bytes()
    }

    #[test]
    fn entries_match_as_a_whole() {
        let environment = b"A=1\0TMPDIR=/tmp/run\0B=TMPDIR=/tmp/x\0";
        for (entry, expected) in [
            (&b"TMPDIR=/tmp/run"[..], true),
            (b"TMPDIR=/tmp/ru", false),
            (b"TMPDIR=/tmp/run2", false),
            (b"TMPDIR=/tmp/x", false),
            (b"A=1", true),
        ] {
            assert_eq!(has_entry(environment, entry), expected);
        }
    }

    #[test]
    fn processes_with_the_entry_are_ended_and_others_are_not() {
        let home = TempDir::new().unwrap();
        let other = TempDir::new().unwrap();
        let value = |home: &TempDir| home.path().as_os_str().to_owned();
        let start = |home: &TempDir, value: OsString| {
            let (mut launch, stdin) = sh(home.path(), "read line", &[]);
            launch.env.push(("TMPDIR".into(), value));
            (spawn(launch).unwrap(), stdin)
        };
        let mut longer = value(&home).into_vec();
        longer.push(b'x');
        let (first, _first_stdin) = start(&home, value(&home));
        let (second, _second_stdin) = start(&home, value(&home));
        let (stranger, _stranger_stdin) = start(&other, OsString::from_vec(longer));
        assert_eq!(end_by_env(&entry_of(&home), second.start_time() + 1_000_000), 0);
        assert_eq!(end_by_env(&entry_of(&home), first.start_time()), 2);
        assert_eq!(first.reap().unwrap(), Exit::Signal(9));
        assert_eq!(second.reap().unwrap(), Exit::Signal(9));
        assert_eq!(stranger.exited().unwrap(), None);
        assert_eq!(end_by_env(&entry_of(&home), 0), 0);
        signal_group(stranger.pid(), Signal::SIGKILL).unwrap();
        stranger.reap().unwrap();
    }

    #[test]
    fn a_process_in_another_session_is_found() {
        let home = TempDir::new().unwrap();
        let (mut launch, mut stdin) =
            sh(home.path(), "read line; setsid cat fifo > cat-out & echo $!; read end", &[]);
        nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        launch.env.push(("TMPDIR".into(), home.path().into()));
        let child = spawn(launch).unwrap();
        stdin.push(b"go\n");
        assert!(stdin.flush().unwrap());
        // The shell opens the fifo's writer side only after it printed the id, so this waits without a clock.
        let writer = File::options().write(true).open(home.join("fifo")).unwrap();
        let found = end_by_env(&entry_of(&home), child.start_time());
        assert!(found >= 2, "{found}");
        assert_eq!(child.reap().unwrap(), Exit::Signal(9));
        drop(writer);
    }

    #[test]
    fn never_this_process_or_an_ancestor() {
        let spared = self_and_ancestors();
        assert!(spared.contains(&(std::process::id() as i32)));
        assert!(spared.contains(&(std::os::unix::process::parent_id() as i32)));
        let own = environment(std::process::id() as i32).unwrap();
        let path = own.split(|byte| *byte == 0).find(|entry| entry.starts_with(b"PATH=")).unwrap();
        // Only processes that started in the future could match here.
        let now = start_time(std::process::id() as i32).unwrap();
        assert_eq!(end_by_env(path, now + 1_000_000_000), 0);
    }
}
