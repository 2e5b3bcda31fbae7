//! The hash of a content that is made while its parts come, so that completing it reads nothing again.
//!
//! It counts only while this process receives the parts itself, in order, each kept once. After a restart, a gap or
//! a part that was kept twice there is none, and the content is read. Knows no rule of the contract.

use std::collections::HashMap;
use std::sync::Mutex;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::local::{lock, mime};
use crate::sys::digest::{Beside, Digest};

/// The contents that are growing, by upload; nothing for one that must be read.
#[derive(Default)]
pub struct Growing(Mutex<HashMap<Uuid, Option<State>>>);

/// A content up to the end of a part.
#[derive(Clone)]
struct State {
    /// The part that goes on with it.
    next: u32,
    hash: Sha256,
    length: u64,
    /// Its first bytes, as many as its type is seen by.
    start: Vec<u8>,
}

impl State {
    fn empty() -> State {
        State { next: 1, hash: Sha256::new(), length: 0, start: Vec::new() }
    }
}

/// The content with one more part, while that comes.
pub struct Longer {
    state: State,
    beside: Beside,
}

impl Growing {
    /// Begins part `number` of the upload `id`; none when it does not go on with what came.
    pub fn begin(&self, id: Uuid, number: u32) -> Option<Longer> {
        let known = lock(&self.0).get(&id).cloned();
        let state = known.unwrap_or_else(|| Some(State::empty())).filter(|state| state.next == number)?;
        let beside = Beside::begin(state.hash.clone()).ok()?;
        Some(Longer { state, beside })
    }

    /// Keeps part `number` of the upload `id` by `keep`, and with it the content that is `longer` by it.
    ///
    /// # Errors
    /// What `keep` answered.
    pub fn keep<E>(
        &self,
        id: Uuid,
        number: u32,
        longer: Option<Longer>,
        keep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let longer = longer.and_then(Longer::finish);
        // Held for both, so that of two requests with the same part the later one is seen to be the second.
        let mut contents = lock(&self.0);
        let known = contents.insert(id, None).unwrap_or_else(|| Some(State::empty()));
        keep()?;
        let goes_on = known.is_some_and(|state| state.next == number);
        contents.insert(id, longer.filter(|_| goes_on));
        Ok(())
    }

    /// Digest and type of the content of `id`, when it is known to its last part, number `last`.
    pub fn whole(&self, id: Uuid, last: u32) -> Option<(Digest, &'static str)> {
        let contents = lock(&self.0);
        let state = contents.get(&id)?.as_ref().filter(|state| Some(state.next) == last.checked_add(1))?;
        let sha256 = state.hash.clone().finalize().into();
        let mime_type = mime::detect(&state.start, state.length <= state.start.len() as u64);
        Some((Digest { length: state.length, sha256 }, mime_type))
    }

    /// Forgets the content of `id`.
    pub fn forget(&self, id: Uuid) {
        lock(&self.0).remove(&id);
    }
}

impl Longer {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = mime::SNIFF_BYTES.saturating_sub(self.state.start.len());
        self.state.start.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.state.length += bytes.len() as u64;
        self.beside.update(bytes);
    }

    fn finish(self) -> Option<State> {
        let hash = self.beside.finish()?;
        Some(State { next: self.state.next.checked_add(1)?, hash, ..self.state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(7);

    fn put(growing: &Growing, number: u32, bytes: &str) {
        let mut longer = growing.begin(ID, number);
        if let Some(longer) = &mut longer {
            bytes.as_bytes().chunks(2).for_each(|piece| longer.push(piece));
        }
        growing.keep::<()>(ID, number, longer, || Ok(())).unwrap();
    }

    fn known(growing: &Growing, last: u32) -> Option<(u64, [u8; 32], &'static str)> {
        growing.whole(ID, last).map(|(digest, mime_type)| (digest.length, digest.sha256, mime_type))
    }

    #[test]
    fn parts_in_order_are_known_as_a_whole() {
        let growing = Growing::default();
        for (number, bytes) in [(1, "%PDF-"), (2, "abc"), (3, "")] {
            assert_eq!(known(&growing, number), None);
            put(&growing, number, bytes);
            assert!(known(&growing, number).is_some());
        }
        let expected = Sha256::digest("%PDF-abc").into();
        assert_eq!(known(&growing, 3), Some((8, expected, "application/pdf")));
        assert_eq!((known(&growing, 2), known(&growing, 4)), (None, None), "it is known to its end only");
        growing.forget(ID);
        assert_eq!(known(&growing, 3), None);
    }

    #[test]
    fn anything_else_must_be_read() {
        let rows: [(&str, &[u32]); 4] = [
            ("a gap", &[1, 3]),
            ("not from the start", &[2, 3]),
            ("a part twice", &[1, 2, 2, 3]),
            ("anew after that", &[1, 1, 1, 2]),
        ];
        for (what, numbers) in rows {
            let growing = Growing::default();
            for number in numbers {
                put(&growing, *number, "ab");
            }
            assert!((0..=4).all(|last| known(&growing, last).is_none()), "{what}");
        }
    }

    #[test]
    fn of_two_requests_with_one_part_none_is_believed() {
        let growing = Growing::default();
        let (mut first, mut second) = (growing.begin(ID, 1), growing.begin(ID, 1));
        first.as_mut().unwrap().push(b"one");
        second.as_mut().unwrap().push(b"two");
        growing.keep::<()>(ID, 1, first, || Ok(())).unwrap();
        growing.keep::<()>(ID, 1, second, || Ok(())).unwrap();
        assert_eq!(known(&growing, 1), None);
    }

    #[test]
    fn a_part_that_is_not_kept_counts_for_nothing() {
        let growing = Growing::default();
        put(&growing, 1, "ab");
        drop(growing.begin(ID, 2));
        assert!(known(&growing, 1).is_some());
        let fault = growing.keep(ID, 2, growing.begin(ID, 2), || Err("full"));
        assert_eq!((fault, known(&growing, 2)), (Err("full"), None));
    }
}
