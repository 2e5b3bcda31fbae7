//! A sender's file name as a name that is safe here and still readable (IN-2, C5-09).

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::attachments::notice::cut;

/// Longest name, bytes of UTF-8: what common file systems take.
pub const NAME_MAX_BYTES: usize = 255;

/// Name of a file whose own name has nothing left.
const NAMELESS: &str = "file";

/// Put before a name that the CLI would load by itself.
const PREFIX: &str = "file-";

/// Longest ending that is kept when a name is cut, in bytes, without its dot; a longer one is no ending.
const ENDING_MAX_BYTES: usize = 16;

/// Endings that stand before the one of their compression, so that `.tar.gz` is kept whole.
const INNER_ENDINGS: &[&str] = &["tar", "cpio"];

/// Names that the CLI, or an agent beside it, loads by itself from a directory that it works in, in lower case and
/// without a dot at the start: settings, instructions, servers, plugins.
const LOADED_NAMES: &[&str] = &[
    "agent.md",
    "agents.md",
    "agents.local.md",
    "agents.override.md",
    "claude.json",
    "claude.local.md",
    "claude.md",
    "gemini.md",
    "hooks.json",
    "keybindings.json",
    "launch.json",
    "lsp.json",
    "managed-mcp.json",
    "managed-settings.json",
    "marketplace.json",
    "mcp.json",
    "memory.md",
    "plugin.json",
    "remote-settings.json",
    "scheduled_tasks.json",
    "settings.json",
    "settings.local.json",
    "skill.md",
    "worktreeinclude",
];

/// The safe name for `name`: letters and digits of any script, space, `.`, `_` and `-`, composed, at most
/// [`NAME_MAX_BYTES`] with its ending kept; never empty, a path, hidden, an option, or a name that is loaded by itself.
pub fn safe_name(name: &str) -> String {
    with_prefix("", name)
}

/// [`safe_name`] for the first try, and with the number before it for each further one.
pub(super) fn numbered(name: &str, number: u32) -> String {
    match number {
        1 => safe_name(name),
        more => with_prefix(&format!("{more}-"), name),
    }
}

fn with_prefix(prefix: &str, name: &str) -> String {
    let clean = clean(name);
    let trimmed = clean.trim_start_matches(['.', '-', ' ']).trim_end_matches([' ', '.']);
    let named = if trimmed.is_empty() { NAMELESS } else { trimmed };
    let loaded = LOADED_NAMES.contains(&named.to_lowercase().as_str());
    let guard = if loaded && prefix.is_empty() { PREFIX } else { "" };
    shorten(&format!("{prefix}{guard}{named}"))
}

/// Every character that is none of the kept ones becomes one `_`; marks stay behind the letter they belong to.
fn clean(name: &str) -> String {
    let mut letter = false;
    let clean = name.nfc().map(|character| {
        letter = character.is_alphanumeric() || (letter && is_combining_mark(character));
        if letter || matches!(character, ' ' | '.' | '_' | '-') { character } else { '_' }
    });
    // A replaced character may leave others that compose.
    clean.collect::<String>().nfc().collect()
}

/// Cuts between characters, before the ending.
fn shorten(name: &str) -> String {
    if name.len() <= NAME_MAX_BYTES {
        return name.to_owned();
    }
    let (stem, ending) = name.split_at(ending_start(name));
    let stem = cut(stem, NAME_MAX_BYTES - ending.len()).trim_end_matches([' ', '.']);
    format!("{stem}{ending}")
}

/// Where the ending begins, with its dot; the end of the name when it has none.
fn ending_start(name: &str) -> usize {
    let Some(last) = dot_before_ending(name) else { return name.len() };
    match dot_before_ending(&name[..last]) {
        Some(inner) if INNER_ENDINGS.contains(&name[inner + 1..last].to_lowercase().as_str()) => inner,
        _ => last,
    }
}

fn dot_before_ending(name: &str) -> Option<usize> {
    name.rfind('.').filter(|dot| (1..=ENDING_MAX_BYTES).contains(&(name.len() - dot - 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_people_send() {
        let rows = [
            ("an ordinary name", "report 2026-01.pdf", "report 2026-01.pdf"),
            ("an archive", "orders.tar.gz", "orders.tar.gz"),
            ("other scripts", "\u{5831}\u{544a}\u{66f8}.pdf", "\u{5831}\u{544a}\u{66f8}.pdf"),
            (
                "marks of other scripts",
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}.txt",
                "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}.txt",
            ),
            ("decomposed", "re\u{301}sume\u{301}.pdf", "r\u{e9}sum\u{e9}.pdf"),
            ("a mark alone", "\u{301}a", "_a"),
            ("a path", "/etc/passwd", "_etc_passwd"),
            ("a path upwards", "../../etc/passwd", "_.._etc_passwd"),
            ("a path of windows", "C:\\x\\y.txt", "C__x_y.txt"),
            ("hidden", ".env", "env"),
            ("an option", "-rf", "rf"),
            ("both and a space", " .-x", "x"),
            ("a space behind", "photo.png ", "photo.png"),
            ("a dot behind", "photo.png.. ", "photo.png"),
            ("only dots", "....", "file"),
            ("two dots", "..", "file"),
            ("nothing", "", "file"),
            ("only spaces", "   ", "file"),
            (
                "shell syntax",
                "a;b|c&d$(e)`f`>g<h*i?j[k]{l}~m!n#o'p\"q.txt",
                "a_b_c_d__e__f__g_h_i_j_k__l__m_n_o_p_q.txt",
            ),
            ("line breaks and zero", "a\r\nb\0c.txt", "a__b_c.txt"),
            ("bidi", "a\u{202e}txt.exe", "a_txt.exe"),
            ("emoji", "\u{1f600}.png", "_.png"),
            ("instructions", "CLAUDE.md", "file-CLAUDE.md"),
            ("instructions in another case", "claude.MD", "file-claude.MD"),
            ("local instructions", "CLAUDE.local.md", "file-CLAUDE.local.md"),
            ("of other agents", "AGENTS.md", "file-AGENTS.md"),
            ("servers", ".mcp.json", "file-mcp.json"),
            ("settings", "settings.json", "file-settings.json"),
            ("local settings", "settings.local.json", "file-settings.local.json"),
            ("instructions with dirt around", " ..CLAUDE.md. ", "file-CLAUDE.md"),
            ("a name beside", "CLAUDE.md.txt", "CLAUDE.md.txt"),
        ];
        for (what, name, expected) in rows {
            assert_eq!(safe_name(name), expected, "{what}");
        }
    }

    #[test]
    fn c5_09_long_names_keep_their_ending() {
        let ideographs = "\u{5831}".repeat(100);
        let letters = "a".repeat(300);
        let rows = [
            ("ideographs", format!("{ideographs}.pdf"), format!("{}.pdf", "\u{5831}".repeat(83))),
            ("emoji", format!("{}.tar.gz", "\u{1f600}".repeat(60)), format!("{}.tar.gz", "_".repeat(60))),
            ("letters and two endings", format!("{letters}.tar.gz"), format!("{}.tar.gz", "a".repeat(248))),
            ("no ending", letters.clone(), "a".repeat(255)),
            ("a very long ending", format!("a.{letters}"), format!("a.{}", "a".repeat(253))),
            ("exactly fits", format!("{}.pdf", "a".repeat(251)), format!("{}.pdf", "a".repeat(251))),
        ];
        for (what, name, expected) in rows {
            assert_eq!(safe_name(&name), expected, "{what}");
        }
        let full = format!("{}.pdf", "a".repeat(251));
        assert_eq!(numbered(&full, 2), format!("2-{}.pdf", "a".repeat(249)));
        assert_eq!(numbered("CLAUDE.md", 2), "2-CLAUDE.md");
    }

    fn is_safe(name: &str) -> bool {
        let kept = |character: char| {
            character.is_alphanumeric() || is_combining_mark(character) || " ._-".contains(character)
        };
        let bare = name.to_lowercase();
        !name.is_empty()
            && name.len() <= NAME_MAX_BYTES
            && name.chars().all(kept)
            && !name.starts_with(['.', '-', ' '])
            && !name.ends_with([' ', '.'])
            && !LOADED_NAMES.contains(&bare.as_str())
            && name.nfc().eq(name.chars())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_name_is_safe_and_stays_as_it_is(name in "\\PC{0,300}", number in 1u32..5) {
            let safe = numbered(&name, number);
            prop_assert!(is_safe(&safe), "{:?}", safe);
            prop_assert_eq!(safe_name(&safe), safe);
        }
    }
}
