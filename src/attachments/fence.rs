//! Fenced code blocks of CommonMark, line by line (R-33, D-M3-12-1).
//!
//! This module must not know what is looked for outside the blocks.

/// Fewest characters of a fence.
const FENCE_MIN: usize = 3;

/// Most spaces before a fence; with one more the line is something else.
const INDENT_MAX: usize = 3;

/// The fenced block that the lines so far have left open, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fence {
    open: Option<Mark>,
}

/// The characters that a fence is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    character: char,
    length: usize,
}

impl Fence {
    /// Takes the next line (without its line break) and says whether it belongs to a fenced block, its fences included.
    pub fn take(&mut self, line: &str) -> bool {
        match self.open {
            Some(opening) => {
                if closes(opening, line) {
                    self.open = None;
                }
                true
            }
            None => {
                self.open = opening(line);
                self.open.is_some()
            }
        }
    }
}

/// The mark that `line` begins with, and what stands behind it.
fn mark(line: &str) -> Option<(Mark, &str)> {
    let text = line.trim_start_matches(' ');
    let character = text.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let rest = text.trim_start_matches(character);
    let length = text.len() - rest.len();
    let fits = length >= FENCE_MIN && line.len() - text.len() <= INDENT_MAX;
    fits.then_some((Mark { character, length }, rest))
}

/// A backtick behind a fence of backticks makes it inline code, not a fence.
fn opening(line: &str) -> Option<Mark> {
    let (mark, info) = mark(line)?;
    (mark.character == '~' || !info.contains('`')).then_some(mark)
}

/// A fence with anything but white space behind it is text of the block.
fn closes(opening: Mark, line: &str) -> bool {
    mark(line).is_some_and(|(mark, rest)| {
        mark.character == opening.character
            && mark.length >= opening.length
            && rest.trim_matches([' ', '\t', '\r']).is_empty()
    })
}
