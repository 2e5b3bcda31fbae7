//! Text from others made visible: what a person would not see, the model shall see as an escape.

use std::fmt::Write;
use std::ops::RangeInclusive;

/// The most characters of a display or channel name.
pub const NAME_MAX: usize = 64;
/// The most characters of a file name; a file system holds no longer ones.
pub const FILE_NAME_MAX: usize = 255;
/// Stands for a name of which nothing is left.
const NAMELESS: &str = "unnamed";

/// Characters without a shape of their own, beside the control characters: they hide text, or turn its
/// direction, or carry bytes that nobody sees. FE0E and FE0F only choose how a visible sign looks and stay.
const HIDDEN: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',       // soft hyphen
    '\u{34f}'..='\u{34f}',     // combining grapheme joiner
    '\u{61c}'..='\u{61c}',     // Arabic letter mark
    '\u{115f}'..='\u{1160}',   // Hangul fillers
    '\u{17b4}'..='\u{17b5}',   // Khmer inherent vowels
    '\u{180b}'..='\u{180f}',   // Mongolian selectors
    '\u{200b}'..='\u{200f}',   // zero width, direction marks
    '\u{2028}'..='\u{202e}',   // line and paragraph separators, direction overrides
    '\u{2060}'..='\u{206f}',   // word joiner, invisible operators, isolates
    '\u{3164}'..='\u{3164}',   // Hangul filler
    '\u{fe00}'..='\u{fe0d}',   // variation selectors
    '\u{feff}'..='\u{feff}',   // byte order mark
    '\u{ffa0}'..='\u{ffa0}',   // halfwidth Hangul filler
    '\u{fff0}'..='\u{fffb}',   // unassigned and interlinear annotation
    '\u{110bd}'..='\u{110bd}', // Kaithi number sign
    '\u{13430}'..='\u{13455}', // Egyptian format controls
    '\u{1bca0}'..='\u{1bca3}', // shorthand format controls
    '\u{1d173}'..='\u{1d17a}', // musical format controls
    '\u{e0000}'..='\u{e0fff}', // tags and supplementary variation selectors
];

/// The text with every control (except line feed and tab), direction, zero-width and tag character escaped
/// as `\u{202e}`. A carriage return before a line feed is part of the line break.
pub fn clean_text(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => cleaned.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            _ => push_visible(&mut cleaned, character),
        }
    }
    cleaned
}

/// A display or channel name for a header line: one line, cleaned, without double quotes, at most
/// [`NAME_MAX`] characters.
pub fn clean_name(name: &str) -> String {
    one_line(name, NAME_MAX)
}

/// A file name or a type as data: the same with at most [`FILE_NAME_MAX`] characters.
pub fn clean_file_name(name: &str) -> String {
    one_line(name, FILE_NAME_MAX)
}

/// A path as data: one line, and unchanged when it holds nothing hidden, so that it can be opened.
pub(super) fn clean_path(path: &str) -> String {
    path.chars().fold(String::with_capacity(path.len()), |mut cleaned, character| {
        push_visible(&mut cleaned, character);
        cleaned
    })
}

/// Characters, not bytes, are counted after the escapes, so that the bound holds for what is printed; an
/// escape that would be cut is left out.
fn one_line(name: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in name.split_whitespace() {
        let gap = usize::from(!line.is_empty());
        if gap == 1 && length + 1 < limit {
            line.push(' ');
            length += 1;
        }
        for character in word.chars() {
            let mut visible = String::new();
            push_visible(&mut visible, if character == '"' { '\'' } else { character });
            let more = visible.chars().count();
            if length + more > limit {
                return named(line);
            }
            line.push_str(&visible);
            length += more;
        }
    }
    named(line)
}

fn named(line: String) -> String {
    let line = line.trim_end();
    if line.is_empty() { NAMELESS.to_owned() } else { line.to_owned() }
}

fn push_visible(text: &mut String, character: char) {
    if is_hidden(character) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}", character.escape_unicode());
    } else {
        text.push(character);
    }
}

/// Whether R-20 wants the character escaped. Line feed and tab are; the callers decide about them first.
pub(super) fn is_hidden(character: char) -> bool {
    character.is_control() || HIDDEN.iter().any(|range| range.contains(&character))
}
