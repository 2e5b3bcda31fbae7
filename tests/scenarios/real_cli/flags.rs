//! Level one: the pinned version, and every flag that the runner gives the CLI, without a service and without a key.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use claude_code_runner::claude::argv::{self, SessionArg, TurnArgs};
use claude_code_runner::claude::version::{PINNED_CLAUDE_CODE_VERSION, parse};
use claude_code_runner::sdk::wire::run::{BillingMode, ToolClass};
use claude_code_runner::sys::private::TempDir;
use uuid::Uuid;

use super::program;

/// What the CLI says of a flag or a value that it does not know.
const REFUSALS: [&str; 4] = ["unknown option", "is invalid", "argument missing", "Invalid "];

/// The CLI with no input, no login and no way to a service.
fn cli(program: &str, home: &Path, args: &[OsString]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(home).env_clear().stdin(Stdio::null());
    command.envs([("PATH", "/usr/bin:/bin"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")]);
    for off in ["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] {
        command.env(off, "1");
    }
    command.env("HOME", home).env("CLAUDE_CONFIG_DIR", home.join("config")).env("TMPDIR", home);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A turn of every kind whose command line differs.
fn turns(home: &Path) -> Vec<TurnArgs> {
    let id = Uuid::new_v4();
    let mut all = Vec::new();
    for class in [ToolClass::Chat, ToolClass::Scoped, ToolClass::Host] {
        for billing in [BillingMode::Organization, BillingMode::Personal] {
            for (trusted_project, session) in [(false, SessionArg::New(id)), (true, SessionArg::Resume(id))] {
                all.push(TurnArgs {
                    claude_bin: "/usr/bin/claude".into(),
                    model: "sonnet".into(),
                    session,
                    class,
                    billing,
                    tools: vec!["Read(./**)".into(), "Edit(./**)".into(), "Write(./**)".into()],
                    trusted_project,
                    system_prompt_file: home.join("system.md"),
                    inbox_dir: home.to_owned(),
                    temp_dir: home.to_owned(),
                    max_budget_usd: Some("1.5".into()),
                });
            }
        }
    }
    all
}

#[test]
fn installed_version_equals_pin() {
    let Some(program) = program() else { return };
    let home = TempDir::new().unwrap();
    let output = cli(&program, home.path(), &["--version".into()]);
    let version = parse(&output.stdout).expect("a version");
    assert_eq!(version.to_string(), PINNED_CLAUDE_CODE_VERSION);
}

/// Each flag is tried, because the help leaves out one that works (`--append-system-prompt-file`).
#[test]
fn help_lists_contract_flags() {
    let Some(program) = program() else { return };
    let home = TempDir::new().unwrap();
    std::fs::write(home.join("system.md"), "Be brief.").unwrap();
    let mut flags = BTreeSet::new();
    for turn in turns(home.path()) {
        let args = argv::build(&turn).unwrap();
        flags.extend(
            args.iter().filter_map(|arg| Some(arg.to_str()?.to_owned())).filter(|arg| arg.starts_with('-')),
        );
        let output = cli(&program, home.path(), &args);
        let said = text(&output.stderr);
        let refused = REFUSALS.iter().any(|refusal| said.contains(refusal));
        assert!(!refused, "{:?} {:?}: {said}", turn.class, turn.billing);
    }
    assert!(flags.len() >= 15, "{flags:?}");
    // What a renamed flag would have looked like.
    let output = cli(&program, home.path(), &["-p".into(), "--replay-user-messages-renamed".into()]);
    assert!(!output.status.success() && text(&output.stderr).contains(REFUSALS[0]));
}

#[test]
fn auth_status_takes_the_sources_of_a_turn_and_prints_what_is_read() {
    let Some(program) = program() else { return };
    let home = TempDir::new().unwrap();
    for sources in ["", "user", "project", "user,project"] {
        let args = ["--setting-sources", sources, "auth", "status"].map(OsString::from);
        let found: serde_json::Value =
            serde_json::from_slice(&cli(&program, home.path(), &args).stdout).unwrap();
        assert_eq!(found["authMethod"], "none", "{sources:?}");
    }
}
