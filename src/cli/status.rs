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

/// Reads and prints.
///
/// # Errors
/// The configuration or the state directory cannot be read.
pub fn status(options: &StatusOptions) -> Result<u8, Failure> {
    let config =
        config::look(&options.config).map_err(|faults| Failure::configuration(faults.to_string()))?;
    let state = StateDir::new(&config.runner.state_dir);
    let report = report::gather(&state).map_err(|fault| {
        let kind = fault.kind();
        Failure::new(format!("runner.state_dir cannot be read ({kind}); call this as the runner's user"))
    })?;
    if options.json {
        show::line(&serde_json::json!(report).to_string());
    } else {
        people::lines(&report).iter().for_each(|line| show::line(line));
    }
    Ok(exit::OK)
}
