//! What the CLI costs by itself, and what the runner adds: printed side by side for `scripts/bench cli`.
//!
//! Nothing is asserted of a time: the figures are for a person, and depend on the machine.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use claude_code_runner::claude::argv::{self, SessionArg, TurnArgs};
use claude_code_runner::sdk::wire::run::{BillingMode, RunState, ToolClass};
use claude_code_runner::sys::private::TempDir;
use serde_json::json;
use uuid::Uuid;

use super::service::{Service, What};
use super::{nothing, program, world_without_runner};
use crate::support::runner_process::RunnerProcess;
use crate::support::wait::DEADLINE;
use crate::support::world::API_KEY;

/// Asks for the figures.
const BENCH: &str = "CLAUDE_CODE_RUNNER_BENCH";

/// How often each is measured.
const TIMES: usize = 5;

fn cli(program: &str, home: &Path, service: &Service) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env_clear().stderr(Stdio::null()).stdout(Stdio::piped());
    command.envs([("PATH", "/usr/bin:/bin"), ("ANTHROPIC_API_KEY", API_KEY), ("DISABLE_AUTOUPDATER", "1")]);
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_TELEMETRY", "1");
    command.env("ANTHROPIC_BASE_URL", service.url()).env("HOME", home).env("TMPDIR", home);
    command.env("CLAUDE_CONFIG_DIR", home.join("config"));
    command
}

fn median<T: Ord + Copy>(mut all: Vec<T>) -> T {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Time of a call to its end.
fn call(program: &str, home: &Path, service: &Service, args: &[&str]) -> Duration {
    let times = (0..TIMES).map(|_| {
        let began = Instant::now();
        let done = cli(program, home, service).args(args).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{args:?}");
        began.elapsed()
    });
    median(times.collect())
}

/// One turn of the CLI alone.
struct Turn {
    first_line: Duration,
    result: Duration,
    peak_kib: u64,
}

fn turn(program: &str, home: &Path, service: &Service) -> Turn {
    std::fs::write(home.join("system.md"), "Be brief.").unwrap();
    let args = argv::build(&TurnArgs {
        claude_bin: program.into(),
        model: "claude-sonnet-4-5".into(),
        session: SessionArg::New(Uuid::new_v4()),
        class: ToolClass::Scoped,
        billing: BillingMode::Organization,
        tools: vec!["Read".into()],
        trusted_project: false,
        system_prompt_file: home.join("system.md"),
        inbox_dir: home.to_owned(),
        temp_dir: home.to_owned(),
        max_budget_usd: None,
    });
    let began = Instant::now();
    let mut child = cli(program, home, service).args(args.unwrap()).stdin(Stdio::piped()).spawn().unwrap();
    let content = json!([{"type": "text", "text": "Hello"}]);
    let line =
        json!({"type": "user", "uuid": Uuid::new_v4(), "message": {"role": "user", "content": content}});
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{line}").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.next().unwrap();
    let first_line = began.elapsed();
    assert!(lines.any(|line| line.contains("\"type\":\"result\"")));
    let (result, peak_kib) = (began.elapsed(), peak(child.id()));
    drop(stdin);
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    Turn { first_line, result, peak_kib }
}

/// Most memory of a process so far, KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn the_cli_and_the_runner_side_by_side() {
    if std::env::var_os(BENCH).is_none() {
        println!("not run: {BENCH} asks for no figures");
        return;
    }
    let (Some(program), Some((world, service))) = (program(), world_without_runner(nothing)) else { return };
    service.reply("", usize::MAX, What::Text("Hi Alex.".into()));
    let home = TempDir::new().unwrap();
    let version = call(&program, home.path(), &service, &["--version"]);
    let probe = call(&program, home.path(), &service, &["--setting-sources", "", "auth", "status"]);
    let turns: Vec<_> = (0..TIMES).map(|_| turn(&program, home.path(), &service)).collect();
    let alone = median(turns.iter().map(|turn| turn.result).collect());

    let runner = RunnerProcess::start(&world, None, None);
    let asked = |number| {
        let began = Instant::now();
        let (_, run) = world.asks("Hello");
        assert!(world.hooks.wait_for("createMessage", number + 1, DEADLINE));
        let answered = began.elapsed();
        world.ends_as(run, RunState::Completed, None);
        answered
    };
    // The first one finds everything cold, as the first one of the CLI alone does not count either.
    asked(0);
    let whole = median((1..=TIMES).map(asked).collect());
    let row = |what: &str, found: String| println!("figure: {what:<58} {found:>10}");
    let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    let mib = |kib: u64| format!("{} MiB", kib / 1024);
    row("the CLI: --version, at a start and after an update", ms(version));
    row("the CLI: auth status, before every run", ms(probe));
    row("the CLI: start to its first line", ms(median(turns.iter().map(|turn| turn.first_line).collect())));
    row("the CLI: start to the result of a text turn", ms(alone));
    row("the CLI: most memory of a text turn", mib(median(turns.iter().map(|turn| turn.peak_kib).collect())));
    row("with the runner: message to answer", ms(whole));
    row("  of that the runner itself", ms(whole.saturating_sub(alone + probe)));
    row("the runner: most memory", mib(peak(runner.pid())));
    assert!(runner.stop().success());
}
