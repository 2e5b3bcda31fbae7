//! The command line: one file or directory a command.
//!
//! | file | what |
//! |---|---|
//! | `args` | the words of the command line, as a typed [`args::Invocation`] |
//! | `run` | the service: configuration, log, signals, runner |
//! | `check_config` | what would keep the service from working, one line each |
//! | `status` | how the runner is |
//! | `local` | embedded server and runner in one process |
//! | `ask` | one message from the terminal, its run and its answer |
//! | `demo` | `ask` with the stand-in for the CLI, checked |
//! | `bench` | what the service takes on this machine, one table |
//! | `pair`, `project`, `data_dir` | server and runner of `local`, `ask` and `demo` in one process, and what they work on |
//! | `person` | the person's side of HTTP |
//! | `show`, `exit`, `logging`, `log_codes`, `panic_hook` | lines, exit codes, log |

pub mod args;
pub mod ask;
pub mod bench;
pub mod check_config;
pub mod data_dir;
pub mod demo;
pub mod exit;
pub mod local;
pub mod log_codes;
pub mod logging;
pub mod pair;
pub mod panic_hook;
pub mod person;
pub mod project;
pub mod run;
pub mod show;
pub mod status;

use std::process::ExitCode;

use args::Invocation;

/// Runs the command named by the program's arguments.
pub fn main() -> ExitCode {
    let invocation = match args::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(stop) => return stop.print(),
    };
    panic_hook::install();
    exit::code(match invocation {
        Invocation::Run { config, superseded_limit } => run::run(&config, superseded_limit),
        Invocation::CheckConfig(options) => check_config::check_config(&options),
        Invocation::Status(options) => status::status(&options),
        Invocation::Local(options) => local::local(&options),
        Invocation::Ask(options) => ask::ask(&options),
        Invocation::Demo(options) => demo::demo(&options),
        Invocation::Bench => bench::bench(),
    })
}
