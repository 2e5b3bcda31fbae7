//! Tables of whole command lines.

use super::*;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

fn turn(class: ToolClass, billing: BillingMode) -> TurnArgs {
    TurnArgs {
        claude_bin: "/opt/claude/claude".into(),
        model: "claude-sonnet-4-5".into(),
        session: SessionArg::New(Uuid::parse_str(SESSION).unwrap()),
        class,
        billing,
        tools: Vec::new(),
        trusted_project: false,
        system_prompt_file: "/srv/state/sessions/s/r.system-prompt.md".into(),
        inbox_dir: "/srv/state/files/t".into(),
        temp_dir: "/srv/state/tmp/r".into(),
        max_budget_usd: None,
    }
}

fn built(turn: &TurnArgs) -> Vec<String> {
    build(turn).unwrap().into_iter().map(|arg| arg.into_string().unwrap()).collect()
}

/// The base line with `middle` in the place of class and guard flags.
fn line(middle: &[&str], directories: bool) -> Vec<String> {
    let mut all = vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    all.extend(["--replay-user-messages", "--model", "claude-sonnet-4-5", "--session-id", SESSION]);
    all.extend(middle);
    all.extend(["--permission-prompts", "none"]);
    if directories {
        all.extend(["--add-dir", "/srv/state/files/t", "/srv/state/tmp/r"]);
    }
    all.extend(["--append-system-prompt-file", "/srv/state/sessions/s/r.system-prompt.md"]);
    all.into_iter().map(String::from).collect()
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

#[test]
fn argv_chat_matches_spec_table() {
    let middle = [
        "--permission-mode",
        "dontAsk",
        "--tools",
        "",
        "--disallowedTools",
        "mcp__*",
        "--strict-mcp-config",
        "--system-prompt-snapshot",
        "off",
        "--restricted",
    ];
    for billing in [BillingMode::Organization, BillingMode::Personal] {
        for trusted_project in [false, true] {
            let chat = TurnArgs { trusted_project, tools: list(&["Read"]), ..turn(ToolClass::Chat, billing) };
            assert_eq!(built(&chat), line(&middle, false), "{billing:?} trusted {trusted_project}");
        }
    }
}

#[test]
fn argv_scoped_matches_spec_table() {
    let guard = ["--strict-mcp-config", "--system-prompt-snapshot", "off", "--restricted", "--tools"];
    let rows: &[(&str, &[&str], &[&str], &str)] = &[
        ("no tool", &[], &["--permission-mode", "dontAsk"], ""),
        ("one", &["Read"], &["--permission-mode", "dontAsk", "--allowedTools", "Read"], "Read"),
        (
            "several, one name twice",
            &["Read(./**)", "Bash(git log *)", "Bash(git show *)"],
            &[
                "--permission-mode",
                "dontAsk",
                "--allowedTools",
                "Read(./**)",
                "Bash(git log *)",
                "Bash(git show *)",
            ],
            "Read,Bash",
        ),
    ];
    for (name, tools, class, names) in rows {
        let scoped = TurnArgs { tools: list(tools), ..turn(ToolClass::Scoped, BillingMode::Organization) };
        let middle: Vec<&str> = class.iter().chain(&guard).chain([names]).copied().collect();
        assert_eq!(built(&scoped), line(&middle, true), "{name}");
    }
}

#[test]
fn argv_host_matches_spec_table() {
    let rows: &[(BillingMode, bool, &[&str])] = &[
        (
            BillingMode::Organization,
            false,
            &["--strict-mcp-config", "--system-prompt-snapshot", "off", "--setting-sources", ""],
        ),
        (
            BillingMode::Personal,
            false,
            &["--strict-mcp-config", "--system-prompt-snapshot", "off", "--setting-sources", "user"],
        ),
        (
            BillingMode::Organization,
            true,
            &["--system-prompt-snapshot", "off", "--setting-sources", "project"],
        ),
        (
            BillingMode::Personal,
            true,
            &["--system-prompt-snapshot", "off", "--setting-sources", "user,project"],
        ),
    ];
    for (billing, trusted_project, guard) in rows {
        let host = TurnArgs { trusted_project: *trusted_project, ..turn(ToolClass::Host, *billing) };
        let mut middle = vec!["--permission-mode", "bypassPermissions"];
        middle.extend(*guard);
        middle.extend([
            "--disallowedTools",
            "SendMessage",
            "ListAgents",
            "CronCreate",
            "ScheduleWakeup",
            "EnterWorktree",
        ]);
        assert_eq!(built(&host), line(&middle, true), "{billing:?} trusted {trusted_project}");
    }
}

#[test]
fn class_flags_equal_09_18_2_table() {
    let rows: &[(&str, ToolClass, &[&str], &[&str])] = &[
        (
            "chat",
            ToolClass::Chat,
            &["Read"],
            &["--permission-mode", "dontAsk", "--tools", "", "--disallowedTools", "mcp__*"],
        ),
        (
            "scoped",
            ToolClass::Scoped,
            &["Read", "Edit(./**)"],
            &["--permission-mode", "dontAsk", "--allowedTools", "Read", "Edit(./**)"],
        ),
        ("scoped without tools", ToolClass::Scoped, &[], &["--permission-mode", "dontAsk"]),
        ("host", ToolClass::Host, &["Read"], &["--permission-mode", "bypassPermissions"]),
    ];
    for (name, class, tools, expected) in rows {
        assert_eq!(class_flags(*class, &list(tools)), list(expected), "{name}");
    }
}

#[test]
fn setting_sources_never_hold_local_and_never_trust_in_chat() {
    use BillingMode::{Organization, Personal};
    use ToolClass::{Chat, Host, Scoped};
    let rows = [
        (Chat, Organization, false, None),
        (Chat, Personal, true, None),
        (Scoped, Organization, false, None),
        (Scoped, Personal, false, None),
        (Scoped, Organization, true, Some("project")),
        (Scoped, Personal, true, Some("user,project")),
        (Host, Organization, false, Some("")),
        (Host, Personal, false, Some("user")),
        (Host, Organization, true, Some("project")),
        (Host, Personal, true, Some("user,project")),
    ];
    for (class, billing, trusted, expected) in rows {
        assert_eq!(setting_sources(class, billing, trusted), expected, "{class:?} {billing:?} {trusted}");
    }
}

#[test]
fn trusted_scoped_project_needs_a_path_in_every_file_rule() {
    let rows: &[(&str, &[&str], Option<&str>)] = &[
        ("path", &["Read(./**)", "Edit(src/**)", "Bash(git log *)"], None),
        ("absolute path", &["Write(//srv/state/tmp/r/**)"], None),
        ("bare", &["Read"], Some("rule_without_path")),
        ("empty", &["Read()"], Some("rule_without_path")),
        ("star", &["Read(*)"], Some("rule_without_path")),
        ("whole machine", &["Write(//**)"], Some("rule_without_path")),
        ("second rule bare", &["Read(./**)", "NotebookEdit"], Some("rule_without_path")),
        ("no file tool", &["WebFetch"], None),
    ];
    for (name, tools, expected) in rows {
        let scoped = TurnArgs {
            trusted_project: true,
            tools: list(tools),
            ..turn(ToolClass::Scoped, BillingMode::Organization)
        };
        assert_eq!(build(&scoped).err().map(|fault| fault.code()), *expected, "{name}");
    }
    let trusted = TurnArgs {
        trusted_project: true,
        tools: list(&["Read(./**)"]),
        ..turn(ToolClass::Scoped, BillingMode::Personal)
    };
    let middle = [
        "--permission-mode",
        "dontAsk",
        "--allowedTools",
        "Read(./**)",
        "--system-prompt-snapshot",
        "off",
        "--setting-sources",
        "user,project",
        "--tools",
        "Read",
    ];
    assert_eq!(built(&trusted), line(&middle, true));
}

#[test]
fn session_flag() {
    let absent = SessionArg::choose(None).unwrap();
    assert!(matches!(absent, SessionArg::New(id) if id.get_version_num() == 4));
    let id = Uuid::parse_str(SESSION).unwrap();
    assert_eq!(SessionArg::choose(Some((SESSION, false))), Ok(SessionArg::New(id)));
    assert_eq!(SessionArg::choose(Some((SESSION, true))), Ok(SessionArg::Resume(id)));
    for reference in ["", "not-a-uuid", "--resume", "last week's talk"] {
        assert_eq!(SessionArg::choose(Some((reference, true))).unwrap_err().code(), "session_ref_not_uuid");
    }
    let resumed =
        TurnArgs { session: SessionArg::Resume(id), ..turn(ToolClass::Chat, BillingMode::Organization) };
    let args = built(&resumed);
    assert!(
        args.windows(2).any(|pair| pair == ["--resume", SESSION])
            && !args.contains(&"--session-id".to_owned())
    );
}

#[test]
fn add_dir_only_scoped_and_host_with_files() {
    for (class, expected) in [(ToolClass::Chat, false), (ToolClass::Scoped, true), (ToolClass::Host, true)] {
        let args = built(&turn(class, BillingMode::Organization));
        assert_eq!(args.contains(&"--add-dir".to_owned()), expected, "{class:?}");
    }
}

#[test]
fn model_precedence() {
    assert_eq!(choose_model(Some("opus"), "sonnet"), "opus");
    assert_eq!(choose_model(None, "sonnet"), "sonnet");
}

#[test]
fn max_budget_is_passed_on() {
    let limited =
        TurnArgs { max_budget_usd: Some("2.50".into()), ..turn(ToolClass::Host, BillingMode::Organization) };
    assert!(built(&limited).windows(2).any(|pair| pair == ["--max-budget-usd", "2.50"]));
}

#[test]
fn values_starting_with_dash_rejected() {
    let rows = [
        ("dash", "-model", "argument_leading_dash"),
        ("flag", "--settings", "argument_leading_dash"),
        ("empty", "", "argument_empty"),
        ("blank", "  ", "argument_empty"),
        ("newline", "a\nb", "argument_control_character"),
        ("nul", "a\0b", "argument_control_character"),
        ("bidi", "a\u{202e}b", "argument_control_character"),
        ("isolate", "a\u{2066}b", "argument_control_character"),
    ];
    for (name, value, code) in rows {
        let base = turn(ToolClass::Scoped, BillingMode::Organization);
        let bad = [
            TurnArgs { model: value.into(), ..base.clone() },
            TurnArgs { tools: vec!["Read".into(), value.into()], ..base.clone() },
            TurnArgs { max_budget_usd: Some(value.into()), ..base },
        ];
        for args in bad {
            assert_eq!(build(&args).unwrap_err().code(), code, "{name}");
        }
    }
}

#[test]
fn relative_paths_rejected() {
    let base = turn(ToolClass::Host, BillingMode::Organization);
    let bad = [
        TurnArgs { claude_bin: "claude".into(), ..base.clone() },
        TurnArgs { system_prompt_file: "-x".into(), ..base.clone() },
        TurnArgs { inbox_dir: "files".into(), ..base.clone() },
        TurnArgs { temp_dir: "".into(), ..base },
    ];
    for args in bad {
        assert_eq!(build(&args).unwrap_err().code(), "path_not_absolute");
    }
}

#[test]
fn one_entry_is_one_rule() {
    let rows = [
        ("two names", "Read Write", false),
        ("comma", "Read,Write", false),
        ("second rule behind", "Read(./a) Bash", false),
        ("hidden rule", "Read(a) Bash(b)", false),
        ("open", "Read(./**", false),
        ("no name", "(./**)", false),
        ("every tool", "default", false),
        ("parentheses inside", "Bash(echo (a))", true),
        ("plain", "Read", true),
        ("with path", "Edit(./src/**)", true),
        ("spaces inside", "Bash(git log *)", true),
        ("server tool", "mcp__files__read", true),
    ];
    for (name, rule, fine) in rows {
        let scoped = TurnArgs { tools: list(&[rule]), ..turn(ToolClass::Scoped, BillingMode::Organization) };
        let expected = if fine { None } else { Some("rule_malformed") };
        assert_eq!(build(&scoped).err().map(|fault| fault.code()), expected, "{name}");
    }
}

#[test]
fn scoped_tools_are_narrowed_and_made_read_only() {
    const CONFIGURED: &[&str] = &["Read", "Write(./**)", "Edit(./**)", "Bash(git *)"];
    const TEMPORARY: &[&str] = &["Write(//srv/state/tmp/r/**)", "Edit(//srv/state/tmp/r/**)"];
    type Row<'a> = (&'a str, Option<&'a [&'a str]>, Option<bool>, &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        ("all", None, None, CONFIGURED),
        ("writing allowed", None, Some(true), CONFIGURED),
        ("order of the key", Some(&["Bash(git *)", "Read"]), None, &["Read", "Bash(git *)"]),
        ("equal text only, never wider", Some(&["Write", "Read", "WebFetch"]), None, &["Read"]),
        ("nothing allowed", Some(&[]), None, &[]),
        ("read only", None, Some(false), &["Read", TEMPORARY[0], TEMPORARY[1]]),
        ("read only and narrowed", Some(&["Edit(./**)"]), Some(false), TEMPORARY),
    ];
    let write_tools = list(&["Write", "Edit", "NotebookEdit", "Bash"]);
    for (name, binding, write, expected) in rows {
        let binding = binding.map(list);
        let tools = scoped_tools(
            &list(CONFIGURED),
            binding.as_deref(),
            *write,
            &write_tools,
            Path::new("/srv/state/tmp/r"),
        );
        assert_eq!(tools, list(expected), "{name}");
    }
}
