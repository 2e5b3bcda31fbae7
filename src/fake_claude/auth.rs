//! `auth status`: read from the environment and from login files that tests write.

use std::path::PathBuf;

use serde_json::json;

use super::scenario::{Answer, Scenario};

/// The file whose content is the login's method.
const LOGIN_FILE: &str = "fake-login";

/// The answer of `auth status`.
pub(super) fn status(scenario: &Scenario) -> Answer {
    scenario.auth.clone().unwrap_or_else(|| answer(has_key(), stored_login()))
}

/// The runtime's own directory: `CLAUDE_CONFIG_DIR`, else `.claude` in the home directory.
pub(super) fn config_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| variable("HOME").unwrap_or_default().join(".claude"))
}

/// Whether the environment holds a key.
pub(super) fn has_key() -> bool {
    std::env::var_os("ANTHROPIC_API_KEY").is_some_and(|key| !key.is_empty())
}

fn stored_login() -> Option<String> {
    let text = std::fs::read_to_string(config_dir().join(LOGIN_FILE)).ok()?;
    Some(text.trim().to_owned()).filter(|method| !method.is_empty())
}

fn answer(key: bool, login: Option<String>) -> Answer {
    let method = if key { "api_key".to_owned() } else { login.unwrap_or_else(|| "none".to_owned()) };
    let logged_in = method != "none";
    let mut body = json!({"loggedIn": logged_in, "authMethod": method, "apiProvider": "firstParty", "analyticsDisabled": true});
    if key {
        body["apiKeySource"] = json!("ANTHROPIC_API_KEY");
    }
    Answer { stdout: format!("{body:#}\n"), exit: u8::from(!logged_in), ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_table() {
        let rows = [
            ("key", true, None, "api_key", 0),
            ("key before login", true, Some("claude.ai"), "api_key", 0),
            ("login", false, Some("claude.ai"), "claude.ai", 0),
            ("nothing", false, None, "none", 1),
        ];
        for (name, key, login, method, exit) in rows {
            let answer = answer(key, login.map(str::to_owned));
            let body: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
            assert_eq!((body["authMethod"].as_str(), answer.exit), (Some(method), exit), "{name}");
        }
    }
}
