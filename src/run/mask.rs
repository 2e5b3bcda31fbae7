//! Known secrets are masked by exact match before anything the runner writes, sends or logs is cut.

use std::borrow::Cow;

use super::shared::Shared;
use crate::config::TurnEnvValue;
use crate::sdk::bound::TokenCell;

/// What stands in place of a secret.
pub const MASKED: &str = "[redacted]";

/// Shorter values are no secrets worth masking: they would blank ordinary words.
const MIN_SECRET_LEN: usize = 8;

/// The secrets known to one run.
#[derive(Clone, Default)]
pub struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// The secrets of the configuration, read now, and the run's tokens.
    pub fn of(shared: &Shared, token: &TokenCell) -> Mask {
        let runner = &shared.config.runner;
        let mut mask = Mask::default();
        let refs = [
            Some(&runner.agent_token_ref),
            runner.dpop_key_ref.as_ref(),
            runner.anthropic_api_key_ref.as_ref(),
        ];
        let in_turn_env = runner.turn_env.values().filter_map(|value| match value {
            TurnEnvValue::Secret(secret) => Some(secret),
            TurnEnvValue::Literal(_) => None,
        });
        for secret in refs.into_iter().flatten().chain(in_turn_env) {
            // One that cannot be read cannot be in any text either.
            if let Ok(secret) = secret.read() {
                mask.add(secret.expose());
            }
        }
        mask.add(&token.newest());
        mask
    }

    /// One more secret.
    pub fn add(&mut self, secret: &str) {
        if secret.len() >= MIN_SECRET_LEN && !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_owned());
            // The longest first, so that a secret that holds another one goes as a whole.
            self.secrets.sort_by_key(|known| std::cmp::Reverse(known.len()));
        }
    }

    /// `text` with every known secret replaced.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in &self.secrets {
            if masked.contains(secret.as_str()) {
                masked = Cow::Owned(masked.replace(secret.as_str(), MASKED));
            }
        }
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_go_and_nothing_else_does() {
        let mut mask = Mask::default();
        for secret in ["canary-key-0001", "canary-key-0001-long", "short"] {
            mask.add(secret);
        }
        let rows = [
            ("no secret", "no secret"),
            ("a canary-key-0001 b canary-key-0001", "a [redacted] b [redacted]"),
            ("canary-key-0001-long", "[redacted]"),
            ("short stays", "short stays"),
        ];
        for (text, expected) in rows {
            assert_eq!(mask.apply(text), expected);
        }
    }
}
