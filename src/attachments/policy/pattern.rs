//! Names that secrets have: shell patterns without regard to case (D-M3-12-3, R-33).

use std::ffi::OsStr;
use std::path::Path;

use unicode_normalization::UnicodeNormalization;

/// The patterns of `runner.attach_denied_patterns`, ready to be compared.
#[derive(Clone, Debug)]
pub struct Patterns {
    patterns: Vec<Vec<Token>>,
}

/// One element of a pattern, with letters folded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// This character.
    One(char),
    /// `?`
    Any,
    /// `*`
    Many,
    /// `[...]`, or `[!...]` when `negated`.
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Patterns {
    /// Reads the patterns, which the configuration has checked; any text is a pattern (fnmatch).
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Patterns {
        Patterns { patterns: patterns.iter().map(|pattern| tokens(&fold(pattern.as_ref()))).collect() }
    }

    /// Whether a component of `relative`, the real path below its root, or the last component of the announced path
    /// is denied.
    pub fn deny(&self, relative: &Path, announced: &str) -> bool {
        let last = announced.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        self.match_name(OsStr::new(last)) || relative.iter().any(|name| self.match_name(name))
    }

    /// Whether a pattern matches the whole `name`.
    pub fn match_name(&self, name: &OsStr) -> bool {
        let name: Vec<char> = fold(&name.to_string_lossy()).chars().collect();
        self.patterns.iter().any(|pattern| matches(pattern, &name))
    }
}

/// `text` as it is compared: composed and without regard to case, in the full mapping ("SS" is the same as a sharp s,
/// a ligature the same as its letters). Lower, upper and lower again reaches one form from each letter's variants.
fn fold(text: &str) -> String {
    text.nfkc()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfc()
        .collect()
}

fn tokens(pattern: &str) -> Vec<Token> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(character) = characters.get(at) {
        let (token, length) = match character {
            '*' => (Token::Many, 1),
            '?' => (Token::Any, 1),
            '[' => set(&characters[at..]).unwrap_or((Token::One('['), 1)),
            other => (Token::One(*other), 1),
        };
        tokens.push(token);
        at += length;
    }
    tokens
}

/// The set that starts with the bracket at the beginning of `rest`, and its length; none when it is not closed.
fn set(rest: &[char]) -> Option<(Token, usize)> {
    let negated = rest.get(1) == Some(&'!');
    let start = 1 + usize::from(negated);
    // A bracket right at the start is a member, not the end.
    let end = start + 1 + rest.get(start + 1..)?.iter().position(|character| *character == ']')?;
    Some((Token::Set { negated, ranges: ranges(&rest[start..end]) }, end + 1))
}

fn ranges(members: &[char]) -> Vec<(char, char)> {
    match members {
        [] => Vec::new(),
        [first, '-', last, rest @ ..] => {
            let mut all = ranges(rest);
            all.push((*first, *last));
            all
        }
        [one, rest @ ..] => {
            let mut all = ranges(rest);
            all.push((*one, *one));
            all
        }
    }
}

impl Token {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::One(own) => *own == character,
            Self::Any | Self::Many => true,
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

/// Whether the whole `name` matches. On a mismatch the last `*` takes one more character, which needs no recursion
/// and at most pattern times name steps.
fn matches(pattern: &[Token], name: &[char]) -> bool {
    let (mut at, mut taken) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while taken < name.len() {
        match pattern.get(at) {
            Some(Token::Many) => {
                retry = Some((at, taken));
                at += 1;
            }
            Some(token) if token.takes(name[taken]) => {
                at += 1;
                taken += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (at, taken) = (star + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|token| *token == Token::Many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        let rows = [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*.pem", "a.pem", true),
            ("*.pem", ".pem", true),
            ("*.pem", "a.pem.txt", false),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axbxbx", false),
            ("**", "", true),
            ("?", "", false),
            ("?", "\u{e9}", true),
            ("[ab]c", "bc", true),
            ("[!ab]c", "bc", false),
            ("[!ab]c", "xc", true),
            ("[a-c]", "b", true),
            ("[a-c]", "d", false),
            ("[]]", "]", true),
            ("[!]]", "]", false),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("id_*", "id_ed25519", true),
            ("id_*", "id", false),
            ("*.tfstate*", "prod.tfstate.backup", true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(Patterns::new(&[pattern]).match_name(name.as_ref()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn case_and_form_make_no_difference() {
        let rows = [
            (".env*", ".ENV"),
            ("*.PEM", "Server.pem"),
            ("*.key", "tls.\u{212a}ey"),
            (".ssh", ".\u{17f}\u{17f}h"),
            (".config", ".con\u{fb01}g"),
            (".env*", "\u{ff0e}\u{ff25}\u{ff2e}\u{ff36}"),
            ("stra\u{df}e", "STRASSE"),
            ("stra\u{1e9e}e", "strasse"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("\u{3c3}\u{3c2}", "\u{3a3}\u{3a3}"),
        ];
        for (pattern, name) in rows {
            assert!(Patterns::new(&[pattern]).match_name(name.as_ref()), "{pattern} {name}");
        }
    }

    #[test]
    fn a_hard_pattern_ends_soon() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!Patterns::new(&[pattern]).match_name("a".repeat(255).as_ref()));
    }

    #[test]
    fn every_real_component_and_the_announced_name_count() {
        let patterns = Patterns::new(&[".ssh", "id_*"]);
        let rows = [
            ("a directory on the way", "a/.ssh/x/y", "y", true),
            ("the file", "a/id_rsa", "a/id_rsa", true),
            ("the announced name only", "README.md", "x/id_rsa", true),
            ("a directory of the announced path", "README.md", ".ssh/README.md", false),
            ("nothing", "a/b", "a/b", false),
        ];
        for (what, real, announced, expected) in rows {
            assert_eq!(patterns.deny(Path::new(real), announced), expected, "{what}");
        }
    }
}
