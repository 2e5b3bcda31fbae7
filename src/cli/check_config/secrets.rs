//! Every secret reference resolves. What it resolves to is looked at by nobody.

use super::report::Check;
use crate::config::{Config, SecretRef, TurnEnvValue};
use crate::run::client_settings;
use crate::sdk::client::Client;

/// One check for each reference, and whether a client can be made of them.
pub fn checks(config: &Config) -> Vec<Check> {
    let mut checks: Vec<_> =
        references(config).iter().map(|(key, reference)| resolve(key, reference)).collect();
    checks.push(match Client::new(client_settings(config)) {
        Ok(_) => Check::ok("client_ready", "a client for runner.server_url can be made"),
        Err(fault) => Check::fail(
            "client_unusable",
            format!("no client for runner.server_url: {fault}; check sdk.proxy and sdk.ca_file"),
        ),
    });
    checks
}

/// Every secret reference with its key.
fn references(config: &Config) -> Vec<(String, &SecretRef)> {
    let runner = &config.runner;
    let mut all = vec![("runner.agent_token_ref".to_owned(), &runner.agent_token_ref)];
    all.extend(runner.dpop_key_ref.iter().map(|it| ("runner.dpop_key_ref".to_owned(), it)));
    all.extend(runner.anthropic_api_key_ref.iter().map(|it| ("runner.anthropic_api_key_ref".to_owned(), it)));
    all.extend(runner.turn_env.iter().filter_map(|(name, value)| match value {
        TurnEnvValue::Secret(reference) => Some((format!("runner.turn_env.{name}"), reference)),
        TurnEnvValue::Literal(_) => None,
    }));
    all
}

fn resolve(key: &str, reference: &SecretRef) -> Check {
    match reference.read() {
        Ok(_) => Check::ok("secret_readable", format!("{key} resolves")),
        Err(fault) => Check::fail(fault.code(), format!("{key}: {fault}")),
    }
}
