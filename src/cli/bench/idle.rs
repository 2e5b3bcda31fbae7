//! An idle service: memory, threads, wake-ups.

use std::path::PathBuf;
use std::time::Duration;

use super::place::Place;
use super::service::{Service, arrived};
use super::{Row, Rows, broken};
use crate::cli::exit::Failure;

/// Time until everything that follows a start is over.
const SETTLE: Duration = Duration::from_secs(5);

/// Over which wake-ups are counted.
const WATCH: Duration = Duration::from_secs(60);

/// Memory before and after a turn, threads, wake-ups per minute.
pub fn measure() -> Rows {
    let place = Place::new(r#"{"turns": [{"steps": [{"text": "Seven."}]}]}"#)?;
    let service = Service::start(&place)?;
    arrived(&place, "pollEvents", 2)?;
    super::rest(SETTLE);
    let fresh = status(service.pid(), "VmRSS")?;
    let threads = status(service.pid(), "Threads")?;
    place.ask()?;
    arrived(&place, "finishRun", 1)?;
    super::rest(SETTLE);
    let after = status(service.pid(), "VmRSS")?;
    let before = switches(service.pid())?;
    super::rest(WATCH);
    let woken = switches(service.pid())?.saturating_sub(before);
    Ok(vec![
        Row::new("idle memory after the start", mebibytes(fresh), "under 10 MiB"),
        Row::new("idle memory after a turn", mebibytes(after), "under 10 MiB"),
        Row::new("idle threads", threads.to_string(), "under 6"),
        Row::new("idle wake-ups per minute, all threads", woken.to_string(), "under 60"),
    ])
}

fn mebibytes(kibibytes: u64) -> String {
    let tenths = kibibytes * 10 / 1024;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// A number of `/proc/PID/status`.
fn status(pid: u32, name: &str) -> Result<u64, Failure> {
    number(&PathBuf::from(format!("/proc/{pid}/status")), name)
}

fn number(path: &std::path::Path, name: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(path).map_err(broken("the service is gone"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let found = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    found.ok_or_else(|| Failure::new(format!("bench: no {name} in /proc")))
}

/// How often its threads went to sleep by themselves: each time they had been woken before.
fn switches(pid: u32) -> Result<u64, Failure> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(broken("the service is gone"))?;
    let mut sum = 0;
    for task in tasks.flatten() {
        sum += number(&task.path().join("status"), "voluntary_ctxt_switches")?;
    }
    Ok(sum)
}
