//! The CLI: found, new enough, and paid for as configured, in the very environment of a run.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::report::Check;
use crate::claude::argv;
use crate::claude::auth_check::{self, AuthMethod, Decision};
use crate::claude::environment::{self, EnvInputs, TurnEnv, clean_path, find_program};
use crate::claude::version::{MIN_CLAUDE_CODE_VERSION, PINNED_CLAUDE_CODE_VERSION, Probed, Verdict};
use crate::config::{Config, TurnEnvValue};
use crate::run::runtime::Runtime;
use crate::run::state_dir::StateDir;
use crate::sdk::wire::run::BillingMode;
use crate::sys::private::{self, TempDir};

/// Longest first line of a script that the kernel reads (execve(2)).
const SHEBANG_LIMIT: u64 = 256;

/// The program that a script uses to find its interpreter.
const ENV_PROGRAM: &str = "/usr/bin/env";

/// The program, its version, and who pays in each enabled mode.
pub fn checks(config: &Config, parent: &[(OsString, OsString)]) -> Vec<Check> {
    let runtime = Runtime::new(config, parent);
    let mut checks = Vec::new();
    let Some(program) = runtime.program() else {
        checks.push(Check::fail(
            "claude_not_found",
            "runner.claude_bin is on no trusted directory of PATH, or cannot be executed; install it or name its absolute path",
        ));
        checks.extend(modes(config).err());
        return checks;
    };
    if let Some(name) = missing_interpreter(&program, parent) {
        checks.push(Check::fail(
            "interpreter_missing",
            format!("runner.claude_bin is a script for {name:?}, which is on no trusted directory of PATH; add its directory"),
        ));
    }
    let probed = runtime.probed();
    checks.push(version(probed));
    match modes(config) {
        // A program that cannot run a turn has nothing to say of who pays either.
        Ok(_) if !probed.verdict.allows_turns() => {}
        Ok(modes) => checks.extend(modes.into_iter().map(|mode| payer(config, parent, &program, mode))),
        Err(check) => checks.push(check),
    }
    checks
}

fn version(probed: Probed) -> Check {
    let found = probed.version.map(|version| version.to_string());
    let cure = format!("install exactly {PINNED_CLAUDE_CODE_VERSION} again and keep its updates off");
    match (probed.verdict, found) {
        (Verdict::Pinned, found) => {
            Check::ok("runtime_version_pinned", format!("the CLI is version {}", found.unwrap_or_default()))
        }
        (Verdict::Untested, found) => Check::warn(
            "runtime_version_untested",
            format!(
                "the CLI is version {}; tested is {PINNED_CLAUDE_CODE_VERSION}; {cure}",
                found.unwrap_or_default()
            ),
        ),
        (Verdict::Unsupported, Some(found)) => Check::fail(
            "runtime_version_unsupported",
            format!(
                "the CLI is version {found}, older than the least that works, {MIN_CLAUDE_CODE_VERSION}; {cure}"
            ),
        ),
        (Verdict::Unsupported, None) => Check::fail(
            "runtime_version_unsupported",
            format!(
                "runner.claude_bin answers --version, but not as Claude Code does; an update may have left a stub; {cure}"
            ),
        ),
        (Verdict::Unreachable, _) => Check::fail(
            "runtime_unreachable",
            format!(
                "runner.claude_bin does not start, fails, or does not answer --version within runner.cli_probe_timeout; \
                 start it by hand as this user to see why; an update may have left a stub: {cure}"
            ),
        ),
    }
}

/// The interpreter that a script asks for and that cannot be found (C2-09 c).
fn missing_interpreter(program: &Path, parent: &[(OsString, OsString)]) -> Option<String> {
    let mut first = Vec::new();
    File::open(program).ok()?.take(SHEBANG_LIMIT).read_to_end(&mut first).ok()?;
    let text = String::from_utf8_lossy(&first);
    let mut words = text.lines().next()?.strip_prefix("#!")?.split_whitespace();
    let interpreter = words.next()?;
    if interpreter != ENV_PROGRAM {
        return (!Path::new(interpreter).is_file()).then(|| interpreter.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let path = parent.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
    find_program(name, &clean_path(path)).is_none().then(|| name.to_owned())
}

fn modes(config: &Config) -> Result<Vec<BillingMode>, Check> {
    let mut modes = Vec::new();
    modes.extend(config.runner.anthropic_api_key_ref.is_some().then_some(BillingMode::Organization));
    modes.extend(config.runner.allow_personal.then_some(BillingMode::Personal));
    if modes.is_empty() {
        let sentence = "nobody can pay for a run; set runner.anthropic_api_key_ref or runner.allow_personal";
        return Err(Check::fail("no_billing_mode", sentence));
    }
    Ok(modes)
}

/// Asks the CLI who pays, as every run does before its start.
fn payer(config: &Config, parent: &[(OsString, OsString)], program: &Path, mode: BillingMode) -> Check {
    // Before the first start a place that goes away again, so that this leaves nothing behind, of the wrong user at that.
    let has_begun = StateDir::new(&config.runner.state_dir).organization_config().is_dir();
    let passing = if has_begun { None } else { TempDir::new().ok() };
    let root = passing.as_ref().map_or(config.runner.state_dir.as_path(), TempDir::path);
    let state = StateDir::new(root);
    let environment = match run_environment(config, parent, mode, &state) {
        Ok(environment) => environment,
        Err(check) => return check,
    };
    let sources = argv::setting_sources(config.runner.tool_class, mode, false);
    let limit = config.runner.cli_probe_timeout;
    judge(mode, auth_check::probe_program(program, sources, &environment.vars, state.root(), limit))
}

fn run_environment(
    config: &Config,
    parent: &[(OsString, OsString)],
    mode: BillingMode,
    state: &StateDir,
) -> Result<TurnEnv, Check> {
    let runner = &config.runner;
    let unreadable = |key: &str| {
        Check::fail("run_environment_incomplete", format!("{key} does not resolve, so no run can be checked"))
    };
    let key = match (&runner.anthropic_api_key_ref, mode) {
        (Some(key), BillingMode::Organization) => {
            Some(key.read().map_err(|_| unreadable("runner.anthropic_api_key_ref"))?)
        }
        _ => None,
    };
    let mut turn_env = Vec::new();
    for (name, value) in &runner.turn_env {
        turn_env.push((
            name.clone(),
            match value {
                TurnEnvValue::Literal(text) => text.clone(),
                TurnEnvValue::Secret(secret) => {
                    secret.read().map_err(|_| unreadable("runner.turn_env"))?.expose().to_owned()
                }
            },
        ));
    }
    // The CLI's own directory exists before each run; made here it has the same permissions.
    private::create_dir_all(&state.organization_config()).map_err(|_| {
        Check::fail("state_dir_unwritable", "runner.state_dir cannot be written; check owner and disk")
    })?;
    let inputs = EnvInputs {
        parent,
        mode,
        state_dir: state.root(),
        temp_dir: &temporary(state),
        api_key: key.as_ref(),
        turn_env: &turn_env,
        forward_ssh_agent: runner.forward_ssh_agent,
        passwd_home: environment::passwd_home(),
    };
    environment::build(&inputs).map_err(|fault| Check::fail(fault.code(), fault.to_string()))
}

/// The directory above the runs' temporary ones, or the state directory before the first start.
fn temporary(state: &StateDir) -> PathBuf {
    if state.temp().is_dir() { state.temp() } else { state.root().to_owned() }
}

fn judge(mode: BillingMode, found: AuthMethod) -> Check {
    let (name, cure) = match mode {
        BillingMode::Organization => ("organization", "check runner.anthropic_api_key_ref"),
        BillingMode::Personal => ("personal", "log in with `claude` as the runner's user"),
    };
    match (auth_check::decide(mode, found), mode) {
        (Decision::Start(_), BillingMode::Organization) => {
            Check::ok("organization_proven", "auth status names the API key")
        }
        (Decision::Start(_), BillingMode::Personal) => {
            Check::ok("personal_proven", "auth status names the login of this account")
        }
        (Decision::Refuse(_), _) if found == AuthMethod::None => Check::fail(
            "not_logged_in",
            format!("auth status finds nothing to pay with in mode {name}; {cure}"),
        ),
        (Decision::Refuse(_), _) if found == AuthMethod::Unknown => Check::fail(
            "auth_status_unreadable",
            format!("auth status gave no answer in mode {name}; start it by hand"),
        ),
        (Decision::Refuse(_), _) => Check::fail(
            "billing_mode_mismatch",
            format!(
                "auth status names another way to pay than mode {name}; {cure}, and look for settings that name another"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payers_have_their_checks() {
        use AuthMethod::{ApiKey, ClaudeAi, None, ThirdParty, Unknown};
        use BillingMode::{Organization, Personal};
        let rows = [
            (Organization, ApiKey, "organization_proven"),
            (Personal, ClaudeAi, "personal_proven"),
            (Organization, None, "not_logged_in"),
            (Personal, Unknown, "auth_status_unreadable"),
            (Personal, ApiKey, "billing_mode_mismatch"),
            (Organization, ThirdParty, "billing_mode_mismatch"),
        ];
        for (mode, found, code) in rows {
            assert_eq!(judge(mode, found).code, code, "{mode:?} {found:?}");
        }
    }

    #[test]
    fn c2_09_a_missing_interpreter_is_named() {
        let top = TempDir::new().unwrap();
        let parent = [(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
        let rows: &[(&str, Option<&str>)] = &[
            ("#!/usr/bin/env sh\n", None),
            ("#!/usr/bin/env no-such-interpreter\n", Some("no-such-interpreter")),
            ("#!/usr/bin/env -S no-such-interpreter --flag\n", Some("no-such-interpreter")),
            ("#!/bin/sh\n", None),
            ("#!/nonexistent/node\n", Some("/nonexistent/node")),
            ("\u{7f}ELF", None),
            ("", None),
        ];
        for (text, missing) in rows {
            let program = top.join("program");
            std::fs::write(&program, text).unwrap();
            assert_eq!(missing_interpreter(&program, &parent).as_deref(), *missing, "{text:?}");
        }
    }
}
