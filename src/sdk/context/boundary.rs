//! The word that makes the markers of data blocks unforgeable. Must not know what stands in a block.

use uuid::Uuid;

/// The boundary of one run's data blocks.
#[derive(Clone, Debug)]
pub struct Boundary {
    word: String,
    fixed: bool,
}

impl Boundary {
    /// A fresh boundary nobody can guess: two random UUIDs, 244 random bits.
    pub fn random() -> Boundary {
        Boundary { word: format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()), fixed: false }
    }

    /// A known boundary, for tests and golden files.
    pub fn fixed(word: &str) -> Boundary {
        Boundary { word: word.to_owned(), fixed: true }
    }

    /// This boundary when no text has it; else another: drawn anew, or longer when it is a fixed one.
    pub(super) fn unlike<'a>(mut self, texts: impl Iterator<Item = &'a str> + Clone) -> String {
        while texts.clone().any(|text| text.contains(&self.word)) {
            if self.fixed {
                self.word.push('x');
            } else {
                self = Boundary::random();
            }
        }
        self.word
    }
}
