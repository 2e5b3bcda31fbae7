//! The words of the command line: what a stranger reads with `--help`, and the typed [`Invocation`].
//!
//! Looks at no file and no environment; what the words mean is checked by the commands.

mod commands;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use log::LevelFilter;
use uuid::Uuid;

use super::exit::{self, Failure};
use crate::sdk::wire::run::ToolClass;

/// One call of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// `run`.
    Run {
        /// The configuration file.
        config: PathBuf,
        /// In place of the usual five minutes of superseded polls.
        superseded_limit: Option<Duration>,
    },
    /// `check-config`.
    CheckConfig(CheckOptions),
    /// `status`.
    Status(StatusOptions),
    /// `local`.
    Local(LocalOptions),
    /// `ask`.
    Ask(AskOptions),
    /// `demo`.
    Demo(DemoOptions),
    /// `bench`, which only `scripts/bench` calls.
    Bench,
}

/// Options of `check-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// One JSON array instead of lines.
    pub json: bool,
    /// Ask the server too.
    pub online: bool,
}

/// Options of `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// One JSON object instead of lines.
    pub json: bool,
}

/// Who pays for turns, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Billing {
    /// An API key.
    Organization {
        /// Secret reference of the key.
        key_ref: String,
    },
    /// The login of this account.
    Personal,
}

/// What turns may do, with what, and who pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOptions {
    /// What turns may do.
    pub class: ToolClass,
    /// Who pays; `None` when nothing was said.
    pub billing: Option<Billing>,
    /// Model of turns.
    pub model: String,
    /// The CLI.
    pub claude_bin: String,
    /// Turns may write into the projects.
    pub write: bool,
    /// Least severe level of the log.
    pub log_level: LevelFilter,
}

/// Options of `local`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Directories of projects, at least one.
    pub projects: Vec<PathBuf>,
    /// Where everything is kept.
    pub data_dir: Option<PathBuf>,
    /// Address to listen on.
    pub listen: Option<std::net::SocketAddr>,
    /// What turns may do.
    pub turns: TurnOptions,
}

/// Options of `ask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOptions {
    /// The project; the present directory when nothing was said.
    pub project: Option<PathBuf>,
    /// A thread to go on with.
    pub thread: Option<Uuid>,
    /// Files to send.
    pub attach: Vec<PathBuf>,
    /// Where the answer's files go.
    pub out: PathBuf,
    /// One JSON object instead of lines.
    pub json: bool,
    /// Where everything is kept.
    pub data_dir: Option<PathBuf>,
    /// What turns may do.
    pub turns: TurnOptions,
    /// The message.
    pub text: String,
}

/// Options of `demo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// Where everything is kept; a temporary directory when nothing was said.
    pub data_dir: Option<PathBuf>,
    /// Least severe level of the log.
    pub log_level: LevelFilter,
}

/// Why there is no invocation: help was asked for, or the words cannot be understood.
#[derive(Debug)]
pub enum Stop {
    /// Help, version, or clap's own words about what is wrong.
    Words(clap::Error),
    /// Words that do not go together.
    Choice(Failure),
}

impl Stop {
    /// Prints what there is to say and gives the exit code.
    pub fn print(self) -> ExitCode {
        match self {
            Stop::Words(words) => {
                // A reader that has gone away needs no help any more.
                let _ = words.print();
                ExitCode::from(if words.use_stderr() { exit::USAGE } else { exit::OK })
            }
            Stop::Choice(failure) => exit::code(Err(failure)),
        }
    }

    /// The exit code that [`Stop::print`] gives.
    pub fn exit(&self) -> u8 {
        match self {
            Stop::Words(words) if words.use_stderr() => exit::USAGE,
            Stop::Words(_) => exit::OK,
            Stop::Choice(failure) => failure.exit,
        }
    }
}

/// Reads the program's arguments, its own name first.
///
/// # Errors
/// See [`Stop`].
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Invocation, Stop> {
    let matches = commands::program().try_get_matches_from(words).map_err(Stop::Words)?;
    match matches.subcommand() {
        Some(("run", m)) => Ok(Invocation::Run {
            config: path(m, "config"),
            superseded_limit: m.get_one("superseded-limit-ms").copied().map(Duration::from_millis),
        }),
        Some(("check-config", m)) => Ok(Invocation::CheckConfig(CheckOptions {
            config: path(m, "config"),
            json: m.get_flag("json"),
            online: m.get_flag("online"),
        })),
        Some(("status", m)) => {
            Ok(Invocation::Status(StatusOptions { config: path(m, "config"), json: m.get_flag("json") }))
        }
        Some(("local", m)) => local(m).map(Invocation::Local),
        Some(("ask", m)) => ask(m).map(Invocation::Ask),
        Some(("demo", m)) => {
            Ok(Invocation::Demo(DemoOptions { data_dir: optional_path(m, "data-dir"), log_level: level(m) }))
        }
        Some(("bench", _)) => Ok(Invocation::Bench),
        // clap asks for a command; only one that it knows and this match does not comes here.
        _ => Err(Stop::Choice(Failure::usage("name a command; --help shows them"))),
    }
}

fn local(m: &ArgMatches) -> Result<LocalOptions, Stop> {
    Ok(LocalOptions {
        projects: paths(m, "project"),
        data_dir: optional_path(m, "data-dir"),
        listen: m.get_one("listen").copied(),
        turns: turns(m)?,
    })
}

fn ask(m: &ArgMatches) -> Result<AskOptions, Stop> {
    let text = m.get_one::<String>("text").cloned().unwrap_or_default();
    let attach = paths(m, "attach");
    if text.trim().is_empty() && attach.is_empty() {
        return Err(Stop::Choice(Failure::usage("the message is empty; write a text or attach a file")));
    }
    Ok(AskOptions {
        project: optional_path(m, "project"),
        thread: m.get_one("thread").copied(),
        attach,
        out: path(m, "out"),
        json: m.get_flag("json"),
        data_dir: optional_path(m, "data-dir"),
        turns: turns(m)?,
        text,
    })
}

fn turns(m: &ArgMatches) -> Result<TurnOptions, Stop> {
    Ok(TurnOptions {
        class: match m.get_one::<String>("tool-class").map(String::as_str) {
            Some("chat") => ToolClass::Chat,
            Some("host") => ToolClass::Host,
            _ => ToolClass::Scoped,
        },
        billing: billing(m).map_err(Stop::Choice)?,
        model: text(m, "model"),
        claude_bin: text(m, "claude-bin"),
        write: m.get_flag("write"),
        log_level: level(m),
    })
}

fn billing(m: &ArgMatches) -> Result<Option<Billing>, Failure> {
    let key_ref = m.get_one::<String>("api-key-ref").cloned();
    match (m.get_one::<String>("billing").map(String::as_str), key_ref) {
        (Some("organization"), Some(key_ref)) => Ok(Some(Billing::Organization { key_ref })),
        (Some("organization"), None) => Err(Failure::usage(
            "--billing organization needs --api-key-ref, for example --api-key-ref file:/path/to/key",
        )),
        (Some(_), None) => Ok(Some(Billing::Personal)),
        (Some(_), Some(_)) => {
            Err(Failure::usage("--api-key-ref belongs to --billing organization; leave one of them out"))
        }
        (None, Some(_)) => Err(Failure::usage("--api-key-ref needs --billing organization")),
        (None, None) => Ok(None),
    }
}

fn level(m: &ArgMatches) -> LevelFilter {
    // clap allows only names of levels.
    m.get_one::<String>("log-level").and_then(|name| name.parse().ok()).unwrap_or(LevelFilter::Warn)
}

fn text(m: &ArgMatches, name: &str) -> String {
    m.get_one::<String>(name).cloned().unwrap_or_default()
}

fn path(m: &ArgMatches, name: &str) -> PathBuf {
    optional_path(m, name).unwrap_or_default()
}

fn optional_path(m: &ArgMatches, name: &str) -> Option<PathBuf> {
    m.get_one::<PathBuf>(name).cloned()
}

fn paths(m: &ArgMatches, name: &str) -> Vec<PathBuf> {
    m.get_many::<PathBuf>(name).into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests;
