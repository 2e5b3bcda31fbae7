//! Random secrets, their comparison, and the bounded sessions of the page. Never prints a secret.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

use super::lock;
use crate::sys::digest::hex;

/// Random bytes of a secret: 256 bits cannot be guessed.
const SECRET_BYTES: usize = 32;
/// How long a session of the page lives; a working day, then the address is opened again.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions at once; the oldest goes first.
const MAX_SESSIONS: usize = 64;

/// A new secret in URL-safe letters; `None` when the system gives no random bytes.
pub fn random() -> Option<String> {
    let mut bytes = [0u8; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// SHA-256 of `text` in lowercase hex.
pub fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Whether two texts are equal, in a time that does not depend on where they differ.
///
/// The digests are compared, so not even the length of the expected one shows.
pub fn equal(left: &str, right: &str) -> bool {
    let (left, right) = (Sha256::digest(left.as_bytes()), Sha256::digest(right.as_bytes()));
    left.iter().zip(right.iter()).fold(0u8, |found, (a, b)| found | (a ^ b)) == 0
}

/// The page's sessions, in memory only: a restart makes a new secret, so old sessions end with it.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Instant>>);

impl Sessions {
    /// Opens a session: the value of its cookie.
    pub fn open(&self, now: Instant) -> Option<String> {
        let value = random()?;
        let mut sessions = lock(&self.0);
        sessions.retain(|_, opened| now.saturating_duration_since(*opened) < SESSION_LIFE);
        if sessions.len() >= MAX_SESSIONS
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, opened)| **opened).map(|(key, _)| key.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(hash(&value), now);
        Some(value)
    }

    /// Whether `value` is the cookie of a living session.
    pub fn holds(&self, value: &str, now: Instant) -> bool {
        let sessions = lock(&self.0);
        sessions.get(&hash(value)).is_some_and(|opened| now.saturating_duration_since(*opened) < SESSION_LIFE)
    }

    /// Ends the session of the cookie `value`.
    pub fn close(&self, value: &str) {
        lock(&self.0).remove(&hash(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_compares_whole_texts() {
        for (left, right, same) in [("a", "a", true), ("a", "b", false), ("a", "aa", false), ("", "", true)] {
            assert_eq!(equal(left, right), same, "{left} {right}");
        }
    }

    #[test]
    fn sessions_end_by_time_by_hand_and_by_number() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let first = sessions.open(now).unwrap();
        assert!(sessions.holds(&first, now) && !sessions.holds("other", now));
        assert!(!sessions.holds(&first, now + SESSION_LIFE));
        sessions.close(&first);
        assert!(!sessions.holds(&first, now));
        let old = sessions.open(now).unwrap();
        for _ in 0..MAX_SESSIONS {
            sessions.open(now + Duration::from_secs(1)).unwrap();
        }
        assert!(!sessions.holds(&old, now + Duration::from_secs(1)));
    }
}
