//! `status`: how the runner of a configuration is, for people and for scripts.
//!
//! Reads the state directory only: the file that the runner's main thread writes, the turn records, the recordings'
//! sizes, counts of the inbox. It holds no lock, changes nothing, and works while no runner does. It shows ids,
//! numbers, times and codes, and no text of anybody.

mod disk;
mod people;
mod report;

use super::args::StatusOptions;
use super::exit::{self, Failure};
use super::show;
use crate::config;
use crate::run::state_dir::StateDir;

/// What cannot be told, for a script and for a person.
struct Untold {
    code: &'static str,
    failure: Failure,
}

/// Reads and prints.
///
/// # Errors
/// The configuration or the state directory cannot be read; a script reads that as an object too.
pub fn status(options: &StatusOptions) -> Result<u8, Failure> {
    let report = gathered(options).map_err(|untold| {
        if options.json {
            untold.failure.print_object(untold.code);
        }
        untold.failure
    })?;
    if options.json {
        show::line(&serde_json::json!(report).to_string());
    } else {
        people::lines(&report).iter().for_each(|line| show::line(line));
    }
    Ok(exit::OK)
}

fn gathered(options: &StatusOptions) -> Result<report::Report, Untold> {
    let config = config::look(&options.config).map_err(|faults| Untold {
        code: faults.code(),
        failure: Failure::configuration(faults.to_string()),
    })?;
    report::gather(&StateDir::new(&config.runner.state_dir)).map_err(|fault| {
        let kind = fault.kind();
        let message = format!("runner.state_dir cannot be read ({kind}); call this as the runner's user");
        Untold { code: "state_dir_unreadable", failure: Failure::new(message) }
    })
}
