//! The process table (`/proc`): start times, parents, groups, and the boot that they belong to.
//!
//! Must not know what is done with a process.

use std::fs;
use std::path::PathBuf;

/// What this crate needs of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub state: u8,
    pub parent: i32,
    pub group: i32,
    pub start: u64,
}

/// Index of a field behind the program's name, which is the second field; the page counts from 1.
const fn behind_name(field: usize) -> usize {
    field - 3
}

const STATE: usize = behind_name(3);
const PARENT: usize = behind_name(4);
const GROUP: usize = behind_name(5);
const START: usize = behind_name(22);

impl Stat {
    /// Whether the process has ended and only waits for its parent.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Parses a stat line without allocating, because a child calls it between fork and exec.
///
/// The name may hold spaces and parentheses, so the fields begin after the last closing one.
pub(super) fn parse_stat(line: &[u8]) -> Option<Stat> {
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let mut stat = Stat { state: 0, parent: 0, group: 0, start: 0 };
    let fields = line.get(end + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    for (index, field) in fields.enumerate() {
        match index {
            STATE => stat.state = *field.first()?,
            PARENT => stat.parent = number(field)?,
            GROUP => stat.group = number(field)?,
            START => {
                stat.start = number(field)?;
                return Some(stat);
            }
            _ => {}
        }
    }
    None
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The stat of a process, `None` when there is none with this id.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(of(pid, "stat")).ok()?)
}

/// Path of `name` below `/proc/PID`.
pub(super) fn of(pid: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// The ids of all processes, in no order.
pub(super) fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// When the process `pid` started, in clock ticks since boot; `None` when there is no such process.
pub fn start_time(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.start)
}

/// The id of this boot; start times compare only within one boot. Empty when the system does not tell.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Reads the line that [`super::spawn`]'s child wrote into its pid file: process id and start time.
///
/// `None` for an empty file (the process never came to be, or not yet: R-27) and for anything else.
pub fn parse_pid_line(text: &str) -> Option<(i32, u64)> {
    let (pid, start) = text.strip_suffix('\n')?.split_once(' ')?;
    let pid: i32 = pid.parse().ok()?;
    Some((pid, start.parse().ok()?)).filter(|_| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_table() {
        let tail = "1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2000\n";
        let good = Some(Stat { state: b'S', parent: 1, group: 42, start: 98_765 });
        let rows = [
            (format!("42 (claude) S {tail}"), good),
            (format!("42 (a b) c) (d)) S {tail}"), good),
            (format!("42 (\u{1F980} ) S {tail}"), good),
            ("42 (claude) S 1 42 42".into(), None),
            ("42 (claude) S one 42 42 0".into(), None),
            ("42 claude S 1".into(), None),
            (String::new(), None),
            (")".into(), None),
        ];
        for (line, expected) in rows {
            assert_eq!(parse_stat(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn own_process_is_in_the_table() {
        let own = std::process::id() as i32;
        let found = stat(own).unwrap();
        assert!(!found.is_dead() && found.parent > 0 && found.start > 0);
        assert!(all().contains(&own));
        assert_eq!(start_time(0), None);
        assert_eq!(boot_id().len(), 36);
    }

    #[test]
    fn pid_lines_table() {
        let rows = [
            ("12 345\n", Some((12, 345))),
            ("12 345", None),
            ("", None),
            ("\n", None),
            ("12\n", None),
            ("0 345\n", None),
            ("-1 345\n", None),
            ("12 345 6\n", None),
            ("99999999999 1\n", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_pid_line(text), expected, "{text:?}");
        }
    }
}
