//! Extra variables of a turn: which names are refused and what a value may be.
//!
//! Must not know how the rest of the environment is built; the names that it sets stand here so that both
//! use one list.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Problem;
use super::raw::{Found, found};
use super::secret::SecretRef;
use super::values::{filled, is_variable_name, text};

/// Variables with a fixed value in every turn.
pub const FIXED_TURN_ENV: [(&str, &str); 5] = [
    ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
];

/// Variables that a turn never has: each would change who pays or where the key goes (M2-34 note 7).
pub const FORBIDDEN_TURN_ENV: [&str; 6] = [
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// Variables that the runner takes from its own environment or sets for the run, besides every `LC_*`.
pub const RUNNER_SET_TURN_ENV: [&str; 11] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TERM",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "ANTHROPIC_API_KEY",
    "CLAUDE_CONFIG_DIR",
];

/// Further refused names: a guard of the CLI that one line would undo.
pub const GUARD_TURN_ENV: [&str; 1] = ["IS_SANDBOX"];

/// Beginnings of refused names: the dynamic loader's and the locale's.
pub const REFUSED_TURN_ENV_PREFIXES: [&str; 2] = ["LD_", "LC_"];

/// Whether `runner.turn_env` must not have a variable of this name.
pub fn refused_turn_env_name(name: &str) -> bool {
    let lists = [&FORBIDDEN_TURN_ENV[..], &RUNNER_SET_TURN_ENV[..], &GUARD_TURN_ENV[..]];
    FIXED_TURN_ENV.iter().any(|(fixed, _)| *fixed == name)
        || lists.concat().contains(&name)
        || REFUSED_TURN_ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Value of one extra variable.
#[derive(Clone, PartialEq, Eq)]
pub enum TurnEnvValue {
    /// The text itself.
    Literal(String),
    /// A secret, read fresh for each turn.
    Secret(SecretRef),
}

impl fmt::Debug for TurnEnvValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TurnEnvValue::Literal(_) => "Literal",
            TurnEnvValue::Secret(_) => "Secret",
        })
    }
}

/// Reads the table `NAME = "literal"` or `NAME = { secret = "file:/path" }`.
pub fn turn_env(value: &Spanned<DeValue<'_>>) -> Result<BTreeMap<String, TurnEnvValue>, Vec<Found>> {
    let Some(table) = value.get_ref().as_table() else {
        return Err(vec![found(Problem::WrongType("a table of variables"), value)]);
    };
    let mut read = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, value) in table {
        match variable(name.get_ref(), value.get_ref()) {
            Ok(variable) => drop(read.insert(name.get_ref().clone().into_owned(), variable)),
            Err(problem) => wrong.push(found(problem, value).at_name(name.get_ref())),
        }
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

fn variable(name: &str, value: &DeValue<'_>) -> Result<TurnEnvValue, Problem> {
    if !is_variable_name(name) {
        return Err(Problem::Name);
    }
    if refused_turn_env_name(name) {
        return Err(Problem::RefusedVariable);
    }
    match value {
        DeValue::Table(table) => secret(table),
        DeValue::String(_) => Ok(TurnEnvValue::Literal(text(value)?.to_owned())),
        _ => Err(SHAPE),
    }
}

const SHAPE: Problem = Problem::WrongType("a string or { secret = \"...\" }");

fn secret(table: &DeTable<'_>) -> Result<TurnEnvValue, Problem> {
    let value = table.get("secret").filter(|_| table.len() == 1).ok_or(SHAPE)?;
    SecretRef::parse(filled(value.get_ref())?).map(TurnEnvValue::Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_names_table() {
        for (name, _) in FIXED_TURN_ENV {
            assert!(refused_turn_env_name(name), "{name}");
        }
        for name in FORBIDDEN_TURN_ENV.iter().chain(&RUNNER_SET_TURN_ENV) {
            assert!(refused_turn_env_name(name), "{name}");
        }
        for name in ["IS_SANDBOX", "LD_PRELOAD", "LD_LIBRARY_PATH", "LC_ALL"] {
            assert!(refused_turn_env_name(name), "{name}");
        }
        for name in ["HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "ANTHROPIC_BASE_URL", "LDX", "GIT_AUTHOR_NAME"] {
            assert!(!refused_turn_env_name(name), "{name}");
        }
    }
}
