//! The loader as a whole, by the names of the seeds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::sdk::wire::run::ToolClass;
use crate::sys::private::TempDir;

mod broken;

const FILE: &str = "runner.toml";
/// Set to write `config.example.toml` anew from the table of keys.
const UPDATE: &str = "UPDATE_GOLDEN";

fn example() -> String {
    keys::example_file()
}

/// The example with the line of `key` replaced by `key = value` (or by `value` alone when it has a newline).
fn with(key: &str, value: &str) -> String {
    let (section, leaf) = key.split_once('.').unwrap();
    let text = example();
    let start = text.find(&format!("\n[{section}]\n")).unwrap();
    let (head, rest) = text.split_at(start);
    let at = rest.find(&format!("\n{leaf} = ")).unwrap() + 1;
    let end = rest[at..].find("\n\n").or_else(|| rest[at..].rfind('\n')).unwrap() + at;
    format!("{head}{}{leaf} = {value}{}", &rest[..at], &rest[end..])
}

/// Key and code of each fault of a text.
fn faults(text: &str) -> Vec<(String, &'static str)> {
    let faults = parse(text, FILE).err().map_or_else(Vec::new, |faults| faults.0);
    faults.into_iter().map(|fault| (fault.key, fault.problem.code())).collect()
}

fn one_fault(key: &str, value: &str) -> Fault {
    let all = parse(&with(key, value), FILE).unwrap_err().0;
    assert_eq!(all.len(), 1, "{key} = {value}: {all:?}");
    all.into_iter().next().unwrap()
}

#[test]
fn example_file_is_the_key_table_and_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.example.toml");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, example()).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), example());
    let config = parse(&example(), FILE).unwrap();
    assert_eq!(config.runner.server_url, "https://chat.example.com");
    assert_eq!(config.runner.attach_denied_patterns, DEFAULT_DENIED_PATTERNS);
}

#[test]
fn test_config_defaults() {
    let required: String = keys::KEYS
        .iter()
        .filter(|key| key.required)
        .map(|key| format!("{} = {}\n", key.name, key.default))
        .collect();
    let config = parse(&required, FILE).unwrap();
    assert_eq!(config, parse(&example(), FILE).unwrap());
    let runner = &config.runner;
    assert_eq!((runner.tool_class, runner.max_parallel_runs), (ToolClass::Chat, 2));
    assert_eq!((runner.dpop_key_ref.as_ref(), runner.max_budget_usd.as_ref()), (None, None));
    assert_eq!(runner.write_tools, ["Write", "Edit", "NotebookEdit", "Bash"]);
    assert_eq!(runner.stream_line_limit, 64 << 20);
    assert_eq!(runner.poll_interval, Duration::from_millis(200));
    assert_eq!(config.adapter.max_event_age, Duration::from_secs(12 * 60 * 60));
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, log::LevelFilter::Info));
}

#[test]
fn test_config_required_keys() {
    for key in keys::KEYS {
        let (_, leaf) = key.name.split_once('.').unwrap();
        let text = with(key.name, key.default).replace(&format!("\n{leaf} = {}\n", key.default), "\n");
        let expected = if key.required { vec![(key.name.to_owned(), "missing_key")] } else { Vec::new() };
        assert_eq!(faults(&text), expected, "{}", key.name);
    }
    let required = keys::KEYS.iter().filter(|key| key.required).count();
    assert_eq!(parse("", FILE).unwrap_err().0.len(), required);
}

#[test]
fn test_config_unknown_key() {
    let rows = [
        ("\n[runner]\n", "\n[runner]\nprojects_rot = 1\n", "runner.projects_rot"),
        ("\n[log]\n", "\n[log]\nserver_url = 1\n", "log.server_url"),
        ("\n[log]\n", "\n[logs]\nlevel = 1\n[log]\n", "logs"),
        ("\n[runner]\n", "\n[runner]\n\"a b\" = 1\n", "runner.(other name)"),
    ];
    for (from, to, key) in rows {
        let text = example().replace(from, to);
        assert_eq!(faults(&text), [(key.to_owned(), "unknown_key")], "{key}");
    }
    assert_eq!(faults(&format!("extra = 1\n{}", example())), [("extra".to_owned(), "unknown_key")]);
}

#[test]
fn test_config_wrong_type_of_every_key() {
    for key in keys::KEYS {
        for value in ["1979-05-27", "[[1]]", "{ other = { x = 1 } }"] {
            let all = parse(&with(key.name, value), FILE).unwrap_err().0;
            assert!(all.iter().all(|fault| fault.key.starts_with(key.name)), "{} {value} {all:?}", key.name);
            assert_eq!(
                all.first().map(|fault| fault.problem.code()),
                Some("wrong_type"),
                "{} {value}",
                key.name
            );
        }
    }
    assert_eq!(faults("runner = 5\n"), [("runner".to_owned(), "wrong_type")]);
}

#[test]
fn test_config_bad_values() {
    let rows = [
        ("runner.server_url", "\"http://chat.example.com\"", "address_not_https"),
        ("runner.instance_id", "\"1234\"", "bad_uuid"),
        ("runner.agent_token_ref", "\"/run/token\"", "bad_secret_ref"),
        ("runner.agent_token_ref", "\"\"", "empty_value"),
        ("runner.dpop_key_ref", "\"token\"", "bad_secret_ref"),
        ("runner.consumer", "\"a&b\"", "bad_name"),
        ("runner.projects_root", "\"projects\"", "path_not_absolute"),
        ("runner.state_dir", "\"~/state\"", "path_not_absolute"),
        ("runner.claude_bin", "\"./claude\"", "bad_program"),
        ("runner.tool_class", "\"root\"", "unknown_value"),
        ("runner.tool_class", "\"Host\"", "unknown_value"),
        ("runner.max_parallel_runs", "0", "out_of_range"),
        ("runner.max_parallel_runs", "-1", "out_of_range"),
        ("runner.max_parallel_runs", "99999999999999999999999", "out_of_range"),
        ("runner.max_parallel_runs", "\"2\"", "wrong_type"),
        ("runner.stream_line_limit", "\"1B\"", "out_of_range"),
        ("runner.stream_line_limit", "\"99999999999999999999GiB\"", "out_of_range"),
        ("runner.stream_line_limit", "\"64MB\"", "bad_size"),
        ("runner.max_budget_usd", "-5", "bad_amount"),
        ("runner.max_budget_usd", "\"five\"", "bad_amount"),
        ("runner.trusted_projects", "[\"/etc\"]", "bad_workspace_ref"),
        ("runner.trusted_projects", "[\"a/../b\"]", "bad_workspace_ref"),
        ("runner.trusted_projects", "[\"~x\"]", "bad_workspace_ref"),
        ("runner.trusted_projects", "[\"C:x\"]", "bad_workspace_ref"),
        ("runner.trusted_projects", "[\"a\\\\b\"]", "bad_workspace_ref"),
        ("runner.trusted_projects", "[\"-x\"]", "leading_dash"),
        ("runner.trusted_projects", "[\"website\", \"website\"]", "duplicate_entry"),
        ("adapter.invocation_token_leeway", "\"2h\"", "out_of_range"),
        ("sdk.poll_wait", "\"6m\"", "out_of_range"),
        ("sdk.proxy", "\"https://proxy.example.com\"", "bad_proxy"),
        ("sdk.ca_file", "\"roots.pem\"", "path_not_absolute"),
        ("sdk.retry_max_attempts", "0", "out_of_range"),
        ("log.format", "\"xml\"", "unknown_value"),
        ("log.level", "\"off\"", "unknown_value"),
    ];
    for (key, value, code) in rows {
        let fault = one_fault(key, value);
        assert_eq!((fault.key.as_str(), fault.problem.code()), (key, code), "{value}");
    }
}

#[test]
fn test_config_bad_duration() {
    for key in keys::KEYS.iter().filter(|key| values::parse_duration(key.shown_default()).is_ok()) {
        for value in ["\"5\"", "\"5 s\"", "\"1.5h\"", "\"soon\"", "\"-1s\""] {
            assert_eq!(one_fault(key.name, value).problem, Problem::Duration, "{}", key.name);
        }
        for value in ["\"366d\"", "\"99999999999999999999d\""] {
            assert_eq!(one_fault(key.name, value).problem.code(), "out_of_range", "{}", key.name);
        }
    }
    for key in
        ["runner.poll_interval", "runner.turn_time_limit", "sdk.http_timeout", "adapter.heartbeat_interval"]
    {
        assert_eq!(one_fault(key, "\"0s\"").problem.code(), "out_of_range", "{key}");
    }
    for key in ["runner.session_lock_wait", "runner.followup_grace", "adapter.invocation_token_leeway"] {
        assert_eq!(faults(&with(key, "\"0s\"")), [], "{key}");
    }
}

#[test]
fn test_config_tool_and_model_values() {
    for key in ["runner.default_model", "runner.scoped_allowed_tools", "runner.write_tools"] {
        for (value, code) in [
            ("\"\"", "empty_value"),
            ("\"-x\"", "leading_dash"),
            ("\"--dangerously-skip-permissions\"", "leading_dash"),
            ("\"a\\u0000\"", "control_character"),
            ("\"a\\u202e\"", "control_character"),
        ] {
            let value =
                if key.ends_with("model") { value.to_owned() } else { format!("[\"Read\", {value}]") };
            assert_eq!(one_fault(key, &value).problem.code(), code, "{key} {value}");
        }
    }
    assert_eq!(one_fault("runner.scoped_allowed_tools", "[\"Read,Bash\"]").problem, Problem::ToolRule);
    assert_eq!(faults(&with("runner.scoped_allowed_tools", "[\"Read(./**)\", \"Bash(git log *)\"]")), []);
    // Only the name of a rule is compared with these, so anything else would take nothing away (IN-8).
    for value in ["[\"Bash(rm *)\"]", "[\"mcp__*\"]"] {
        assert_eq!(one_fault("runner.write_tools", value).problem, Problem::Name, "{value}");
    }
    assert_eq!(faults(&with("runner.write_tools", "[\"Bash\", \"mcp__files__write\"]")), []);
}

#[test]
fn test_config_turn_env() {
    let good = "{ HTTPS_PROXY = \"http://proxy.example.com\", KEY = { secret = \"env:GATEWAY_KEY\" }, EMPTY = \"\" }";
    let config = parse(&with("runner.turn_env", good), FILE).unwrap();
    let names: Vec<&str> = config.runner.turn_env.keys().map(String::as_str).collect();
    assert_eq!(names, ["EMPTY", "HTTPS_PROXY", "KEY"]);
    assert!(matches!(config.runner.turn_env["KEY"], TurnEnvValue::Secret(_)));
    for (entry, key, code) in [
        ("CLAUDE_CONFIG_DIR = \"/x\"", "CLAUDE_CONFIG_DIR", "refused_variable"),
        ("LD_PRELOAD = \"/x\"", "LD_PRELOAD", "refused_variable"),
        ("IS_SANDBOX = \"1\"", "IS_SANDBOX", "refused_variable"),
        ("CLAUDE_CODE_OAUTH_TOKEN = \"x\"", "CLAUDE_CODE_OAUTH_TOKEN", "refused_variable"),
        ("DISABLE_TELEMETRY = \"\"", "DISABLE_TELEMETRY", "refused_variable"),
        ("1A = \"x\"", "1A", "bad_name"),
        ("A-B = \"x\"", "A-B", "bad_name"),
        ("\"A=B\" = \"x\"", "(other name)", "bad_name"),
        ("A = 5", "A", "wrong_type"),
        ("A = { secret = \"x\" }", "A", "bad_secret_ref"),
        ("A = { secret = \"\" }", "A", "empty_value"),
        ("A = { secret = \"env:B\", more = 1 }", "A", "wrong_type"),
        ("A = { }", "A", "wrong_type"),
        ("A = \"a\\u0000b\"", "A", "control_character"),
    ] {
        let fault = one_fault("runner.turn_env", &format!("{{ {entry} }}"));
        assert_eq!((fault.key, fault.problem.code()), (format!("runner.turn_env.{key}"), code), "{entry}");
    }
}

#[test]
fn test_allowed_roots_config() {
    const KEY: &str = "runner.attach_allowed_roots";
    assert_eq!(parse(&example(), FILE).unwrap().runner.attach_allowed_roots, ROOT_NAMES);
    let subset = parse(&with(KEY, "[\"thread_inbox\"]"), FILE).unwrap();
    assert_eq!(subset.runner.attach_allowed_roots, ["thread_inbox"]);
    assert_eq!(faults(&with(KEY, "[]")), []);
    for (value, code) in [
        ("[\"canary\"]", "unknown_value"),
        ("[\"/canary\"]", "unknown_value"),
        ("[\"project\", \"project\"]", "duplicate_entry"),
        ("\"project\"", "wrong_type"),
    ] {
        let fault = one_fault(KEY, value);
        assert_eq!((fault.key.as_str(), fault.problem.code()), (KEY, code), "{value}");
        assert!(fault.to_string().starts_with(FILE) && !fault.to_string().contains("canary"));
    }
}

#[test]
fn test_denied_patterns_config() {
    const KEY: &str = "runner.attach_denied_patterns";
    let list = |patterns: &[&str]| format!("{patterns:?}");
    let without: Vec<&str> =
        DEFAULT_DENIED_PATTERNS.iter().copied().filter(|pattern| *pattern != ".ssh").collect();
    let fault = one_fault(KEY, &list(&without));
    assert_eq!(fault.problem, Problem::PatternMissing(".ssh"));
    assert!(fault.to_string().contains(KEY) && fault.to_string().ends_with(".ssh"));
    let more = [DEFAULT_DENIED_PATTERNS, &["*.sqlite"]].concat();
    let config = parse(&with(KEY, &list(&more)), FILE).unwrap();
    assert_eq!(config.runner.attach_denied_patterns, more);
    for (pattern, code) in [("a/b", "pattern_slash"), ("", "empty_value"), ("a\u{7}", "control_character")] {
        let bad = [DEFAULT_DENIED_PATTERNS, &[pattern]].concat();
        let value = list(&bad).replace("\\u{7}", "\\u0007");
        assert_eq!(one_fault(KEY, &value).problem.code(), code, "{pattern}");
    }
    assert_eq!(faults(&with(KEY, "[]")).len(), DEFAULT_DENIED_PATTERNS.len());
}

#[test]
fn five_faults_are_reported_at_once_with_key_file_and_line() {
    let text = "[runner]\nserver_url = \"ftp://canary\"\ninstance_id = 7\nmodel = \"canary\"\n\
        stop_grace = \"canary\"\nagent_token_ref = \"env:TOKEN\"\nprojects_root = \"/srv/projects\"\n\
        default_model = \"sonnet\"\n";
    let message = parse(text, FILE).unwrap_err().to_string();
    let starts = [
        "runner.toml:1: runner.state_dir: required key is missing",
        "runner.toml:2: runner.server_url: ",
        "runner.toml:3: runner.instance_id: wrong type",
        "runner.toml:4: runner.model: unknown key",
        "runner.toml:5: runner.stop_grace: not a duration",
    ];
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{message}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(!message.contains("canary"));
}

/// A file in `home` whose projects root and state directory lie there.
fn file_in(home: &TempDir, root: &Path, state: &Path) -> std::path::PathBuf {
    let text = with("runner.projects_root", &format!("{:?}", root.display().to_string()));
    let text = text.replace("\"/var/lib/claude-code-runner\"", &format!("{:?}", state.display().to_string()));
    let path = home.join(FILE);
    fs::write(&path, text).unwrap();
    path
}

fn codes_of(path: &Path) -> Vec<&'static str> {
    let found = load(path).err().map_or_else(Vec::new, |faults| faults.0);
    found.into_iter().map(|fault| fault.problem.code()).collect()
}

#[test]
fn test_config_state_dir_permissions() {
    let home = TempDir::new().unwrap();
    let (root, state) = (home.join("projects"), home.join("var/state"));
    fs::create_dir(&root).unwrap();
    let path = file_in(&home, &root, &state);
    assert_eq!(look(&path).unwrap().runner.state_dir, state);
    assert!(!home.join("var").exists(), "who looks makes nothing");
    assert_eq!(load(&path).unwrap().runner.state_dir, state);
    let mode = fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    for (mode, expected) in [
        (0o700, vec![]),
        (0o750, vec!["directory_open_to_others"]),
        (0o701, vec!["directory_open_to_others"]),
    ] {
        fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
        assert_eq!(codes_of(&path), expected, "{mode:o}");
    }
    let message = load(&path).unwrap_err().to_string();
    assert!(message.contains("runner.state_dir") && message.starts_with(&path.display().to_string()));
    assert!(!message.contains(&state.display().to_string()), "{message}");
}

#[test]
fn test_config_paths() {
    let home = TempDir::new().unwrap();
    let (root, state) = (home.join("projects"), home.join("state"));
    fs::create_dir(&root).unwrap();
    fs::write(home.join("file"), b"").unwrap();
    std::os::unix::fs::symlink(&root, home.join("link")).unwrap();
    let rows = [
        (home.join("link"), state.clone(), vec![]),
        (home.join("absent"), home.join("state2"), vec!["no_directory"]),
        (home.join("file"), home.join("state2"), vec!["no_directory"]),
        (Path::new("/").to_owned(), home.join("state2"), vec!["root_of_all"]),
        (root.clone(), root.clone(), vec!["state_above_projects"]),
        (home.join("link"), root.clone(), vec!["state_above_projects"]),
        (root.clone(), home.path().to_owned(), vec!["state_above_projects"]),
        (root.clone(), root.join("state"), vec!["state_below_projects"]),
        (root.clone(), home.join("link/website/state"), vec!["state_below_projects"]),
        (root.clone(), home.join("file"), vec!["not_a_directory"]),
        (root.clone(), home.join("file/below"), vec!["not_a_directory"]),
    ];
    for (root, state, expected) in rows {
        assert_eq!(codes_of(&file_in(&home, &root, &state)), expected, "{root:?} {state:?}");
    }
    // A file with a fault makes no directory.
    assert!(!home.join("state2").exists());
}

#[test]
fn a_lost_section_or_line_has_no_fault_beside_its_own() {
    let home = TempDir::new().unwrap();
    let path = home.join("config.toml");
    let rows: [(&str, &[&str]); 3] = [
        ("runner = 5\n", &["wrong_type"]),
        ("[[runner]]\nserver_url = \"x\"\n", &["wrong_type"]),
        ("runner = { server_url = \n", &["config_syntax"]),
    ];
    for (text, expected) in rows {
        std::fs::write(&path, text).unwrap();
        assert_eq!(codes_of(&path), expected, "{text}");
    }
}

#[test]
fn test_config_files_that_are_none() {
    let home = TempDir::new().unwrap();
    let path = home.join(FILE);
    assert_eq!(codes_of(&path), ["config_unreadable"]);
    assert_eq!(codes_of(home.path()), ["config_no_file"]);
    let shown = load(&path).unwrap_err().to_string();
    assert_eq!(
        shown,
        format!(
            "{}: the file cannot be read (entity not found); check its path and its permissions",
            path.display()
        )
    );
    nix::unistd::mkfifo(&home.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(codes_of(&home.join("fifo")), ["config_no_file"]);
    fs::write(&path, b"[runner]\n# \xc3\xa4\nserver_url = \"\xff\"\n").unwrap();
    assert_eq!(codes_of(&path), ["config_not_text"]);
    assert!(load(&path).unwrap_err().to_string().starts_with(&format!("{}:3: ", path.display())));
    fs::write(&path, vec![b'#'; FILE_SIZE_LIMIT as usize + 1]).unwrap();
    assert_eq!(codes_of(&path), ["config_too_long"]);
}

#[test]
fn a_configuration_prints_no_secret_and_no_literal() {
    let text = with("runner.turn_env", "{ A = \"canary\", B = { secret = \"env:CANARY\" } }");
    let printed = format!("{:?}", parse(&text, FILE).unwrap());
    assert!(!printed.to_lowercase().contains("canary"));
    assert!(!printed.contains("agent-token"));
}

/// Every value of the example replaced by text that must never be printed.
fn canary_file() -> String {
    let mut text = String::new();
    for line in example().lines() {
        match line.split_once(" = ") {
            Some((key, _)) if !line.starts_with('#') => text.push_str(&format!("{key} = \"c@nary/{key}\"\n")),
            _ if line.starts_with('[') => text.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    text
}

#[test]
fn no_message_holds_a_value() {
    let message = parse(&canary_file(), FILE).unwrap_err().to_string();
    assert!(message.lines().count() > keys::KEYS.len() / 2, "{message}");
    assert!(!message.contains("c@nary"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse(&text, FILE);
    }

    #[test]
    fn arbitrary_toml_like_text_never_panics(text in "[\\[\\]{}=\"'.,a-z0-9#\n\\\\ ]{0,120}") {
        let _ = parse(&format!("[runner]\n{text}"), FILE);
    }

    #[test]
    fn a_mutated_file_never_panics_and_never_prints_a_value(
        at in any::<prop::sample::Index>(),
        length in 0..40_usize,
        insert in "[\\[\\]{}=\"'.,a-z0-9#\n\\\\ \u{0}\u{202e}]{0,8}",
    ) {
        for text in [example(), canary_file()] {
            let letters: Vec<char> = text.chars().collect();
            let begin = at.index(letters.len());
            let end = (begin + length).min(letters.len());
            let mutated: String =
                letters[..begin].iter().copied().chain(insert.chars()).chain(letters[end..].iter().copied()).collect();
            let message = parse(&mutated, FILE).err().map(|faults| faults.to_string()).unwrap_or_default();
            prop_assert!(!message.contains("c@nary") && !message.contains("example.com"));
        }
    }
}
