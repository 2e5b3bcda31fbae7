//! One log for all scenarios of the process; a scenario finds its own lines by the id of its run.
//!
//! Where `SCENARIO_LOG` is set, the lines are printed too, to look into a failure.

use std::sync::{Mutex, OnceLock, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use uuid::Uuid;

/// Root of the module paths whose records are kept: what others say is cut down before it is printed.
const OWN: &str = "claude_code_runner";

#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Keeps every record from now on, at every level.
pub fn install() {
    if log::set_logger(KEPT.get_or_init(Kept::default)).is_ok() {
        log::set_max_level(LevelFilter::Trace);
    }
}

/// Every record so far.
pub fn all() -> Vec<String> {
    let kept = KEPT.get_or_init(Kept::default);
    kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The records that name `id`.
pub fn of(id: Uuid) -> Vec<String> {
    let id = id.to_string();
    all().into_iter().filter(|line| line.contains(&id)).collect()
}

/// Whether a record of `id` has this code.
pub fn has_code(id: Uuid, code: &str) -> bool {
    let code = format!("code={code}");
    of(id).iter().any(|line| line.split(' ').any(|word| word == code))
}

impl Log for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(OWN)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            if std::env::var_os("SCENARIO_LOG").is_some() {
                eprintln!("{line}");
            }
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    fn flush(&self) {}
}
