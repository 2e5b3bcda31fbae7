//! What the stand-in remembers of a session between its processes: usage and the lines it has answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Sums by member name, for one model.
pub(super) type Counts = BTreeMap<String, f64>;

/// The stored part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Stored {
    usage: BTreeMap<String, Counts>,
    taken: BTreeSet<String>,
}

/// One session in the configuration directory.
#[derive(Debug)]
pub(super) struct Session {
    path: PathBuf,
    stored: Stored,
}

impl Session {
    /// The session `id` below `config_dir`, and whether it existed.
    pub(super) fn open(config_dir: &Path, id: &str) -> (Session, bool) {
        // A title may be given in place of an id; it must not become a path.
        let name: String =
            id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
        let path = config_dir.join("fake-sessions").join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).ok();
        let stored = text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        (Session { path, stored }, text.is_some())
    }

    /// Writes the session down; a read-only directory keeps nothing, as with the real CLI.
    pub(super) fn save(&self) {
        let Some(parent) = self.path.parent() else { return };
        let _ = std::fs::create_dir_all(parent);
        let _ = serde_json::to_vec(&self.stored).map(|bytes| std::fs::write(&self.path, bytes));
    }

    /// Whether an earlier process answered the line `uuid`.
    pub(super) fn has_taken(&self, uuid: &str) -> bool {
        self.stored.taken.contains(uuid)
    }

    /// Remembers that the line `uuid` got its first answer.
    pub(super) fn take(&mut self, uuid: &str) {
        if self.stored.taken.insert(uuid.to_owned()) {
            self.save();
        }
    }

    /// Adds what a turn used and saves.
    pub(super) fn add_usage(&mut self, used: &BTreeMap<String, Counts>) {
        add(&mut self.stored.usage, used);
        self.save();
    }

    /// The sums over the whole session.
    pub(super) fn usage(&self) -> &BTreeMap<String, Counts> {
        &self.stored.usage
    }
}

/// Adds `more` to `sums`, by model and member.
pub(super) fn add(sums: &mut BTreeMap<String, Counts>, more: &BTreeMap<String, Counts>) {
    for (model, counts) in more {
        let sum = sums.entry(model.clone()).or_default();
        for (member, count) in counts {
            *sum.entry(member.clone()).or_default() += count;
        }
    }
}
