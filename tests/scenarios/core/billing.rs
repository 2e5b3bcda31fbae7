//! Who pays: the proof before the start, the counter-check at the beginning of the turn.

use claude_code_runner::config::turn_env::FORBIDDEN_TURN_ENV;
use claude_code_runner::sdk::wire::run::{BillingMode, RunState};
use serde_json::{Value, json};

use super::*;
use crate::support::logs;
use crate::support::world::{API_KEY, Setup, World, private_file};

/// Puts a subscription login where the CLI would find it.
fn log_in(world: &World) {
    let directory = world.dir.join("home/.claude");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("fake-login"), "claude.ai").unwrap();
}

/// An answer of `auth status`.
fn auth(stdout: &str, exit: u8) -> Value {
    scenario(json!({"auth": {"stdout": stdout, "exit": exit}}), json!([{"text": "an answer"}]))
}

fn personal(lines: &[&str]) -> Setup {
    Setup { billing: BillingMode::Personal, ..runner_lines(lines) }
}

#[test]
fn br_12_organization_without_key_no_fallback() {
    for (name, reference) in [("empty", ""), ("missing file", "missing"), ("empty file", "empty")] {
        let mut world = World::without_runner(Setup::default());
        log_in(&world);
        private_file(&world.dir.join("empty"), "\n");
        let value = match reference {
            "" => String::new(),
            file => format!("file:{}", world.dir.join(file).display()),
        };
        world.change_setup(|setup| setup.runner.push(format!("anthropic_api_key_ref = \"{value}\"")));
        world.start_runner();
        let (_, run) = world.asks("Hello");
        refused_before_start(&world, run, "runtime_not_authenticated", name);
        assert!(world.claude.captured("auth").is_empty(), "{name}: the CLI is never called");
        assert!(logs::has_code(run, "api_key_missing") || logs::has_code(run, "key_missing"), "{name}");
    }

    let world = World::new();
    log_in(&world);
    world.claude.plays(&auth(r#"{"loggedIn": false, "authMethod": "none"}"#, 1));
    let (_, run) = world.asks("Hello");
    refused_before_start(&world, run, "runtime_not_authenticated", "forced to none");

    let all = FORBIDDEN_TURN_ENV.iter().map(|name| ((*name).to_owned(), "stolen".to_owned()));
    let own = [("CLAUDE_CONFIG_DIR", "/elsewhere"), ("ANTHROPIC_API_KEY", "sk-other")];
    let environment = all.chain(own.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect();
    let world = World::with(Setup { environment, ..Setup::default() });
    log_in(&world);
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let found = world.claude.environment(0);
    let config = world.state().join("claude-config/organization").display().to_string();
    assert_eq!(
        (found["CLAUDE_CONFIG_DIR"].as_str(), found["ANTHROPIC_API_KEY"].as_str()),
        (config.as_str(), API_KEY)
    );
    assert!(FORBIDDEN_TURN_ENV.iter().all(|name| !found.contains_key(*name)));
    assert!(!found.values().any(|value| value.contains("stolen")));
}

#[test]
fn ag_11_br_05_billing_mode_mismatch() {
    let rows = [
        ("claude.ai", r#"{"loggedIn": true, "authMethod": "claude.ai"}"#),
        ("no JSON", "You are logged in\n"),
        ("unknown value", r#"{"authMethod": "tomorrow"}"#),
        ("no member", "{}"),
    ];
    for (name, stdout) in rows {
        let world = World::new();
        world.claude.plays(&auth(stdout, 0));
        let (_, run) = world.asks("Hello");
        refused_before_start(&world, run, "billing_mode_mismatch", name);
    }

    let world = World::with(personal(&[]));
    log_in(&world);
    let (_, run) = world.asks("Hello");
    refused_before_start(&world, run, "billing_mode_mismatch", "personal is not allowed");
    assert!(world.claude.captured("auth").is_empty() && logs::has_code(run, "personal_not_allowed"));

    let world = World::with(personal(&["allow_personal = true"]));
    log_in(&world);
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let body = start_body(&world, run);
    assert_eq!(
        (&body["billing_mode_used"], &body["billing_evidence"]["key_type"]),
        (&json!("personal"), &json!("oauth"))
    );
    let environment = world.claude.environment(0);
    assert!(!environment.contains_key("ANTHROPIC_API_KEY") && !environment.contains_key("CLAUDE_CONFIG_DIR"));
    assert_eq!(environment["HOME"], world.dir.join("home").display().to_string());
}

#[test]
fn br_05_counter_check_aborts_turn() {
    let rows = [("obeys", false, vec!["SIGINT"]), ("ignores", true, vec!["SIGINT", "SIGTERM"])];
    for (name, ignores, signals) in rows {
        let world = World::with(runner_lines(&[r#"stop_grace = "200ms""#, r#"kill_grace = "200ms""#]));
        let members = json!({"key_source": "none", "ignore_sigint": ignores, "ignore_sigterm": ignores});
        world.claude.plays(&scenario(members, json!([{"text": "paid otherwise"}, {"hang": true}])));
        let (thread, run) = world.asks("Hello");
        world.ends_as(run, RunState::Failed, Some("billing_mode_mismatch"));
        let seen = world.claude.captured("signal");
        let seen: Vec<&str> = seen.iter().filter_map(|signal| signal["name"].as_str()).collect();
        assert_eq!(seen, signals, "{name}");
        assert_eq!(world.claude.captured("end").is_empty(), ignores, "{name}");
        no_group_left(&world);
        assert!(!world.answer_texts(thread).concat().contains("paid otherwise"), "{name}");
        assert_eq!(world.hooks.count("reportAgentSession"), 0, "{name}");
        assert!(logs::has_code(run, "counter_check_mismatch"), "{name}");
    }
}

/// C4-01: a key of the service's environment, of the project's `.env` or of user settings never pays for a
/// subscription's run.
#[test]
fn c4_01_a_stray_key_never_pays() {
    let setup = Setup {
        environment: vec![("ANTHROPIC_API_KEY".into(), "sk-example-1".into())],
        ..personal(&["allow_personal = true"])
    };
    let world = World::with(setup);
    log_in(&world);
    std::fs::write(world.project().join(".env"), "ANTHROPIC_API_KEY=sk-example-2\n").unwrap();
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert!(!world.claude.environment(0).values().any(|value| value.contains("sk-example")));

    // What the CLI finds by itself, for example in user settings, the beginning of its stream shows.
    let members = json!({"key_source": "ANTHROPIC_API_KEY"});
    world.claude.plays(&scenario(members, json!([{"text": "paid by the key"}, {"hang": true}])));
    let (thread, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("billing_mode_mismatch"));
    assert!(!world.answer_texts(thread).concat().contains("paid by the key"));
}

/// C4-03 and R-18: turns of one login run one after the other.
#[test]
fn c4_03_personal_turns_never_overlap() {
    let world = World::with(personal(&["allow_personal = true", "max_parallel_runs = 6"]));
    log_in(&world);
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up"}, {"hold": "go"}]}}, {"text": "done"}]));
    let runs: Vec<_> = (0..6).map(|_| world.asks("Hello").1).collect();
    reached(&world, "up");
    assert_eq!(pids(&world).len(), 1);
    world.claude.release("go");
    for run in runs {
        world.ends_as(run, RunState::Completed, None);
    }
    let calls = world.claude.captures();
    let mut alive = 0;
    for call in calls {
        alive += match call["kind"].as_str() {
            Some("turn") => 1,
            Some("end") => -1,
            _ => 0,
        };
        assert!(alive <= 1, "two turns of one login at once");
    }
}

/// C4-07: proxy and certificates reach the turn when the operator names them, and no log line holds their values.
#[test]
fn c4_07_proxy_variables_can_be_added() {
    let proxy = "http://user:proxy-password-1@proxy.example.com:3128";
    let line = format!(
        "turn_env = {{ HTTPS_PROXY = \"{proxy}\", NO_PROXY = \"127.0.0.1\", NODE_EXTRA_CA_CERTS = \"/etc/ca.pem\" }}"
    );
    let setup = Setup {
        environment: vec![("HTTPS_PROXY".into(), "http://other.example.com".into())],
        ..runner_lines(&[&line])
    };
    let world = World::with(setup);
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let found = world.claude.environment(0);
    assert_eq!((found["HTTPS_PROXY"].as_str(), found["NO_PROXY"].as_str()), (proxy, "127.0.0.1"));
    assert_eq!(world.claude.captured("auth")[0]["env"]["HTTPS_PROXY"], proxy, "also for auth status");
    assert!(logs::all().iter().all(|line| !line.contains("proxy-password-1")));
}

/// C4-09: a CLI that hangs before the turn is ended at `runner.cli_probe_timeout`, and nothing starts.
#[test]
fn c4_09_a_hanging_check_ends() {
    let world = World::with(runner_lines(&[r#"cli_probe_timeout = "300ms""#]));
    world.claude.plays(&scenario(json!({"auth": {"hang": true}}), json!([{"text": "an answer"}])));
    let (_, run) = world.asks("Hello");
    refused_before_start(&world, run, "billing_mode_mismatch", "a hanging check");
}
