//! The stand-in for the Claude Code CLI: plays a scenario file in the shapes of the real stream.
//!
//! It lets tests and the demo run whole turns without a model. It imports nothing else of this crate, so that it
//! cannot share a mistake with the code it tests.
//!
//! # Files beside the program
//!
//! The turn's environment is an allow list, so nothing can be told through variables; everything is found beside
//! the path the program was called by (tests link or copy the binary into a directory of their own):
//!
//! - `<program>.scenario.json`, else `fake-claude.json` in the same directory: the scenario, see [`scenario`].
//!   Without one the built-in scenario of [`demo`] is played.
//! - `<program>.capture.jsonl`: with a scenario file, one line for each call, stdin line, signal and end.
//!
//! # Commands
//!
//! `--version`; `auth status`, which reads the login from `fake-login` in the configuration directory; `-p`, the
//! turn ([`play`]).

pub mod args;
mod auth;
mod capture;
pub mod demo;
mod events;
pub mod play;
mod recording;
pub mod scenario;
mod session;
mod shapes;
mod steps;
mod template;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use args::Call;
use capture::Capture;
use scenario::Scenario;

/// First argument of the call that makes a session of its own and becomes another program.
pub(crate) const SETSID_COMMAND: &str = "__setsid";

/// Exit code of everything that is refused or broken.
const FAILED: u8 = 1;

/// Plays the scenario this program was installed with.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if arguments.get(1).is_some_and(|arg| arg == SETSID_COMMAND) {
        return become_session(&arguments[2..]);
    }
    let program = program_path(arguments.first());
    let (scenario, from_file) = match Scenario::beside(&program) {
        Ok(found) => found,
        Err(error) => return refuse(&format!("fake-claude: {error}")),
    };
    let capture = Capture::beside(&program, from_file);
    let code = match args::parse(arguments.get(1..).unwrap_or_default()) {
        Err(message) => return refuse(&message),
        Ok(Call::Version) => forced(&capture, "version", &arguments, &scenario.version_answer()),
        Ok(Call::AuthStatus) => forced(&capture, "auth", &arguments, &auth::status(&scenario)),
        Ok(Call::Turn(turn)) => play::run(&program, &turn, scenario, &capture, &arguments),
    };
    ExitCode::from(code)
}

/// A group and session of its own, as the real CLI gives its shells; then the program itself.
fn become_session(command: &[String]) -> ExitCode {
    let _ = nix::unistd::setsid();
    let Some((program, arguments)) = command.split_first() else { return ExitCode::from(FAILED) };
    let error = Command::new(program).args(arguments).exec();
    refuse(&format!("fake-claude: {error}"))
}

fn program_path(argument: Option<&String>) -> PathBuf {
    match argument.map(Path::new) {
        Some(path) if path.is_absolute() => path.to_path_buf(),
        Some(path) if path.components().count() > 1 => std::env::current_dir().unwrap_or_default().join(path),
        _ => std::env::current_exe().unwrap_or_default(),
    }
}

fn refuse(message: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(FAILED)
}

/// Records the call and prints the answer, or waits for a signal where the scenario says so.
fn forced(capture: &Capture, kind: &str, arguments: &[String], answer: &scenario::Answer) -> u8 {
    capture.call(kind, arguments, None);
    if answer.hang {
        wait_for_a_signal();
    }
    let _ = std::io::stdout().write_all(answer.stdout.as_bytes());
    let _ = std::io::stderr().write_all(answer.stderr.as_bytes());
    answer.exit
}

/// Never returns; the signals' default ends the process.
fn wait_for_a_signal() -> ! {
    loop {
        std::thread::park();
    }
}
