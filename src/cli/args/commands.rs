//! The commands and their options, as `--help` shows them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, Command, value_parser};
use uuid::Uuid;

/// Model of `local` and `ask` without `--model`: a name that the CLI keeps pointing at a present model.
const DEFAULT_MODEL: &str = "sonnet";

/// Program of `local` and `ask` without `--claude-bin`.
const DEFAULT_PROGRAM: &str = "claude";

const ABOUT: &str = "Runs Claude Code turns for chat threads on your own machine";

const LONG_ABOUT: &str = "\
Runs Claude Code turns for chat threads on your own machine.

A chat server sends the messages of a thread, this program runs one turn of the Claude Code command line
program for each, in the project's directory, and sends the answer, its files and its cost back.

  run           the service for a chat server elsewhere
  check-config  what would keep the service from working
  status        how the service is: live runs, queue, server, disk
  local         a small chat server and the runner on this machine alone
  ask           one message from the terminal
  demo          everything at work without Claude Code, without a key, without a network";

const EXAMPLES: &str = "\
Examples:
  claude-code-runner demo
  claude-code-runner ask --billing personal \"What does this project do?\"
  claude-code-runner local --project . --billing organization --api-key-ref env:ANTHROPIC_API_KEY
  claude-code-runner check-config --config /etc/claude-code-runner/config.toml
  claude-code-runner status --config /etc/claude-code-runner/config.toml
  claude-code-runner run --config /etc/claude-code-runner/config.toml

Exit codes:
  0    stopped as asked, or all went well
  1    failed
  2    the command line cannot be understood
  75   another runner polls with the same consumer
  77   the server refuses the agent token
  78   the configuration cannot be used
  130  `ask` or `demo` ended by Ctrl-C; `run` and `local` end with 0 then";

const ASK_EXAMPLES: &str = "\
Examples:
  claude-code-runner ask --billing personal \"What does this project do?\"
  claude-code-runner ask --billing personal --attach orders.zip --out results \"Sum these orders\"
  claude-code-runner ask --billing personal --write --thread ID \"Now fix the test\"

Exit codes: 0 the run completed, 1 it failed, 130 Ctrl-C stopped it.";

const LOCAL_EXAMPLES: &str = "\
Examples:
  claude-code-runner local --project ~/code/website --billing personal
  claude-code-runner local --project a --project b --billing organization --api-key-ref file:/path/to/key

While it runs, `claude-code-runner ask` in a project's directory uses it.";

const CHECK_EXAMPLES: &str = "\
One line for each check: ok, warn or fail, a stable code, and what to do.
Exit codes: 0 nothing failed, 1 something failed, 78 the file cannot be used.";

const STATUS_EXAMPLES: &str = "\
Example:
  claude-code-runner status --config /etc/claude-code-runner/config.toml

Exit codes: 0 it was told, also that no runner runs; 1 the state directory cannot be read; 78 the file cannot be used.";

/// The whole program.
pub fn program() -> Command {
    Command::new("claude-code-runner")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands([run(), check_config(), status(), local(), ask(), demo()])
        // Measures this program for its developers; no command for an operator.
        .subcommand(Command::new("bench").hide(true))
}

fn run() -> Command {
    Command::new("run")
        .about("Serves a chat server: the service")
        .long_about(
            "Serves a chat server until SIGTERM or Ctrl-C. A second signal ends at once. Turns at work are let go and \
             taken up again by the next start.",
        )
        .after_help("Example:\n  claude-code-runner run --config /etc/claude-code-runner/config.toml")
        .arg(config())
        // Nobody waits five minutes to see what becomes of a superseded runner; not for operators.
        .arg(Arg::new("superseded-limit-ms").long("superseded-limit-ms").hide(true).value_parser(value_parser!(u64)))
}

fn check_config() -> Command {
    Command::new("check-config")
        .about("Says what would keep the service from working")
        .after_help(CHECK_EXAMPLES)
        .arg(config())
        .arg(flag("json", "Print one JSON array for scripts"))
        .arg(flag("online", "Also ask the server: its instance, the agent token, the served projects"))
}

fn status() -> Command {
    Command::new("status")
        .about("Says how the service is: live runs with age and step, queue, server, disk")
        .long_about(
            "Says how the service of a configuration is, from its state directory. Disturbs nothing, and works while the \
             service does not run. Call it as the service's user.",
        )
        .after_help(STATUS_EXAMPLES)
        .arg(config())
        .arg(flag("json", "Print one JSON object for scripts"))
}

fn local() -> Command {
    let command = Command::new("local")
        .about("Serves this machine alone: a small chat server and the runner in one process")
        .after_help(LOCAL_EXAMPLES)
        .arg(
            value("project", "DIR", "A project: the directory of a Git working tree; once for each")
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append)
                .required(true),
        )
        .arg(
            value(
                "listen",
                "ADDR",
                "Loopback address and port; else 127.0.0.1 and the port of the first start",
            )
            .value_parser(loopback),
        );
    with_turn_options(command)
}

/// An address of this machine alone, with its port; `localhost` is 127.0.0.1.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(text).parse::<SocketAddr>().ok();
    let own = address.filter(|address| address.ip().is_loopback());
    own.ok_or_else(|| {
        "only a loopback address with its port, such as 127.0.0.1:0 or localhost:8080".to_owned()
    })
}

fn ask() -> Command {
    let command = Command::new("ask")
        .about("Sends one message from the terminal, shows the run and prints the answer")
        .long_about(
            "Sends one message, shows the run, prints the answer and saves its files. Uses the running `local` of the \
             data directory, or a server and runner of its own for as long as it takes.",
        )
        .after_help(ASK_EXAMPLES)
        .arg(
            value("project", "DIR", "The project: the directory of a Git working tree [default: the present one]")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            value("thread", "ID", "Go on with this thread instead of a new one")
                .value_parser(value_parser!(Uuid)),
        )
        .arg(
            value("attach", "FILE", "Send this file too; once for each")
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append),
        )
        .arg(
            value("out", "DIR", "Where the answer's files go; existing files stay as they are")
                .value_parser(value_parser!(PathBuf))
                .default_value("."),
        )
        .arg(flag("json", "Print one JSON object for scripts"))
        .arg(Arg::new("text").value_name("TEXT").help("The message").default_value(""));
    with_turn_options(command)
}

fn demo() -> Command {
    Command::new("demo")
        .about("Shows everything at work without Claude Code, without a key, without a network")
        .long_about(
            "Sends an archive of orders to a stand-in for Claude Code in a temporary project, shows the run, and checks \
             the answer and its files. Nothing leaves this machine.",
        )
        .arg(data_dir("Where everything is kept [default: a temporary directory]"))
        .arg(log_level())
}

fn with_turn_options(command: Command) -> Command {
    command
        .arg(
            value("billing", "MODE", "Who pays for turns: an API key, or the Claude login of this account")
                .value_parser(PossibleValuesParser::new(["organization", "personal"])),
        )
        .arg(value("api-key-ref", "REF", "The key of --billing organization: file:/path or env:NAME"))
        .arg(
            value("tool-class", "CLASS", "What turns may do: nothing but talk, named tools, everything")
                .value_parser(PossibleValuesParser::new(["chat", "scoped", "host"]))
                .default_value("scoped"),
        )
        .arg(flag("write", "Let turns write into the project; off until it is turned on once"))
        .arg(value("model", "NAME", "Model of the turns").default_value(DEFAULT_MODEL))
        .arg(
            value("claude-bin", "PROGRAM", "Claude Code: a name or an absolute path")
                .default_value(DEFAULT_PROGRAM),
        )
        .arg(data_dir("Where threads and files are kept [default: ccr below the platform's data directory]"))
        .arg(log_level())
}

fn config() -> Arg {
    value("config", "FILE", "The configuration file, as config.example.toml explains it")
        .value_parser(value_parser!(PathBuf))
        .required(true)
}

fn data_dir(help: &'static str) -> Arg {
    value("data-dir", "DIR", help).value_parser(value_parser!(PathBuf))
}

fn log_level() -> Arg {
    value("log-level", "LEVEL", "Least severe level of the log on standard error")
        .value_parser(PossibleValuesParser::new(["off", "error", "warn", "info", "debug"]))
        .default_value("warn")
}

fn value(name: &'static str, shown: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(shown).help(help).value_parser(ValueParser::string())
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}
