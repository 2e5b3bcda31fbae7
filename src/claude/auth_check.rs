//! Who pays for a turn: read from `claude auth status` before the start, compared with the turn's first lines.
//!
//! It must not start a turn and never sees a key; the runtime names the kind of its credential and nothing else
//! (M2-34 notes 8 and 13, R-1).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::sdk::wire::run::{BillingEvidence, BillingMode};
use crate::sys::process::{ProbeOutput, run_probe};

/// The finish reason when the runtime has no credential at all.
pub const REASON_NOT_AUTHENTICATED: &str = "runtime_not_authenticated";

/// The finish reason when the payer is another one, or unknown.
pub const REASON_MISMATCH: &str = "billing_mode_mismatch";

/// `authMethod` of `auth status`, a closed set (measured on the pinned version).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// No credential.
    None,
    /// A key in the environment.
    ApiKey,
    /// A program in the settings that prints a key.
    ApiKeyHelper,
    /// The stored login.
    ClaudeAi,
    /// A token in the environment.
    OauthToken,
    /// A cloud provider.
    ThirdParty,
    /// Anything that could not be read.
    Unknown,
}

/// What the pre-check allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The start, with the proof for `startRun`.
    Start(BillingEvidence),
    /// No start; the run ends `failed` with this reason.
    Refuse(&'static str),
}

/// Reads the answer of `auth status`: one JSON object with `authMethod`. Everything else is `Unknown`.
///
/// The exit code says nothing, because a missing login exits non-zero with a readable answer.
pub fn parse(stdout: &[u8]) -> AuthMethod {
    let Ok(status) = serde_json::from_slice::<Map<String, Value>>(stdout) else { return AuthMethod::Unknown };
    match status.get("authMethod").and_then(Value::as_str).unwrap_or_default() {
        "none" => AuthMethod::None,
        "api_key" => AuthMethod::ApiKey,
        "api_key_helper" => AuthMethod::ApiKeyHelper,
        "claude.ai" => AuthMethod::ClaudeAi,
        "oauth_token" => AuthMethod::OauthToken,
        "third_party" => AuthMethod::ThirdParty,
        _ => AuthMethod::Unknown,
    }
}

/// The table of M2-34 note 8: the wanted payer against the found one.
pub fn decide(wanted: BillingMode, found: AuthMethod) -> Decision {
    match (wanted, found) {
        (BillingMode::Organization, AuthMethod::ApiKey) => Decision::Start(evidence(found)),
        (BillingMode::Personal, AuthMethod::ClaudeAi | AuthMethod::OauthToken) => {
            Decision::Start(evidence(found))
        }
        (_, AuthMethod::None) => Decision::Refuse(REASON_NOT_AUTHENTICATED),
        _ => Decision::Refuse(REASON_MISMATCH),
    }
}

/// The `key_type` of a method (M2-34 note 8).
pub fn key_type(found: AuthMethod) -> &'static str {
    match found {
        AuthMethod::ApiKey | AuthMethod::ApiKeyHelper => "api_key",
        AuthMethod::ClaudeAi | AuthMethod::OauthToken => "oauth",
        AuthMethod::ThirdParty => "cloud",
        AuthMethod::None => "none",
        AuthMethod::Unknown => "unknown",
    }
}

/// `apiKeySource` that the turn's init line must name; anything else stops the turn (M2-34 note 13).
pub fn expected_key_source(mode: BillingMode) -> &'static str {
    match mode {
        BillingMode::Organization => "ANTHROPIC_API_KEY",
        BillingMode::Personal => "none",
    }
}

/// The arguments of the pre-check. `sources` are the turn's setting sources; none, where the turn is restricted,
/// reads no settings (R-1).
pub fn args(sources: Option<&str>) -> Vec<OsString> {
    ["--setting-sources", sources.unwrap_or(""), "auth", "status"].map(OsString::from).to_vec()
}

/// Asks the runtime through `run`, which gets the arguments and gives the answer's stdout, or nothing when the
/// program did not start or passed `runner.cli_probe_timeout`.
pub fn probe(sources: Option<&str>, run: impl FnOnce(Vec<OsString>) -> Option<Vec<u8>>) -> AuthMethod {
    run(args(sources)).map_or(AuthMethod::Unknown, |stdout| parse(&stdout))
}

/// [`probe`] with a real program: `program` in the run's environment and directory, at most `limit` long.
pub fn probe_program(
    program: &Path,
    sources: Option<&str>,
    env: &[(OsString, OsString)],
    cwd: &Path,
    limit: Duration,
) -> AuthMethod {
    // An answer cut off by the limit is no answer, even when what came of it can be read.
    let finished = |output: ProbeOutput| output.exit.is_some().then_some(output.stdout);
    probe(sources, |args| run_probe(program, &args, env, cwd, limit).ok().and_then(finished))
}

fn evidence(found: AuthMethod) -> BillingEvidence {
    BillingEvidence {
        provider: "anthropic".to_owned(),
        key_type: key_type(found).to_owned(),
        method: "claude_auth_status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AuthMethod::*;

    #[test]
    fn parse_reads_the_method_and_nothing_else() {
        let rows: &[(&str, &[u8], AuthMethod)] = &[
            ("none", br#"{"loggedIn": false, "authMethod": "none"}"#, None),
            ("key", b"{\n  \"loggedIn\": true,\n  \"authMethod\": \"api_key\",\n  \"apiProvider\": \"firstParty\"\n}\n", ApiKey),
            ("helper", br#"{"authMethod":"api_key_helper","apiKeySource":"ANTHROPIC_API_KEY"}"#, ApiKeyHelper),
            ("login", br#"{"authMethod":"claude.ai"}"#, ClaudeAi),
            ("token", br#"{"authMethod":"oauth_token"}"#, OauthToken),
            ("cloud", br#"{"authMethod":"third_party"}"#, ThirdParty),
            ("new value", br#"{"authMethod":"passkey"}"#, Unknown),
            ("missing member", br#"{"loggedIn":true}"#, Unknown),
            ("wrong type", br#"{"authMethod":true}"#, Unknown),
            ("no JSON", b"API key: ANTHROPIC_API_KEY", Unknown),
            ("two objects", br#"{"authMethod":"api_key"}{"authMethod":"none"}"#, Unknown),
            ("array", br#"["api_key"]"#, Unknown),
            ("nothing", b"", Unknown),
            ("not UTF-8", b"{\"authMethod\":\"api_key\xff\"}", Unknown),
        ];
        for (name, stdout, expected) in rows {
            assert_eq!(parse(stdout), *expected, "{name}");
        }
    }

    #[test]
    fn decision_table() {
        let mismatch = Some(REASON_MISMATCH);
        let rows = [
            (ApiKey, "api_key", Option::None, mismatch),
            (ClaudeAi, "oauth", mismatch, Option::None),
            (OauthToken, "oauth", mismatch, Option::None),
            (ApiKeyHelper, "api_key", mismatch, mismatch),
            (ThirdParty, "cloud", mismatch, mismatch),
            (Unknown, "unknown", mismatch, mismatch),
            (None, "none", Some(REASON_NOT_AUTHENTICATED), Some(REASON_NOT_AUTHENTICATED)),
        ];
        for (found, kind, organization, personal) in rows {
            assert_eq!(key_type(found), kind, "{found:?}");
            for (mode, refusal) in
                [(BillingMode::Organization, organization), (BillingMode::Personal, personal)]
            {
                let expected = refusal.map_or_else(|| Decision::Start(evidence(found)), Decision::Refuse);
                assert_eq!(decide(mode, found), expected, "{mode:?} {found:?}");
            }
        }
    }

    #[test]
    fn evidence_is_the_contract_shape() {
        let decision = decide(BillingMode::Organization, ApiKey);
        let Decision::Start(proof) = decision else { panic!("an API key proves organization") };
        let value = serde_json::to_value(proof).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"provider": "anthropic", "key_type": "api_key", "method": "claude_auth_status"})
        );
    }

    #[test]
    fn counter_check_source() {
        assert_eq!(expected_key_source(BillingMode::Organization), "ANTHROPIC_API_KEY");
        assert_eq!(expected_key_source(BillingMode::Personal), "none");
    }

    #[test]
    fn probe_names_the_sources_and_survives_a_dead_program() {
        for (sources, word) in [
            (Option::None, ""),
            (Some(""), ""),
            (Some("user"), "user"),
            (Some("user,project"), "user,project"),
        ] {
            let found = probe(sources, |args| {
                assert_eq!(args, ["--setting-sources", word, "auth", "status"]);
                Some(br#"{"authMethod":"api_key"}"#.to_vec())
            });
            assert_eq!(found, ApiKey);
        }
        assert_eq!(probe(Option::None, |_| Option::None), Unknown);
    }

    #[test]
    fn probe_program_reads_a_refusing_exit_too() {
        let dir = std::env::temp_dir().join(format!("auth-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&dir).unwrap();
        let program = dir.join("claude");
        std::fs::write(&program, "#!/bin/sh\nprintf '{\"authMethod\":\"%s\"}' \"$FOUND\"\nexit 1\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let env = [("FOUND".into(), "none".into())];
        let limit = Duration::from_secs(30);
        assert_eq!(probe_program(&program, Some(""), &env, &dir, limit), None);
        assert_eq!(probe_program(&dir.join("missing"), Some(""), &env, &dir, limit), Unknown);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
