//! Places where a test ends this process as a crash would: with SIGKILL, between two steps that a crash could
//! part. Without the feature `crash-points` nothing of it is compiled and a place costs nothing.
//!
//! Must not know what the steps do. A place has a name; which of its visits is meant is counted per process.

/// Variable that names the visit to die at, as `<place>#<ordinal>`.
pub const AT: &str = "CLAUDE_CODE_RUNNER_CRASH_AT";

/// Variable with the path of a file that gets every visit, one a line.
pub const LOG: &str = "CLAUDE_CODE_RUNNER_CRASH_LOG";

/// A place that is compiled away.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn point(_place: impl FnOnce() -> String) {}

/// Counts a visit of the place, writes it down where wanted, and dies where wanted.
#[cfg(feature = "crash-points")]
pub fn point(place: impl FnOnce() -> String) {
    visits::visit(&place());
}

/// A text without what differs from run to run: every id becomes a star.
pub fn shape(text: &str) -> String {
    let stem = |word: &str| if is_id(word) { "*".to_owned() } else { word.to_owned() };
    let path = text.split('?').next().unwrap_or_default();
    path.split('/')
        .map(|part| part.split('.').map(stem).collect::<Vec<_>>().join("."))
        .collect::<Vec<_>>()
        .join("/")
}

fn is_id(word: &str) -> bool {
    uuid::Uuid::parse_str(word).is_ok()
}

#[cfg(feature = "crash-points")]
mod visits {
    use std::collections::HashMap;
    use std::io::Write;
    use std::sync::{Mutex, PoisonError};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    static COUNTS: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);

    pub(super) fn visit(place: &str) {
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get_or_insert_with(HashMap::new).entry(place.to_owned()).or_default();
        *count += 1;
        let visit = format!("{place}#{count}");
        if let Some(path) = std::env::var_os(super::LOG)
            && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
        {
            // A list that cannot be written is seen by whoever reads it.
            let _ = writeln!(file, "{visit}");
        }
        if std::env::var_os(super::AT).is_some_and(|at| at == *visit) {
            // The lock is held until the end, so that no other thread gets further.
            let _ = kill(Pid::this(), Signal::SIGKILL);
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_stars() {
        let id = "0190d3f0-0000-7000-8000-000000000001";
        let rows = [
            (
                format!("https://example.com/api/v1/runs/{id}/start"),
                "https://example.com/api/v1/runs/*/start",
            ),
            (format!("/runs/{id}?after=7"), "/runs/*"),
            (format!("turns/{id}.json"), "turns/*.json"),
            ("plain".to_owned(), "plain"),
        ];
        for (text, shaped) in rows {
            assert_eq!(shape(&text), shaped);
        }
    }
}
