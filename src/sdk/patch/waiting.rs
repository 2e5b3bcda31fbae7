//! What of a document was not sent yet: each path once, in the order of their first write.
//!
//! A runner that takes a long turn over writes thousands of paths before the first patch may go, so a path is found
//! without a look at the others.

use std::collections::{BTreeMap, HashMap};

use super::Write;

/// Writes that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By their place.
    writes: BTreeMap<u64, Write>,
    /// The place of each path.
    places: HashMap<String, u64>,
    next: u64,
}

/// Writes with their places.
pub(super) type Taken = Vec<(u64, Write)>;

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The write of `path`, if one waits.
    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut Write> {
        self.writes.get_mut(self.places.get(path)?)
    }

    /// Puts a write behind the others; none of its path waits.
    pub(super) fn push(&mut self, write: Write) {
        self.places.insert(write.path.clone(), self.next);
        self.writes.insert(self.next, write);
        self.next += 1;
    }

    /// Takes the first `most` writes.
    pub(super) fn take(&mut self, most: usize) -> Taken {
        let mut taken = Taken::new();
        while taken.len() < most
            && let Some((place, write)) = self.writes.pop_first()
        {
            self.places.remove(&write.path);
            taken.push((place, write));
        }
        taken
    }

    /// Puts writes back at their places; where a path was written again meanwhile, the newer value takes the place.
    pub(super) fn put_back(&mut self, taken: Taken) {
        for (place, write) in taken {
            let newer =
                self.places.insert(write.path.clone(), place).and_then(|newer| self.writes.remove(&newer));
            self.writes.insert(place, newer.unwrap_or(write));
        }
    }

    /// Forgets the write of `path` when it is `value` already.
    pub(super) fn forget_if(&mut self, known: &Write) {
        let same = self.get_mut(&known.path).is_some_and(|write| write.value == known.value);
        if same && let Some(place) = self.places.remove(&known.path) {
            self.writes.remove(&place);
        }
    }
}
