//! Tool rules as the CLI reads them: a tool's name, or a name and a rule in parentheses.
//!
//! Must not know which class a run has.

use toml::de::DeValue;

use super::fault::Problem;
use super::values::argument;

/// Tools that read or write files and whose rules can carry a path.
pub const FILE_TOOLS: [&str; 9] =
    ["Read", "Write", "Edit", "MultiEdit", "NotebookRead", "NotebookEdit", "Glob", "Grep", "LS"];
/// Beginning of the names of tools of MCP servers, the only ones that may hold a wildcard.
const MCP: &str = "mcp__";
/// A word that the CLI's `--tools` reads as "every built-in tool".
const EVERY_TOOL: &str = "default";

/// One tool rule: an argument whose name part can stand in a list joined by commas.
pub fn rule(value: &DeValue<'_>) -> Result<String, Problem> {
    let rule = argument(value)?;
    if is_rule(&rule) { Ok(rule) } else { Err(Problem::ToolRule) }
}

/// The name of a tool without a rule and without a wildcard, to be compared with the names of rules.
pub fn tool_name(value: &DeValue<'_>) -> Result<String, Problem> {
    let name = argument(value)?;
    let plain = is_name(&name) && !name.contains('*');
    if plain { Ok(name) } else { Err(Problem::Name) }
}

/// Whether `rule` is a name or `name(rule)`; also asked for rules that come with a binding.
pub fn is_rule(rule: &str) -> bool {
    match rule.find('(') {
        Some(at) => is_name(&rule[..at]) && is_one_pair(&rule[at..]),
        None => is_name(rule),
    }
}

/// Whether the first parenthesis closes with the last character: what follows would be a second rule.
fn is_one_pair(text: &str) -> bool {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + letter.len_utf8() == text.len();
        }
    }
    false
}

fn is_name(name: &str) -> bool {
    let wildcard = name.starts_with(MCP);
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (wildcard && byte == b'*');
    name != EVERY_TOOL
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(legal)
}

/// The tool of a rule, without the part in parentheses.
pub fn base_name(rule: &str) -> &str {
    rule.split_once('(').map_or(rule, |(name, _)| name)
}

/// Whether `rule` is for a file tool and names no path: such a rule reaches the whole machine when the CLI is
/// not restricted (R-1a, log code `rule_without_path`).
pub fn rule_without_path(rule: &str) -> bool {
    let name = base_name(rule);
    let inner = rule[name.len()..].trim_start_matches('(').trim_end_matches(')');
    let no_path = inner.chars().all(|letter| matches!(letter, '*' | '/') || letter.is_whitespace());
    FILE_TOOLS.contains(&name) && no_path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_table() {
        for good in [
            "Read",
            "Edit(./**)",
            "Bash(git log *)",
            "Bash(a (b))",
            "mcp__server__tool",
            "mcp__*",
            "Read(//x)",
        ] {
            assert!(is_rule(good), "{good}");
        }
        for bad in [
            "",
            "Read,Write",
            "Read Write",
            "Read(./**",
            "(x)",
            "*",
            "Re*d",
            "default",
            "1Read",
            "./x",
            "Read)",
            "Read(./**) Write(./**)",
            "Bash(a),Bash(b)",
            "Bash(a) b)",
            "Bash(a(b)",
        ] {
            assert!(!is_rule(bad), "{bad}");
        }
        assert_eq!(base_name("Edit(./**)"), "Edit");
        assert_eq!(base_name("Edit"), "Edit");
    }

    #[test]
    fn rule_without_path_table() {
        for bare in
            ["Read", "Write", "Edit()", "Read(**)", "Glob(*)", "NotebookEdit( )", "Grep", "Read(//**)"]
        {
            assert!(rule_without_path(bare), "{bare}");
        }
        for good in ["Read(./**)", "Edit(./src/**)", "Bash", "Bash(*)", "WebFetch", "mcp__files__Read"] {
            assert!(!rule_without_path(good), "{good}");
        }
    }
}
