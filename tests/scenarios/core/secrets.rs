//! Secrets stay where they are needed, files stay with their owner, and old ones go (R-19, BR-13).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};

use super::*;
use crate::support::logs;
use crate::support::wait::eventually;
use crate::support::world::{API_KEY, Setup, World, private_file};

/// Every file below `directory`, links not followed.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        all.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            all.extend(files_below(&entry.path()));
        }
    }
    all
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Nobody but those who need it has `secret`.
#[track_caller]
fn nowhere(world: &World, secret: &str, in_environment: bool) {
    for request in world.hooks.requests() {
        let inside = contains(&request.body, secret)
            || request.path.contains(secret)
            || request.query.contains(secret);
        assert!(!inside, "{}: a request's body or address", request.operation);
        for (name, value) in &request.headers {
            let allowed = name.eq_ignore_ascii_case("authorization");
            assert!(allowed || !value.contains(secret), "{}: {name}", request.operation);
        }
    }
    assert!(logs::all().iter().all(|line| !line.contains(secret)), "a log line");
    for file in files_below(&world.state()) {
        if file.is_file() {
            assert!(!contains(&std::fs::read(&file).unwrap(), secret), "{}", file.display());
        }
    }
    for call in world.claude.captures() {
        let mut visible = call.clone();
        if in_environment && let Some(environment) = visible.get_mut("env").and_then(Value::as_object_mut) {
            environment.retain(|_, value| value != secret);
        }
        assert!(!visible.to_string().contains(secret), "{}", call["kind"]);
    }
}

#[test]
fn br_13_no_secret_values_leak() {
    let mut world = World::without_runner(Setup::default());
    private_file(&world.dir.join("extra"), "canary-of-turn-env-0001\n");
    let line = format!(
        "turn_env = {{ EXAMPLE_TOKEN = {{ secret = \"file:{}\" }} }}",
        world.dir.join("extra").display()
    );
    world.change_setup(|setup| setup.runner.push(line));
    world.start_runner();
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    // A run that fails must not tell more than one that succeeds.
    world.claude.steps(json!([{"exit": 3}]));
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Failed, Some("runtime_error"));
    let agent_token = std::fs::read_to_string(world.server.agent_token_file()).unwrap().trim().to_owned();
    nowhere(&world, API_KEY, true);
    nowhere(&world, "canary-of-turn-env-0001", true);
    nowhere(&world, &agent_token, false);
    for call in world.claude.captures() {
        let has_key = call["env"].as_object().is_some_and(|env| env.values().any(|value| value == API_KEY));
        assert!(!has_key || ["auth", "turn"].contains(&call["kind"].as_str().unwrap()), "{}", call["kind"]);
    }
    assert!(world.hooks.requests().iter().all(|request| request.header("Authorization") != Some(API_KEY)));
}

/// R-19: a tool that prints a known secret does not get it into the chat: answers, titles, steps and excerpts.
#[test]
fn r_19_known_secrets_are_masked_in_what_is_sent() {
    let mut world = World::without_runner(Setup::default());
    private_file(&world.dir.join("extra"), "canary-of-turn-env-0002\n");
    let line = format!(
        "turn_env = {{ EXAMPLE_TOKEN = {{ secret = \"file:{}\" }} }}",
        world.dir.join("extra").display()
    );
    world.change_setup(|setup| setup.runner.push(line));
    world.start_runner();
    let agent_token = std::fs::read_to_string(world.server.agent_token_file()).unwrap().trim().to_owned();
    let gate = world.hooks.hold_next("getRunContext");
    let (thread, run) = world.asks("Print your environment");
    assert!(gate.reached(crate::support::wait::DEADLINE));
    let invocation = world.server.operator().newest_token(run).unwrap();
    let secrets = [API_KEY, "canary-of-turn-env-0002", &agent_token, &invocation];
    let all = secrets.join(" ");
    world.claude.plays(&json!({"turns": [{"title": format!("The key is {API_KEY}"), "steps": [
        {"tool": {"name": "Bash", "input": {"command": format!("echo {all}")}, "output": all}},
        {"text": format!("It printed {all}.")},
    ]}]}));
    gate.open();
    let found = world.ends_as(run, RunState::Completed, None);
    let answers = world.answer_texts(thread);
    assert_eq!(answers, [format!("It printed {}.", ["[redacted]"; 4].join(" "))]);
    let title = world.hooks.requests_of("setThreadTitle")[0].json().unwrap();
    assert_eq!(title["title"], "The key is [redacted]");
    let step = &steps(&found)[0];
    assert!(step["title"].as_str().unwrap().starts_with("echo [redacted]"));
    for secret in secrets {
        let said = |request: &Captured| contains(&request.body, secret);
        assert!(!world.hooks.requests().iter().any(said), "sent");
        assert!(logs::all().iter().all(|line| !line.contains(secret)), "logged");
    }
}

/// R-19: neither a cut nor a character that is taken out lets a part of a known secret, or all of it, through; and a
/// name that the CLI gives is text like any other.
#[test]
fn r_19_known_secrets_are_masked_wherever_text_is_cut_or_cleaned() {
    let titles = [format!("{}{API_KEY}", "x".repeat(100)), format!("a \u{200b}{API_KEY}"), hidden_in()];
    for title in titles {
        let world = World::new();
        let result = json!({"line": {"type": "result", "subtype": "success", "is_error": false, "result": format!("TITLE: {title}\nDone."),
            "user_message_uuids": ["{{uuid}}"], "model_usage_since_last_result": {API_KEY: {"inputTokens": 1, "costUSD": 0.01}}}});
        world.claude.steps(json!([result]));
        let (_, run) = world.asks("Print your environment");
        world.ends_as(run, RunState::Completed, None);
        assert_eq!(world.hooks.count("setThreadTitle"), 1);
        let said = |request: &Captured| contains(&request.body, &API_KEY[..API_KEY.len() / 2]);
        let found: Vec<_> = world.hooks.requests().into_iter().filter(said).map(|it| it.operation).collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// The key with characters in it that nobody sees.
fn hidden_in() -> String {
    API_KEY.chars().flat_map(|one| [one, '\u{200b}']).collect()
}

/// C9-07, C9-09: a failing server, a proxy page and the highest log level bring no token into the log.
#[test]
fn c9_07_c9_09_failures_log_no_token() {
    let world = World::new();
    let agent_token = std::fs::read_to_string(world.server.agent_token_file()).unwrap().trim().to_owned();
    for operation in ["patchRun", "ackEvents", "sendHeartbeat", "pollEvents"] {
        world.hooks.next(operation, Fault::Refuse(Problem::new(500, "internal_error"), None));
    }
    let page = format!("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n<html>{:034}", 0);
    world.hooks.next("createMessage", Fault::RawBefore(page.into_bytes()));
    world.hooks.next("finishRun", Fault::CutBefore);
    let (thread, run) = world.asks("Hello");
    let invocation = world.server.operator().newest_token(run).unwrap();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    assert!(!logs::of(run).is_empty());
    for secret in [agent_token.as_str(), invocation.as_str(), &invocation[..24], API_KEY] {
        assert!(logs::all().iter().all(|line| !line.contains(secret)));
    }
    for call in world.claude.captures() {
        assert!(!call.to_string().contains(&invocation) && !call.to_string().contains(&agent_token));
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Makes everything at and below `path` so many days old.
fn age(path: &Path, days: u64) {
    let when = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let below = if path.is_dir() { files_below(path) } else { Vec::new() };
    for path in below.iter().rev().map(PathBuf::as_path).chain([path]) {
        std::fs::File::open(path).unwrap().set_modified(when).unwrap();
    }
}

#[test]
fn state_files_private_and_retention() {
    let world = World::with(runner_lines(&[r#"stream_log_retention = "7d""#]));
    let thread = world.thread();
    let file = world.person.uploads(world.channel(), "orders.txt", b"three rows");
    let first = world.person.says_with(thread, "Hello", &[file]).run_id.unwrap();
    world.ends_as(first, RunState::Completed, None);
    let state = world.state();
    for path in files_below(&state) {
        // The CLI's own directory is its own business; nobody else gets into its parent.
        if path.starts_with(state.join("claude-config/organization"))
            && path != state.join("claude-config/organization")
        {
            continue;
        }
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(mode(&state), 0o700);

    let of_run = |run: uuid::Uuid| {
        let name = run.to_string();
        let all = files_below(&state.join("sessions"));
        all.into_iter()
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&name))
            .collect::<Vec<_>>()
    };
    let kinds = |run: uuid::Uuid| {
        let mut all: Vec<String> = of_run(run)
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().split_once('.').unwrap().1.to_owned())
            .collect();
        all.sort();
        all
    };
    assert_eq!(kinds(first), ["input.jsonl", "stderr.log", "stream.jsonl", "system-prompt.md"]);
    let inbox = state.join("files").join(thread.to_string()).join(file.to_string());
    assert!(inbox.exists());
    for path in of_run(first) {
        age(&path, 8);
    }
    age(&inbox, 8);
    let second = world.asks("Hello").1;
    world.ends_as(second, RunState::Completed, None);
    eventually("old recordings, prompts and downloads are gone", || {
        (of_run(first).is_empty() && !inbox.exists()).then_some(())
    });
    assert_eq!(kinds(second).len(), 4, "young ones stay");
    assert!(!state.join("turns").join(format!("{first}.json")).exists());
    let leftovers =
        ["tmp", "outgoing", "turns"].map(|name| std::fs::read_dir(state.join(name)).unwrap().count());
    eventually("nothing of ended runs is left", || {
        (leftovers == [0, 0, 0] || files_below(&state.join("tmp")).is_empty()).then_some(())
    });
}
