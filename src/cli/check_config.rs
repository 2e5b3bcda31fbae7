//! `check-config`: everything that would keep `run` from working, one line each.
//!
//! Starts nothing but the CLI's `--version` and `auth status`, and asks the server only with `--online`.

mod account;
mod online;
mod place;
mod report;
mod rules;
mod runtime;
mod secrets;

use std::ffi::OsString;

use super::args::CheckOptions;
use super::exit::{self, Failure};
use crate::config::{self, Config, Faults};
use report::Check;

/// Checks and prints.
///
/// # Errors
/// None so far; what is wrong is printed and gives the exit code.
pub fn check_config(options: &CheckOptions) -> Result<u8, Failure> {
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let config = match config::look(&options.config) {
        Ok(config) => config,
        Err(faults) => {
            report::print(&of_faults(&faults), options.json);
            return Ok(exit::CONFIGURATION);
        }
    };
    let mut checks = vec![Check::ok("config_loaded", "every key of the file can be used")];
    checks.push(place::config_file(&options.config));
    checks.extend(offline(&config, &environment));
    if options.online {
        checks.extend(online::checks(&config));
    }
    report::print(&checks, options.json);
    Ok(if checks.iter().any(Check::is_fail) { exit::FAILED } else { exit::OK })
}

/// Every check that needs no network.
fn offline(config: &Config, environment: &[(OsString, OsString)]) -> Vec<Check> {
    let mut checks = secrets::checks(config);
    checks.extend(place::checks(config, environment));
    checks.extend(account::checks(environment));
    checks.extend(rules::checks(config));
    checks.extend(runtime::checks(config, environment));
    checks
}

fn of_faults(faults: &Faults) -> Vec<Check> {
    faults.0.iter().map(|fault| Check::fail(fault.problem.code(), fault.to_string())).collect()
}

#[cfg(test)]
mod tests;
