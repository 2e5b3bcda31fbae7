//! The rules of class scoped: which of them a run gets, and what form they may have.
//!
//! A rule is `Name` or `Name(what)` ([`crate::config::tools`]). The runtime splits one argument at commas and spaces outside parentheses, so
//! a text such as `Read Write` would be two rules where this program sees one; such text is refused here.

use std::path::Path;

use super::{ArgvFault, check_value};
use crate::config::tools::{base_name, is_rule, rule_without_path};

/// What a read-only binding may still write, each below the run's temporary directory (IN-8).
const TEMPORARY_WRITE_TOOLS: &[&str] = &["Write", "Edit"];

/// The base names of `rules` in their order, each once.
pub fn base_names(rules: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rule in rules {
        let name = base_name(rule);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The final rules of class scoped (M2-34 note 9, IN-8).
///
/// `configured` is `runner.scoped_allowed_tools`; `binding_allowed` narrows it by equal text, in the order of the
/// configuration. `workspace_write` false takes the rules of `write_tools` away and lets the turn write below
/// `temp_dir` (absolute) instead; absent, the class decides.
pub fn scoped_tools(
    configured: &[String],
    binding_allowed: Option<&[String]>,
    workspace_write: Option<bool>,
    write_tools: &[String],
    temp_dir: &Path,
) -> Vec<String> {
    let narrowed =
        configured.iter().filter(|rule| binding_allowed.is_none_or(|allowed| allowed.contains(rule)));
    if workspace_write != Some(false) {
        return narrowed.cloned().collect();
    }
    let reads = narrowed.filter(|rule| !write_tools.iter().any(|tool| tool == base_name(rule)));
    // A leading double slash makes the pattern start at the root of the file system.
    let temporary = TEMPORARY_WRITE_TOOLS.iter().map(|tool| format!("{tool}(/{}/**)", temp_dir.display()));
    reads.cloned().chain(temporary).collect()
}

/// Checks every rule's form, and its path when the project's own settings load (R-1a).
pub(super) fn check(rules: &[String], trusted_project: bool) -> Result<(), ArgvFault> {
    for rule in rules {
        check_value(rule, "tools")?;
        if !is_rule(rule) {
            return Err(ArgvFault::new("rule_malformed", "tools"));
        }
        if trusted_project && rule_without_path(rule) {
            return Err(ArgvFault::new("rule_without_path", "tools"));
        }
    }
    Ok(())
}
