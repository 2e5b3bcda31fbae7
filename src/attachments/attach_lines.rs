//! `ATTACH:` lines: found, taken out, everything else left as it is (D-M3-12-1, R-33).
//!
//! Pure text in, pure text out. This module must not know what a path points to, nor that there are files at all.

use super::fence::Fence;

/// What a line starts with to announce a file; a space or a tab must follow.
pub const KEYWORD: &str = "ATTACH:";

/// An answer in two: the text for the thread, and the announced paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The answer without its `ATTACH:` lines.
    pub text: String,
    /// The announced paths in the order of their lines; an empty one was announced without a path.
    pub paths: Vec<String>,
}

/// Takes the `ATTACH:` lines out of `text`.
///
/// Only a line feed ends a line (C1-03, C10-09); a carriage return before it belongs to the line break. Every byte
/// of every other line stays (C10-13), and a text without such a line stays as it is. When the text now ends in
/// blank lines, or an announced file stood behind its last line, it ends with the last character of that line.
pub fn split(text: &str) -> Split {
    let mut kept = String::with_capacity(text.len());
    let mut paths = Vec::new();
    let mut end = End::default();
    for line in Lines::of(text) {
        match line.announced {
            Some(path) => {
                paths.push(path.to_owned());
                end.line_taken();
            }
            None => {
                kept.push_str(line.whole);
                end.line_kept(line.whole, kept.len());
            }
        }
    }
    if !paths.is_empty() {
        end.trim(&mut kept);
    }
    Split { text: kept, paths }
}

/// The text of a live excerpt: without `ATTACH:` lines and without the beginning of one that is still being written
/// (D-M3-12-1, C10-15).
pub fn excerpt(text: &str) -> String {
    let lines = Lines::of(text).filter(|line| line.announced.is_none() && !line.may_become_announced());
    let kept: String = lines.map(|line| line.whole).collect();
    kept.trim_end().to_owned()
}

/// Where the text ends when its trailing blank lines go.
#[derive(Default)]
struct End {
    /// Length up to the last line that is not blank, without its line break.
    text: usize,
    /// Whether a blank or an announced line stands behind it.
    followed: bool,
}

impl End {
    fn line_kept(&mut self, line: &str, total: usize) {
        if line.trim().is_empty() {
            self.followed = true;
        } else {
            self.text = total - line_break(line).len();
            self.followed = false;
        }
    }

    fn line_taken(&mut self) {
        self.followed = true;
    }

    fn trim(&self, kept: &mut String) {
        if self.followed {
            kept.truncate(self.text);
        }
    }
}

/// One line of an answer.
struct Line<'a> {
    /// With its line break.
    whole: &'a str,
    /// The announced path, when this is an `ATTACH:` line.
    announced: Option<&'a str>,
    /// Whether it stands in a fenced block.
    fenced: bool,
}

impl Line<'_> {
    /// Whether more text could still make this line an `ATTACH:` line.
    fn may_become_announced(&self) -> bool {
        let open = !self.whole.is_empty() && !self.whole.contains('\n') && !self.fenced;
        open && KEYWORD.starts_with(self.whole.trim_end_matches('\r'))
    }
}

/// The lines of a text, each with what it is.
struct Lines<'a> {
    rest: std::str::SplitInclusive<'a, char>,
    fence: Fence,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        Lines { rest: text.split_inclusive('\n'), fence: Fence::default() }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let whole = self.rest.next()?;
        let content = whole.strip_suffix(line_break(whole)).unwrap_or(whole);
        let fenced = self.fence.take(content);
        let announced = if fenced { None } else { announced_path(content) };
        Some(Line { whole, announced, fenced })
    }
}

/// The line break that ends `line`; empty for a last line without one.
fn line_break(line: &str) -> &'static str {
    match line.as_bytes() {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "",
    }
}

/// The path that a line announces. It is the rest of the line as written: no quotes, links or escapes are read (C10-11).
fn announced_path(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(KEYWORD)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

#[cfg(test)]
mod tests;
