//! What turns may do, and what that lets them reach (R-1a, R-16).

use super::report::Check;
use crate::config::{Config, RunnerConfig, rule_without_path};
use crate::sdk::wire::run::ToolClass;
use crate::sys::process;

/// The CLI's shell tool.
const SHELL: &str = "Bash";

/// Class, tools and trust.
pub fn checks(config: &Config) -> Vec<Check> {
    checks_for(&config.runner, process::effective_uid() == 0)
}

fn checks_for(runner: &RunnerConfig, root: bool) -> Vec<Check> {
    let mut checks = vec![class(runner.tool_class, root)];
    let shell: Vec<&str> = match runner.tool_class {
        ToolClass::Scoped => {
            runner.scoped_allowed_tools.iter().map(String::as_str).filter(|rule| is_shell(rule)).collect()
        }
        ToolClass::Chat | ToolClass::Host => Vec::new(),
    };
    let open: Vec<&str> = shell.iter().copied().filter(|rule| runs_anything(rule)).collect();
    if !open.is_empty() {
        checks.push(Check::warn(
            "shell_rule_runs_anything",
            format!(
                "these rules of runner.scoped_allowed_tools let a turn run any program: {}; name whole commands, or take \
                 them out",
                open.join(", ")
            ),
        ));
    }
    let has_shell = runner.tool_class == ToolClass::Host || !shell.is_empty();
    if has_shell && runner.anthropic_api_key_ref.is_some() {
        checks.push(Check::warn(
            "key_readable_by_tools",
            "a turn's shell can read the API key in its environment; use a key with a spending limit of its own",
        ));
    }
    checks.extend(without_path(runner));
    checks
}

fn class(class: ToolClass, root: bool) -> Check {
    match class {
        ToolClass::Host if root => Check::fail(
            "host_as_root",
            "class host is refused for root; run the service as a user of its own, or lower runner.tool_class",
        ),
        ToolClass::Host => {
            Check::warn("class_host", "class host lets a turn do everything that this account may do")
        }
        ToolClass::Scoped => Check::ok("class_scoped", "turns have the tools of runner.scoped_allowed_tools"),
        ToolClass::Chat => Check::ok("class_chat", "turns have no tools"),
    }
}

fn is_shell(rule: &str) -> bool {
    rule.split('(').next() == Some(SHELL)
}

/// A shell rule without a command, or with a wildcard: what fills the wildcard can be another command.
fn runs_anything(rule: &str) -> bool {
    rule == SHELL || rule.contains('*') || rule.contains("()")
}

/// Rules that every run of a trusted project is refused for.
fn without_path(runner: &RunnerConfig) -> Option<Check> {
    let trusted = runner.tool_class == ToolClass::Scoped && !runner.trusted_projects.is_empty();
    let rules: Vec<&str> = runner
        .scoped_allowed_tools
        .iter()
        .map(String::as_str)
        .filter(|rule| trusted && rule_without_path(rule))
        .collect();
    (!rules.is_empty()).then(|| {
        Check::warn(
            "rule_without_path",
            format!(
                "runs of trusted projects are refused while these rules have no path: {}; write Read(./**)",
                rules.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check_config::tests::example;

    #[test]
    fn classes_and_rules_have_their_warnings() {
        let rows: &[(&str, &str, bool, &[&str])] = &[
            ("chat", "", false, &["class_chat"]),
            ("host", "", true, &["host_as_root"]),
            ("host", "", false, &["class_host"]),
            ("host", "anthropic_api_key_ref = \"env:K\"", false, &["class_host", "key_readable_by_tools"]),
            ("scoped", "scoped_allowed_tools = [\"Read\"]", false, &["class_scoped"]),
            (
                "scoped",
                "scoped_allowed_tools = [\"Bash(git *)\"]\nanthropic_api_key_ref = \"env:K\"",
                false,
                &["class_scoped", "shell_rule_runs_anything", "key_readable_by_tools"],
            ),
            (
                "scoped",
                "scoped_allowed_tools = [\"Bash\"]",
                false,
                &["class_scoped", "shell_rule_runs_anything"],
            ),
            (
                "scoped",
                "scoped_allowed_tools = [\"Bash(cargo test)\", \"BashOutput\"]",
                false,
                &["class_scoped"],
            ),
            (
                "scoped",
                "scoped_allowed_tools = [\"Read\", \"Edit(./**)\"]\ntrusted_projects = [\"website\"]",
                false,
                &["class_scoped", "rule_without_path"],
            ),
        ];
        for (class, more, root, codes) in rows {
            let config = example(&format!("tool_class = \"{class}\"\n{more}\n"));
            let found: Vec<_> = checks_for(&config.runner, *root).iter().map(|check| check.code).collect();
            assert_eq!(found, *codes, "{class} {more}");
        }
    }
}
