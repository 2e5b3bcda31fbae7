//! The project's own files as text: which are tracked, what is code in them, what the wire types declare.

use std::path::PathBuf;
use std::process::Command;

/// The top of the project.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the project.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Every file that is tracked or about to be, relative to the top, sorted.
///
/// The owner of the checkout may be another account than the one that tests, hence `safe.directory`.
pub fn tracked_files() -> Vec<String> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is needed to list the project's files");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let present = listed.split('\0').filter(|path| !path.is_empty() && root().join(path).is_file());
    let mut files: Vec<String> = present.map(str::to_owned).collect();
    files.sort();
    files.dedup();
    files
}

/// Every tracked Rust file below one of the directories.
pub fn rust_files(directories: &[&str]) -> Vec<String> {
    let below =
        |file: &String| directories.iter().any(|directory| file.starts_with(&format!("{directory}/")));
    tracked_files().into_iter().filter(|file| file.ends_with(".rs") && below(file)).collect()
}

/// Rust text with every comment, string and character blanked out, line by line as before.
pub fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_length(rest, out.chars().next_back());
        let (part, blank) = if skipped > 0 { (skipped, true) } else { (first.len_utf8(), false) };
        for letter in rest[..part].chars() {
            out.push(if blank && letter != '\n' { ' ' } else { letter });
        }
        rest = &rest[part..];
    }
    out
}

/// How many bytes at the start of `text` are a comment, a string or a character; 0 when none.
fn skipped_length(text: &str, before: Option<char>) -> usize {
    let word_before = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |end| end + 2);
    }
    if let Some(inner) = text.strip_prefix('"') {
        return 1 + escaped_length(inner, '"');
    }
    if !word_before && (text.starts_with("r\"") || text.starts_with("r#") || text.starts_with("br")) {
        return raw_string_length(text);
    }
    character_length(text)
}

/// Bytes up to and with the closing quote, a backslash hides the one behind it.
fn escaped_length(text: &str, quote: char) -> usize {
    let mut hidden = false;
    for (index, letter) in text.char_indices() {
        match letter {
            _ if hidden => hidden = false,
            '\\' => hidden = true,
            _ if letter == quote => return index + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> usize {
    let start = text.find('r').map_or(0, |index| index + 1);
    let hashes = text[start..].bytes().take_while(|byte| *byte == b'#').count();
    let body = start + hashes;
    if !text[body..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    text[body + 1..].find(&end).map_or(text.len(), |index| body + 1 + index + end.len())
}

/// A character literal, told from a lifetime by its closing quote.
fn character_length(text: &str) -> usize {
    let Some(inner) = text.strip_prefix('\'') else { return 0 };
    if inner.starts_with('\\') {
        return 1 + escaped_length(inner, '\'');
    }
    let width = inner.chars().next().map_or(0, char::len_utf8);
    if inner[width..].starts_with('\'') { width + 2 } else { 0 }
}

/// The texts of the string constants that a module of a file declares.
pub fn constants(path: &str, module: &str) -> Vec<String> {
    let text = read(path);
    let start = text.find(&format!("pub mod {module} {{")).expect("the module");
    let body = &text[start..];
    let body = &body[..body.find("\n}").expect("the end of the module")];
    let lines = body.lines().filter(|line| line.trim_start().starts_with("pub const "));
    lines.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

/// A type of `src/sdk/wire` as its source declares it to serde.
pub struct WireType {
    /// Rust's name, also the schema's.
    pub name: String,
    /// Whether unknown members are refused.
    pub closed: bool,
    /// Members of a struct or values of an enum.
    pub items: Vec<WireItem>,
    /// Struct or enum.
    pub is_struct: bool,
}

/// A member or a value.
pub struct WireItem {
    /// Its name on the wire.
    pub name: String,
    /// It may be absent in what is printed.
    pub optional: bool,
    /// It is read when absent, or it is what an unknown value becomes.
    pub lenient: bool,
}

/// Every struct with named members and every enum of `src/sdk/wire`.
pub fn wire_types() -> Vec<WireType> {
    let entries = std::fs::read_dir(root().join("src/sdk/wire")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| types_of(&std::fs::read_to_string(file).unwrap())).collect()
}

fn types_of(text: &str) -> Vec<WireType> {
    let mut types: Vec<WireType> = Vec::new();
    let (mut attributes, mut open, mut rename_all) = (String::new(), false, String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some((name, is_struct)) = opening(line) {
            rename_all = quoted_after(&attributes, "rename_all = ").unwrap_or_default();
            let closed = attributes.contains("deny_unknown_fields");
            types.push(WireType { name, closed, items: Vec::new(), is_struct });
            (open, attributes) = (true, String::new());
        } else if line.starts_with('}') {
            open = false;
        } else if trimmed.starts_with("#[") {
            attributes.push_str(trimmed);
        } else if !trimmed.starts_with("//") && !trimmed.is_empty() {
            if let (true, Some(wire_type)) = (open, types.last_mut()) {
                wire_type.items.push(item(trimmed, &attributes, &rename_all));
            }
            attributes.clear();
        }
    }
    types
}

fn opening(line: &str) -> Option<(String, bool)> {
    let (rest, is_struct) = match line.strip_prefix("pub struct ") {
        Some(rest) => (rest, true),
        None => (line.strip_prefix("pub enum ")?, false),
    };
    Some((rest.strip_suffix(" {")?.to_owned(), is_struct))
}

fn item(line: &str, attributes: &str, rename_all: &str) -> WireItem {
    let line = line.trim_start_matches("pub ").trim_end_matches(',');
    let (rust_name, kind) = line.split_once(": ").unwrap_or((line, ""));
    let renamed = quoted_after(attributes, "rename = ");
    let optional = kind.starts_with("Option<") || attributes.contains("skip_serializing_if");
    let lenient = attributes.contains("default") || attributes.contains("(other)");
    WireItem { name: renamed.unwrap_or_else(|| cased(rust_name, rename_all)), optional, lenient }
}

fn cased(name: &str, rule: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if rule == "snake_case" && letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(if rule.is_empty() { letter } else { letter.to_ascii_lowercase() });
    }
    out
}

fn quoted_after(text: &str, mark: &str) -> Option<String> {
    text.split(mark).nth(1)?.split('"').nth(1).map(str::to_owned)
}

#[test]
fn code_is_told_from_text() {
    let rows = [
        ("a // b\nc", "a     \nc"),
        ("a /* b */ c", "a         c"),
        ("x(\"a\\\"b\")", "x(      )"),
        ("x(r#\"a\"b\"#)", "x(        )"),
        ("f('\"', 'a)", "f(   , 'a)"),
        ("for r in x", "for r in x"),
        ("f('\\'')", "f(    )"),
    ];
    for (text, code) in rows {
        assert_eq!(code_only(text), code, "{text}");
    }
}
