//! Text in pieces, so that the boundary is chosen after all of it is known. Must not know a message.

use super::{NOTICE, QUOTE};

/// Pieces in their order.
#[derive(Debug, Default)]
pub struct Document {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    /// Printed as it is.
    Plain(String),
    /// Printed inside a data block of its own, after the notice.
    Data(String),
}

impl Document {
    /// A line of this program: constant words, numbers, ids, cleaned names. Never other text of the chat.
    pub fn line(&mut self, line: String) {
        self.pieces.push(Piece::Plain(line));
    }

    /// An empty line before what comes next, except at the beginning.
    pub fn gap(&mut self) {
        if !self.pieces.is_empty() {
            self.line(String::new());
        }
    }

    /// Words of the triggering person, as they are.
    pub fn words(&mut self, words: &str) {
        self.pieces.push(Piece::Plain(words.to_owned()));
    }

    /// Text of somebody who is trusted, attributed by the line above it.
    pub fn quote(&mut self, text: &str) {
        let quoted: Vec<String> = text.split('\n').map(|line| format!("{QUOTE}{line}")).collect();
        self.pieces.push(Piece::Plain(quoted.join("\n")));
    }

    /// Material.
    pub fn data(&mut self, text: String) {
        self.pieces.push(Piece::Data(text));
    }

    /// Everything that will be printed, without the markers.
    pub fn texts(&self) -> impl Iterator<Item = &str> + Clone {
        self.pieces.iter().map(|piece| match piece {
            Piece::Plain(text) | Piece::Data(text) => text.as_str(),
        })
    }

    /// The text, each piece on lines of its own.
    pub fn print(&self, boundary: &str) -> String {
        let printed: Vec<String> = self.pieces.iter().map(|piece| piece.print(boundary)).collect();
        printed.join("\n")
    }
}

impl Piece {
    fn print(&self, boundary: &str) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Data(text) => {
                format!("{NOTICE}\n{}\n{text}\n{}", begin_marker(boundary), end_marker(boundary))
            }
        }
    }
}

/// The line before a data block's content.
pub fn begin_marker(boundary: &str) -> String {
    format!("===== BEGIN DATA {boundary} =====")
}

/// The line after it.
pub fn end_marker(boundary: &str) -> String {
    format!("===== END DATA {boundary} =====")
}
