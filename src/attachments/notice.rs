//! The notice below an answer whose files were not sent (D-M3-12-7, M3-12 note 8).
//!
//! It names files by their last component and gives codes: where files lie on this host is not for the readers of a
//! channel. This module must not know paths beyond taking their last component.

use super::outcome::Outcome;

/// First line of the notice.
const HEADING: &str = "Attachments not sent:";

/// Shown for a file without a name.
const NO_NAME: &str = "(empty)";

/// Longest name shown, bytes of UTF-8: the default of `file.name_max_bytes`. Display text only.
pub const NAME_MAX_BYTES: usize = 255;

/// The last component of an announced path without control, bidi, invisible and backtick characters, cut to
/// [`NAME_MAX_BYTES`] between characters; empty when nothing is left.
///
/// The name of an upload is made the same way. `mask` replaces every secret that the runner knows, before anything is
/// cut, and once more without the characters that could keep one apart.
pub fn display_name(path: &str, mask: &dyn Fn(&str) -> String) -> String {
    let masked = mask(path);
    let last = masked.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let clean: String =
        last.chars().filter(|character| !is_hidden(*character) && *character != '`').collect();
    cut(&mask(&clean), NAME_MAX_BYTES).trim().to_owned()
}

/// The answer's text with the notice below it.
///
/// `outcomes` is the whole set in the order of announcement; nothing is added for an empty one. `most` is the
/// server's `message_max_attachments`: so many files are named, the rest is counted; all are named without it.
pub fn append(text: &str, outcomes: &[Outcome], most: Option<u64>) -> String {
    let notice = build(outcomes, most);
    match (text.trim().is_empty(), notice.is_empty()) {
        (_, true) => text.to_owned(),
        (true, false) => notice,
        (false, false) => format!("{}\n\n{notice}", text.trim_end_matches(['\r', '\n'])),
    }
}

/// The notice alone, without a line break at its end.
pub fn build(outcomes: &[Outcome], most: Option<u64>) -> String {
    if outcomes.is_empty() {
        return String::new();
    }
    let most = most.map_or(outcomes.len(), |most| usize::try_from(most).unwrap_or(usize::MAX));
    let mut lines = vec![HEADING.to_owned()];
    lines.extend(outcomes.iter().take(most).map(line));
    if outcomes.len() > most {
        lines.push(format!("- and {} more", outcomes.len() - most));
    }
    lines.join("\n")
}

fn line(outcome: &Outcome) -> String {
    let name = if outcome.name.is_empty() { NO_NAME } else { &outcome.name };
    let words = match &outcome.refusal {
        None => String::new(),
        Some(refusal) => match &refusal.reason {
            None => format!(" ({})", code(&refusal.code)),
            Some(reason) => format!(" ({}, {})", code(&refusal.code), code(reason)),
        },
    };
    format!("- `{name}`: {}{words}", outcome.reason.code())
}

/// Longest code of the server that is shown, bytes; the contract's are shorter.
const CODE_MAX_BYTES: usize = 64;

/// A code of the server, when it is one; a faulty server does not write into the thread through it.
fn code(text: &str) -> &str {
    let fits = !text.is_empty() && text.len() <= CODE_MAX_BYTES;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
    if fits && plain { text } else { "unknown" }
}

/// Characters that show nothing or change how their neighbours are shown.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The longest beginning of `text` of at most `most` bytes that ends between characters.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::outcome::{Reason, Refusal};

    fn plain(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn names_show_no_directory_and_nothing_hidden() {
        let long = format!("{}\u{e9}", "a".repeat(254));
        let rows = [
            ("a path", "/srv/projects/website/out/report.md", "report.md"),
            ("out of the directory", "../x/y.txt", "y.txt"),
            ("a slash at the end", "out/", "out"),
            ("control characters", "a\r\n\tb\u{7}.txt", "ab.txt"),
            ("bidi characters", "a\u{202e}txt.exe\u{2066}", "atxt.exe"),
            ("invisible characters", "a\u{200b}\u{feff}\u{e0041}b", "ab"),
            ("backticks", "`a``b`", "ab"),
            ("nothing left", "/x/\u{202e}`", ""),
            ("nothing at all", "", ""),
            ("only slashes", "//", ""),
            ("cut between characters", &long, &"a".repeat(254)),
        ];
        for (what, path, expected) in rows {
            assert_eq!(display_name(path, &plain), expected, "{what}");
        }
    }

    #[test]
    fn a_secret_is_masked_before_the_name_is_cut() {
        let mask = |text: &str| text.replace("s3cr/et", "[redacted]");
        assert_eq!(display_name("out/s3cr/et.txt", &mask), "[redacted].txt");
    }

    #[test]
    fn characters_that_are_taken_out_hide_no_secret() {
        let mask = |text: &str| text.replace("s3cret", "[redacted]");
        for apart in ["\u{200b}", "\u{7}", "`", "\u{e0041}"] {
            assert_eq!(display_name(&format!("out/s3{apart}cret.txt"), &mask), "[redacted].txt");
        }
    }

    #[test]
    fn build_notice() {
        let refused = |name: &str, reason: Reason, code: &str, because: Option<&str>| Outcome {
            name: name.to_owned(),
            reason,
            refusal: Some(Refusal { code: code.to_owned(), reason: because.map(str::to_owned) }),
        };
        let set = [
            Outcome::of("a.txt", Reason::SetNotSent),
            refused("b.txt", Reason::UploadRefused, "conflict", Some("quota_exceeded")),
            refused("c.txt", Reason::NotAttached, "feature_disabled", None),
            Outcome::of("", Reason::NotFound),
        ];
        let lines = [
            "- `a.txt`: set_not_sent",
            "- `b.txt`: upload_refused (conflict, quota_exceeded)",
            "- `c.txt`: not_attached (feature_disabled)",
            "- `(empty)`: not_found",
        ];
        let all = format!("{HEADING}\n{}", lines.join("\n"));
        let two = format!("{HEADING}\n{}\n- and 2 more", lines[..2].join("\n"));
        let rows = [
            ("limits unknown", None, all.clone()),
            ("as many as allowed", Some(4), all.clone()),
            ("more than allowed", Some(2), two),
            ("none allowed", Some(0), format!("{HEADING}\n- and 4 more")),
        ];
        for (what, most, expected) in rows {
            assert_eq!(build(&set, most), expected, "{what}");
        }
        assert_eq!(build(&[], None), "");
        let hostile = [refused("a", Reason::UploadRefused, "x\n- `b`: sent", Some("<b>"))];
        assert_eq!(build(&hostile, None), format!("{HEADING}\n- `a`: upload_refused (unknown, unknown)"));
    }

    #[test]
    fn c5_17_an_answer_always_says_what_was_not_sent() {
        let set = [Outcome::of("a", Reason::NotFound)];
        let notice = build(&set, None);
        let rows = [
            ("only attach lines", "", notice.clone()),
            ("blank text", " \n", notice.clone()),
            ("text", "Here is the report.", format!("Here is the report.\n\n{notice}")),
            ("text with a line break", "Here.\r\n", format!("Here.\n\n{notice}")),
        ];
        for (what, text, expected) in rows {
            assert_eq!(append(text, &set, Some(3)), expected, "{what}");
        }
        assert_eq!(append("Sent.", &[], Some(3)), "Sent.");
    }
}
