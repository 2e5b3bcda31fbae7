//! The configuration file: one TOML file, checked as a whole before anything starts.
//!
//! [`load`] reads the text into a document ([`source`], [`raw`]), takes every key of the one table ([`keys`]) through its
//! reader ([`values`] and its neighbours), holds paths against the file system ([`checks`]) and then gives
//! either a [`Config`] or all [`Faults`]. Must not know who uses a value. Invariant: no message holds a value.

pub mod address;
pub mod attach;
mod build;
pub mod checks;
pub mod fault;
pub mod keys;
pub mod model;
pub mod raw;
pub mod secret;
pub mod source;
pub mod tools;
pub mod turn_env;
pub mod values;

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::O_NONBLOCK;

pub use attach::{DEFAULT_DENIED_PATTERNS, ROOT_NAMES};
pub use fault::{Fault, Faults, Problem};
pub use model::{AdapterConfig, AgentConfig, Config, LogConfig, LogFormat, RunnerConfig, SdkConfig};
pub use secret::{Secret, SecretError, SecretRef};
pub use tools::rule_without_path;
pub use turn_env::{TurnEnvValue, refused_turn_env_name};

use raw::Document;
use source::Source;

/// Longest configuration file in bytes; the example has about ten thousand.
pub const FILE_SIZE_LIMIT: u64 = 256 * 1024;

/// Reads and checks the file `path`; makes the state directory when it is missing and nothing is wrong.
///
/// # Errors
/// Every fault of the file.
pub fn load(path: &Path) -> Result<Config, Faults> {
    checked(path, true)
}

/// As [`load`], and makes nothing: for whoever only looks, perhaps as another user than the service's.
///
/// # Errors
/// Every fault of the file.
pub fn look(path: &Path) -> Result<Config, Faults> {
    checked(path, false)
}

fn checked(path: &Path, make: bool) -> Result<Config, Faults> {
    // A path that is not text is shown with replacement characters; a message needs no more.
    let file = path.display().to_string();
    let text = read(path).map_err(|problem| Faults::of_file(file.clone(), problem))?;
    let source = Source::new(&text, &file);
    let mut document = Document::parse(&source);
    let config = build::config(&mut document);
    checks::on_disk(&mut document, &config, make);
    document.finish(config)
}

/// Checks the text of a file without touching the file system; `file_name` is how messages call it.
///
/// # Errors
/// Every fault of the text.
pub fn parse(text: &str, file_name: &str) -> Result<Config, Faults> {
    let source = Source::new(text, file_name);
    let mut document = Document::parse(&source);
    let config = build::config(&mut document);
    document.finish(config)
}

/// The text of a regular file of bounded length, or what is wrong and on which line.
fn read(path: &Path) -> Result<String, (Problem, Option<usize>)> {
    let refused = |fault: io::Error| (Problem::Unreadable(fault.kind()), None);
    // Non-blocking, so that a FIFO in the file's place holds nobody.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(refused)?;
    if !file.metadata().map_err(refused)?.is_file() {
        return Err((Problem::NoRegularFile, None));
    }
    let mut bytes = Vec::new();
    file.take(FILE_SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > FILE_SIZE_LIMIT {
        return Err((Problem::FileTooLong, None));
    }
    String::from_utf8(bytes).map_err(|fault| {
        let good = &fault.as_bytes()[..fault.utf8_error().valid_up_to()];
        (Problem::NotText, Some(memchr::memchr_iter(b'\n', good).count() + 1))
    })
}
