//! Whole checks against temporary configurations.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::report::Status;
use super::*;
use crate::sys::private::TempDir;

/// A configuration with the required keys and these lines in section `runner`.
pub fn example(lines: &str) -> Config {
    config::parse(&text(Path::new("/srv"), lines), "config.toml").unwrap()
}

fn text(top: &Path, lines: &str) -> String {
    let top = top.display();
    format!(
        "[runner]\nserver_url = \"http://127.0.0.1:9\"\ninstance_id = \"00000000-0000-7000-8000-000000000001\"\n\
         agent_token_ref = \"file:{top}/token\"\nprojects_root = \"{top}/projects\"\nstate_dir = \"{top}/state\"\n\
         default_model = \"sonnet\"\n{lines}"
    )
}

/// A directory with projects, token and a program that answers as the CLI does.
fn furnished(lines: &str) -> TempDir {
    let top = TempDir::new().unwrap();
    fs::create_dir(top.join("projects")).unwrap();
    for (name, text, mode) in [
        ("token", "made-up-token", 0o600),
        ("key", "made-up-key", 0o600),
        (
            "claude",
            "#!/bin/sh\ncase \"$*\" in *auth*) echo '{\"authMethod\":\"api_key\"}' ;; *) echo '2.1.332 (Claude Code)' ;; esac\n",
            0o700,
        ),
    ] {
        fs::write(top.join(name), text).unwrap();
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let lines = lines.replace("TOP", &top.path().display().to_string());
    fs::write(top.join("config.toml"), self::text(top.path(), &lines)).unwrap();
    top
}

fn environment(top: &TempDir) -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), top.path().into())]
}

fn fails(top: &TempDir) -> Vec<&'static str> {
    let config = config::look(&top.join("config.toml")).unwrap();
    let checks = offline(&config, &environment(top));
    checks.iter().filter(|check| check.status == Status::Fail).map(|check| check.code).collect()
}

const GOOD: &str = "claude_bin = \"TOP/claude\"\nanthropic_api_key_ref = \"file:TOP/key\"\n";

#[test]
fn a_good_configuration_has_no_fail_and_shows_no_secret() {
    let top = furnished(GOOD);
    assert_eq!(fails(&top), [""; 0]);
    let config = config::look(&top.join("config.toml")).unwrap();
    let checks = offline(&config, &environment(&top));
    assert!(checks.iter().any(|check| check.code == "organization_proven"));
    assert!(!serde_json::json!(checks).to_string().contains("made-up"));
}

#[test]
fn what_is_missing_fails_with_its_code() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "no program",
            "claude_bin = \"TOP/missing\"\nanthropic_api_key_ref = \"file:TOP/key\"\n",
            &["claude_not_found"],
        ),
        ("no payer", "claude_bin = \"TOP/claude\"\n", &["no_billing_mode"]),
        ("other payer", "claude_bin = \"TOP/claude\"\nallow_personal = true\n", &["billing_mode_mismatch"]),
        (
            "no key",
            "claude_bin = \"TOP/claude\"\nanthropic_api_key_ref = \"file:TOP/missing\"\n",
            &["secret_missing", "run_environment_incomplete"],
        ),
    ];
    for (name, lines, codes) in rows {
        assert_eq!(fails(&furnished(lines)), *codes, "{name}");
    }
}

#[test]
fn a_cli_that_is_old_or_a_stub_or_not_there_is_named_with_its_cure() {
    let rows: &[(&str, &str, &str, &str)] = &[
        ("old", "echo '2.1.200 (Claude Code)'", "runtime_version_unsupported", "2.1.200"),
        ("a stub that only talks", "echo 'please reinstall'", "runtime_version_unsupported", "stub"),
        ("a stub that says nothing", "true", "runtime_version_unsupported", "stub"),
        (
            "a stub that fails",
            "echo 'native binary not installed' >&2; exit 1",
            "runtime_unreachable",
            "stub",
        ),
        (
            "too new",
            "case \"$*\" in *auth*) echo '{\"authMethod\":\"api_key\"}' ;; *) echo '2.1.999 (Claude Code)' ;; esac",
            "",
            "",
        ),
    ];
    for (name, script, code, said) in rows {
        let top = furnished(GOOD);
        fs::write(top.join("claude"), format!("#!/bin/sh\n{script}\n")).unwrap();
        let config = config::look(&top.join("config.toml")).unwrap();
        let checks = offline(&config, &environment(&top));
        let failed: Vec<_> = checks.iter().filter(|check| check.is_fail()).collect();
        let codes: Vec<_> = failed.iter().map(|check| check.code).collect();
        let expected: &[&str] = if code.is_empty() { &[] } else { &[code] };
        assert_eq!(codes, expected, "{name}: the cause alone");
        for check in failed {
            assert!(
                check.sentence.contains(said) && check.sentence.contains("install exactly"),
                "{}",
                check.sentence
            );
        }
    }
}

#[test]
fn a_check_before_the_first_start_makes_nothing() {
    let top = furnished(GOOD);
    assert_eq!(fails(&top), [""; 0]);
    assert!(!top.join("state").exists());
    // As the service manager makes it before the first start.
    fs::create_dir(top.join("state")).unwrap();
    fs::set_permissions(top.join("state"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fails(&top), [""; 0]);
    assert_eq!(fs::read_dir(top.join("state")).unwrap().count(), 0);
}

#[test]
fn a_token_that_others_may_read_fails() {
    let top = furnished(GOOD);
    fs::set_permissions(top.join("token"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(fails(&top), ["secret_open_to_others"]);
    fs::remove_file(top.join("token")).unwrap();
    assert_eq!(fails(&top), ["secret_missing"]);
}

#[test]
fn what_resolves_to_something_of_another_kind_fails() {
    let rows = [
        ("token", "made-up token", "", "secret_not_a_token"),
        ("token", "\u{feff}made-up-token\n", "", "secret_not_a_token"),
        ("key", "made-up-key \n", "", "secret_not_a_token"),
        ("dpop", "made-up-token", "dpop_key_ref = \"file:TOP/dpop\"\n", "dpop_key_unusable"),
        ("ca", "no certificate", "[sdk]\nca_file = \"TOP/ca\"\n", "client_unusable"),
        ("note", "any text with spaces", "turn_env = { NOTE = { secret = \"file:TOP/note\" } }\n", ""),
    ];
    for (name, text, lines, code) in rows {
        let top = furnished(&format!("{GOOD}{lines}"));
        fs::write(top.join(name), text).unwrap();
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        let expected: &[&str] = if code.is_empty() { &[] } else { &[code] };
        assert_eq!(fails(&top), expected, "{name}: {text:?}");
    }
}

#[test]
fn five_faults_are_five_checks_with_their_lines() {
    let top = furnished(
        "tool_class = \"all\"\npoll_interval = \"soon\"\nmax_parallel_runs = 0\nallow_personal = 1\nflag = 2\n",
    );
    let faults = config::look(&top.join("config.toml")).unwrap_err();
    let checks = of_faults(&faults);
    let codes: Vec<_> = checks.iter().map(|check| check.code).collect();
    assert_eq!(codes, ["unknown_value", "bad_duration", "out_of_range", "wrong_type", "unknown_key"]);
    for (check, line) in checks.iter().zip(8..) {
        assert!(check.sentence.contains(&format!("config.toml:{line}: ")), "{}", check.sentence);
    }
}

#[test]
fn a_state_directory_open_to_others_is_a_configuration_fault() {
    let top = furnished(GOOD);
    fs::create_dir(top.join("state")).unwrap();
    fs::set_permissions(top.join("state"), fs::Permissions::from_mode(0o755)).unwrap();
    let options = CheckOptions { config: top.join("config.toml"), json: true, online: false };
    assert_eq!(check_config(&options), Ok(exit::CONFIGURATION));
    let codes: Vec<_> =
        of_faults(&config::look(&options.config).unwrap_err()).iter().map(|check| check.code).collect();
    assert_eq!(codes, ["directory_open_to_others"]);
}

#[test]
fn a_server_that_is_away_fails_online_only() {
    let top = furnished(GOOD);
    let config = config::look(&top.join("config.toml")).unwrap();
    // Port 9 of the loopback is the discard service, which nobody runs.
    let codes: Vec<_> = online::checks(&config).iter().map(|check| check.code).collect();
    assert_eq!(codes, ["server_unreachable"]);
}
