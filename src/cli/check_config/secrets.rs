//! Every secret reference resolves, to something of its kind. Nothing of it is ever shown.

use super::report::Check;
use crate::config::{Config, SecretRef, TurnEnvValue};
use crate::run::client_settings;
use crate::sdk::client::Client;
use crate::sdk::jws::DpopKey;

/// What a secret has to be.
enum Kind {
    /// A token or key that travels as one word.
    Token,
    /// A private key of the agent.
    DpopKey,
    /// Any text.
    Text,
}

/// One check for each reference, and whether a client can be made of them.
pub fn checks(config: &Config) -> Vec<Check> {
    let resolved =
        references(config).into_iter().map(|(key, kind, reference)| resolve(&key, kind, reference));
    let mut checks: Vec<_> = resolved.collect();
    checks.push(match Client::new(client_settings(config)).and_then(|client| client.check_roots()) {
        Ok(()) => Check::ok("client_ready", "a client for runner.server_url can be made"),
        Err(fault) => Check::fail(
            "client_unusable",
            format!("no client for runner.server_url: {fault}; check sdk.proxy and sdk.ca_file"),
        ),
    });
    checks
}

/// Every secret reference with its key.
fn references(config: &Config) -> Vec<(String, Kind, &SecretRef)> {
    let runner = &config.runner;
    let own = |name: &str| format!("runner.{name}");
    let mut all = vec![(own("agent_token_ref"), Kind::Token, &runner.agent_token_ref)];
    all.extend(runner.dpop_key_ref.iter().map(|it| (own("dpop_key_ref"), Kind::DpopKey, it)));
    all.extend(runner.anthropic_api_key_ref.iter().map(|it| (own("anthropic_api_key_ref"), Kind::Token, it)));
    all.extend(runner.turn_env.iter().filter_map(|(name, value)| match value {
        TurnEnvValue::Secret(reference) => Some((format!("runner.turn_env.{name}"), Kind::Text, reference)),
        TurnEnvValue::Literal(_) => None,
    }));
    all
}

fn resolve(key: &str, kind: Kind, reference: &SecretRef) -> Check {
    let read = match kind {
        Kind::Token => reference.read_token(),
        Kind::DpopKey | Kind::Text => reference.read(),
    };
    match (read, kind) {
        (Err(fault), _) => Check::fail(fault.code(), format!("{key}: {fault}")),
        (Ok(secret), Kind::DpopKey) if DpopKey::from_pem(secret.expose()).is_err() => Check::fail(
            "dpop_key_unusable",
            format!("{key}: this is no P-256 key as PKCS#8 PEM; make one as the server says"),
        ),
        (Ok(_), _) => Check::ok("secret_readable", format!("{key} resolves")),
    }
}
