//! Known secrets are masked by exact match before anything the runner writes, sends or logs is cut.
//!
//! What a run sends is masked with the secrets of that run. The log is one for the process, so every secret that
//! any run knew is kept here for it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::shared::Shared;
use crate::config::{Config, TurnEnvValue};
use crate::sdk::bound::TokenCell;

/// What stands in place of a secret.
pub const MASKED: &str = "[redacted]";

/// Shorter values are no secrets worth masking: they would blank ordinary words and numbers.
const MIN_SECRET_LEN: usize = 4;

/// Most secrets kept for the log. Invocation tokens come and go; the lasting ones come anew with each run.
const MAX_KEPT: usize = 256;

/// Every secret that was known to this process, the newest last.
static KEPT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// `text` with every secret replaced that this process knows; for the log only.
pub fn apply_kept(text: &str) -> Cow<'_, str> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found: Vec<&str> =
        kept.iter().map(String::as_str).filter(|secret| text.contains(secret)).collect();
    found.sort_by_key(longest_first);
    found.into_iter().fold(Cow::Borrowed(text), |masked, secret| masked.replace(secret, MASKED).into())
}

/// A secret that holds another one goes as a whole.
fn longest_first(secret: &impl AsRef<str>) -> Reverse<usize> {
    Reverse(secret.as_ref().len())
}

fn keep(secret: &str) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|known| known != secret);
    kept.push_back(secret.to_owned());
    if kept.len() > MAX_KEPT {
        kept.pop_front();
    }
}

/// The secrets known to one run.
#[derive(Clone, Default)]
pub struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// The secrets of the configuration, read now, and the run's tokens.
    pub fn of(shared: &Shared, token: &TokenCell) -> Mask {
        let mut mask = Mask::of_config(&shared.config);
        mask.add(&token.newest());
        mask
    }

    /// The secrets of the configuration, read now.
    pub fn of_config(config: &Config) -> Mask {
        let runner = &config.runner;
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
        mask
    }

    /// One more secret.
    pub fn add(&mut self, secret: &str) {
        if secret.len() >= MIN_SECRET_LEN && !self.secrets.iter().any(|known| known == secret) {
            keep(secret);
            self.secrets.push(secret.to_owned());
            self.secrets.sort_by_key(longest_first);
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
        for secret in ["canary-key-0001", "canary-key-0001-long", "abc123", "abc"] {
            mask.add(secret);
        }
        let rows = [
            ("no secret", "no secret"),
            ("a canary-key-0001 b canary-key-0001", "a [redacted] b [redacted]"),
            ("canary-key-0001-long", "[redacted]"),
            ("EXAMPLE_TOKEN=abc123", "EXAMPLE_TOKEN=[redacted]"),
            ("abc stays", "abc stays"),
        ];
        for (text, expected) in rows {
            assert_eq!(mask.apply(text), expected);
        }
    }

    #[test]
    fn the_log_knows_the_newest_secrets_of_the_process() {
        let mut mask = Mask::default();
        mask.add("canary-of-the-log-0001");
        assert_eq!(apply_kept("code=x error=canary-of-the-log-0001"), "code=x error=[redacted]");
        assert_eq!(apply_kept("code=x"), "code=x");
        mask.add("canary-of-the-log-0001-and-more");
        assert_eq!(apply_kept("error=canary-of-the-log-0001-and-more"), "error=[redacted]");
        for number in 0..MAX_KEPT * 2 {
            keep(&format!("canary-number-{number:06}"));
        }
        assert!(KEPT.lock().unwrap().len() <= MAX_KEPT);
        let last = format!("canary-number-{:06}", MAX_KEPT * 2 - 1);
        assert_eq!(apply_kept(&last), MASKED);
    }
}
