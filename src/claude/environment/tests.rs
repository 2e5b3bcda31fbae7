//! Exact key sets against a hostile parent environment.

use super::*;
use crate::config::turn_env::FORBIDDEN_TURN_ENV;

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let path = std::env::temp_dir().join(format!("environment-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        chmod(&path, 0o700);
        Dir(path)
    }

    fn sub(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir(&path).unwrap();
        chmod(&path, mode);
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    list.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// What the runner may have in its own environment at worst.
fn hostile(home: &Path) -> Vec<(OsString, OsString)> {
    let mut all = pairs(&[
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("GITHUB_TOKEN", "x"),
        ("RUNNER_UNRELATED", "x"),
        ("ANTHROPIC_API_KEY", "stolen"),
        ("CLAUDE_CONFIG_DIR", "/elsewhere"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
        ("LD_PRELOAD", "/x.so"),
        ("IS_SANDBOX", "1"),
        ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "0"),
        ("NODE_OPTIONS", "--require /x.js"),
        ("TMPDIR", "/tmp"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("USER", "runner"),
        ("LOGNAME", "runner"),
        ("SHELL", "/bin/sh"),
        ("TERM", "dumb"),
        ("LANG", "de_DE.UTF-8"),
        ("LC_ALL", "de_DE.utf8"),
        ("LC_CTYPE", "C.UTF-8"),
        ("PATH", "/usr/bin:/bin"),
    ]);
    all.extend(FORBIDDEN_TURN_ENV.iter().map(|name| ((*name).into(), "x".into())));
    all.push(("HOME".into(), home.into()));
    all
}

fn inputs<'a>(
    parent: &'a [(OsString, OsString)],
    mode: BillingMode,
    turn_env: &'a [(String, String)],
) -> EnvInputs<'a> {
    EnvInputs {
        parent,
        mode,
        state_dir: Path::new("/srv/state"),
        temp_dir: Path::new("/srv/state/tmp/r"),
        api_key: Some(key()),
        turn_env,
        forward_ssh_agent: false,
        passwd_home: None,
    }
}

/// The key of the run, living as long as the tests.
fn key() -> &'static Secret {
    static KEY: std::sync::LazyLock<Secret> =
        std::sync::LazyLock::new(|| Secret::new("key-of-this-run".into()));
    &KEY
}

fn names(env: &TurnEnv) -> Vec<String> {
    env.vars.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect()
}

fn value<'a>(env: &'a TurnEnv, name: &str) -> Option<&'a str> {
    env.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_str().unwrap())
}

const COMMON: &[&str] = &[
    "CLAUDE_CODE_DISABLE_ATTACHMENTS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
];

#[test]
fn exact_key_set_per_mode() {
    let dir = Dir::new();
    let parent = hostile(&dir.0);
    let rows: &[(&str, BillingMode, bool, &[&str])] = &[
        ("organization", BillingMode::Organization, false, &["ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"]),
        ("personal", BillingMode::Personal, false, &[]),
        ("personal with agent", BillingMode::Personal, true, &["SSH_AUTH_SOCK"]),
    ];
    for (name, mode, forward_ssh_agent, more) in rows {
        let env = build(&EnvInputs { forward_ssh_agent: *forward_ssh_agent, ..inputs(&parent, *mode, &[]) })
            .unwrap();
        let mut expected: Vec<&str> = COMMON.iter().chain(*more).copied().collect();
        expected.sort_unstable();
        assert_eq!(names(&env), expected, "{name}");
        assert_eq!(value(&env, "TMPDIR"), Some("/srv/state/tmp/r"), "{name}");
        assert_eq!(value(&env, "CLAUDE_CODE_DISABLE_ATTACHMENTS"), Some("1"), "{name}");
        assert_eq!(value(&env, "LC_ALL"), Some("de_DE.utf8"), "{name}");
    }
    let env = build(&inputs(&parent, BillingMode::Organization, &[])).unwrap();
    assert_eq!(value(&env, "ANTHROPIC_API_KEY"), Some("key-of-this-run"));
    assert_eq!(value(&env, "CLAUDE_CONFIG_DIR"), Some("/srv/state/claude-config/organization"));
    assert!(!format!("{env:?}").contains("key-of-this-run"));
}

#[test]
fn empty_parent_gives_the_minimum() {
    let dir = Dir::new();
    let parent = vec![("HOME".into(), dir.0.clone().into())];
    let env = build(&inputs(&parent, BillingMode::Personal, &[])).unwrap();
    let mut expected: Vec<&str> =
        FIXED_TURN_ENV.iter().map(|(name, _)| *name).chain(["HOME", "LANG", "PATH", "TMPDIR"]).collect();
    expected.sort_unstable();
    assert_eq!(names(&env), expected);
    assert_eq!(value(&env, "PATH"), Some(""));
}

#[test]
fn locale_is_utf8() {
    let dir = Dir::new();
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a str, Option<&'a str>)]);
    let rows: &[Row<'_>] = &[
        ("none", &[], &[("LANG", Some("C.UTF-8")), ("LC_ALL", None)]),
        ("plain C", &[("LANG", "C")], &[("LANG", Some("C.UTF-8"))]),
        ("latin", &[("LANG", "de_DE.ISO-8859-1")], &[("LANG", Some("C.UTF-8"))]),
        ("utf8 kept", &[("LANG", "de_DE.UTF-8")], &[("LANG", Some("de_DE.UTF-8"))]),
        (
            "stronger one is utf8",
            &[("LANG", "C"), ("LC_ALL", "en_US.utf8")],
            &[("LANG", Some("C")), ("LC_ALL", Some("en_US.utf8"))],
        ),
        (
            "stronger one is not",
            &[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")],
            &[("LANG", Some("C.UTF-8")), ("LC_ALL", Some("C.UTF-8"))],
        ),
        (
            "other categories stay",
            &[("LC_TIME", "de_DE")],
            &[("LANG", Some("C.UTF-8")), ("LC_TIME", Some("de_DE"))],
        ),
        ("empty counts as absent", &[("LC_ALL", ""), ("LANG", "C.UTF-8")], &[("LANG", Some("C.UTF-8"))]),
    ];
    for (name, parent, expected) in rows {
        let mut parent = pairs(parent);
        parent.push(("HOME".into(), dir.0.clone().into()));
        let env = build(&inputs(&parent, BillingMode::Personal, &[])).unwrap();
        for (variable, wanted) in *expected {
            assert_eq!(value(&env, variable), *wanted, "{name} {variable}");
        }
    }
}

#[test]
fn home_comes_from_passwd_or_the_start_is_refused() {
    let dir = Dir::new();
    let other = Dir::new();
    let missing = dir.0.join("missing");
    let rows = [
        ("own", Some(dir.0.clone()), Some(other.0.clone()), Ok(&dir.0)),
        ("absent", None, Some(other.0.clone()), Ok(&other.0)),
        ("does not exist", Some(missing.clone()), Some(other.0.clone()), Ok(&other.0)),
        ("relative", Some(".".into()), Some(other.0.clone()), Ok(&other.0)),
        ("nothing usable", Some(missing.clone()), Some(missing), Err(EnvFault::HomeMissing)),
        ("nothing", None, None, Err(EnvFault::HomeMissing)),
    ];
    for (name, own, passwd_home, expected) in rows {
        let parent: Vec<_> =
            own.into_iter().map(|home| (OsString::from("HOME"), home.into_os_string())).collect();
        let built = build(&EnvInputs { passwd_home, ..inputs(&parent, BillingMode::Personal, &[]) });
        let home = built.map(|env| PathBuf::from(value(&env, "HOME").unwrap()));
        assert_eq!(home.as_ref().map_err(|fault| *fault), expected, "{name}");
    }
}

#[test]
fn organization_without_a_key_builds_nothing() {
    let dir = Dir::new();
    let parent = hostile(&dir.0);
    let rows = [
        (None, "api_key_missing"),
        (Some(""), "api_key_missing"),
        (Some(" \n"), "api_key_missing"),
        (Some("a\nb"), "api_key_malformed"),
    ];
    for (api_key, code) in rows {
        let api_key = api_key.map(|text| Secret::new(text.to_owned()));
        let built = build(&EnvInputs {
            api_key: api_key.as_ref(),
            ..inputs(&parent, BillingMode::Organization, &[])
        });
        assert_eq!(built.unwrap_err().code(), code);
    }
}

#[test]
fn turn_env_adds_and_never_replaces() {
    let dir = Dir::new();
    let parent = hostile(&dir.0);
    let extra = [("HTTPS_PROXY".to_owned(), "http://proxy.example.com".to_owned())];
    let env = build(&inputs(&parent, BillingMode::Organization, &extra)).unwrap();
    assert_eq!(value(&env, "HTTPS_PROXY"), Some("http://proxy.example.com"));
    let refused = [
        "CLAUDE_CONFIG_DIR",
        "ANTHROPIC_API_KEY",
        "TMPDIR",
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LD_PRELOAD",
        "IS_SANDBOX",
        "SSH_AUTH_SOCK",
    ];
    for name in
        refused.iter().chain(&FORBIDDEN_TURN_ENV).copied().chain(FIXED_TURN_ENV.iter().map(|(name, _)| *name))
    {
        let extra = [(name.to_owned(), "x".to_owned())];
        assert_eq!(
            build(&inputs(&parent, BillingMode::Personal, &extra)).unwrap_err().code(),
            "turn_env_refused",
            "{name}"
        );
    }
    for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0y")] {
        let extra = [(name.to_owned(), value.to_owned())];
        assert_eq!(
            build(&inputs(&parent, BillingMode::Personal, &extra)).unwrap_err().code(),
            "turn_env_malformed"
        );
    }
    assert!(!refused_turn_env_name("NODE_EXTRA_CA_CERTS") && !refused_turn_env_name("ANTHROPIC_BASE_URL"));
}

#[test]
fn clean_path_keeps_order_and_drops_what_others_can_write() {
    let dir = Dir::new();
    let (a, b) = (dir.sub("a", 0o755), dir.sub("b", 0o700));
    let (group, world) = (dir.sub("group", 0o775), dir.sub("world", 0o1777));
    let file = dir.0.join("file");
    std::fs::write(&file, "").unwrap();
    let missing = dir.0.join("missing");
    let entries = [
        "".into(),
        ".".into(),
        "bin".into(),
        b.clone(),
        group,
        missing,
        file,
        a.clone(),
        world,
        b.clone(),
        a.clone(),
    ];
    let path = join_path(&entries);
    assert_eq!(clean_path(Some(&path)), [b, a]);
    assert!(clean_path(None).is_empty() && clean_path(Some(OsStr::new(""))).is_empty());
}

#[test]
fn find_program_takes_the_first_executable_file() {
    let dir = Dir::new();
    let (a, b) = (dir.sub("a", 0o755), dir.sub("b", 0o755));
    std::fs::write(a.join("claude"), "").unwrap();
    chmod(&a.join("claude"), 0o644);
    std::fs::write(b.join("claude"), "").unwrap();
    chmod(&b.join("claude"), 0o755);
    dir.sub("a/tool", 0o755);
    let path = [a.clone(), b.clone()];
    let absolute = b.join("claude");
    let rows = [
        ("by name", "claude", Some(absolute.clone())),
        ("absolute", absolute.to_str().unwrap(), Some(absolute.clone())),
        ("absolute, not executable", a.join("claude").to_str().unwrap(), None).clone(),
        ("a directory", "tool", None),
        ("relative", "b/claude", None),
        ("empty", "", None),
        ("unknown", "nothing", None),
    ]
    .map(|(name, program, expected)| (name, program.to_owned(), expected));
    for (name, program, expected) in rows {
        assert_eq!(find_program(&program, &path), expected, "{name}");
    }
}

#[test]
fn passwd_entry_of_this_account_is_absolute() {
    assert!(passwd_home().is_none_or(|home| home.is_absolute()));
}
