//! The title an answer proposes: its first line `TITLE: <title>`, taken out of the text.
//!
//! Called only for answers of turns that were asked for a title; it must not know threads or the server (M2-34
//! notes 10 and 14).

use crate::claude::prompt::TITLE_PREFIX;

/// Longest title in characters; a thread list shows one line.
pub const TITLE_MAX_CHARS: usize = 120;

/// The title that `answer` begins with, cleaned and bounded, and the answer without that line.
///
/// Blank lines before and behind the title line go with it. An empty title gives none, and the line still goes.
pub fn split_title(answer: &str) -> (Option<String>, String) {
    let start = answer.trim_start_matches(['\n', '\r', ' ', '\t']);
    let Some(rest) = start.strip_prefix(TITLE_PREFIX) else { return (None, answer.to_owned()) };
    let (line, text) = rest.split_once('\n').unwrap_or((rest, ""));
    (clean(line), drop_blank_lines(text).to_owned())
}

/// One line of visible text: white space runs become one space, control and direction characters go.
fn clean(line: &str) -> Option<String> {
    let visible: String =
        line.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !is_hidden(*c)).collect();
    let words = visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let title: String = words.chars().take(TITLE_MAX_CHARS).collect();
    let title = title.trim_end();
    if title.is_empty() { None } else { Some(title.to_owned()) }
}

/// Control, zero-width, direction and tag characters.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Drops leading lines of white space and keeps the indentation of the first line with text.
fn drop_blank_lines(mut text: &str) -> &str {
    while let Some((line, rest)) = text.split_once('\n')
        && line.trim().is_empty()
    {
        text = rest;
    }
    if text.trim().is_empty() { "" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_title_table() {
        let rows: &[(&str, &str, Option<&str>, &str)] = &[
            (
                "title and text",
                "TITLE: Invoices of May\n\nThe sum is 7.",
                Some("Invoices of May"),
                "The sum is 7.",
            ),
            ("no title", "The sum is 7.", None, "The sum is 7."),
            ("not the first line", "Text\nTITLE: x", None, "Text\nTITLE: x"),
            ("blank lines before", "\n \nTITLE: x\nText", Some("x"), "Text"),
            ("carriage return", "TITLE: x\r\n\r\nText", Some("x"), "Text"),
            ("title only", "TITLE: x", Some("x"), ""),
            ("no space", "TITLE:x\nText", Some("x"), "Text"),
            ("empty title", "TITLE:  \nText", None, "Text"),
            ("other case", "Title: x\nText", None, "Title: x\nText"),
            ("indented text kept", "TITLE: x\n\n    code", Some("x"), "    code"),
            ("hidden characters", "TITLE: a\u{202e}b\u{200b}\tc\u{7}  d\nText", Some("ab c d"), "Text"),
            ("nothing", "", None, ""),
        ];
        for (name, answer, title, text) in rows {
            assert_eq!(split_title(answer), (title.map(str::to_owned), (*text).to_owned()), "{name}");
        }
    }

    #[test]
    fn title_is_bounded_between_characters() {
        let answer = format!("TITLE: {}\nText", "\u{e4}".repeat(TITLE_MAX_CHARS * 2));
        let (title, text) = split_title(&answer);
        assert_eq!(title.unwrap().chars().count(), TITLE_MAX_CHARS);
        assert_eq!(text, "Text");
    }
}
