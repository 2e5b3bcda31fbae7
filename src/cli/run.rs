//! `run`: the service. Configuration, log, signals, runner, exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exit::{self, Failure};
use super::logging;
use crate::claude::environment;
use crate::config::{self, Config};
use crate::run::workspace::Workspaces;
use crate::runner::{Runner, RunnerFault};
use crate::sys::{process, signals};

/// Process id of the first process of a machine or container.
const INIT: u32 = 1;

/// Serves until a signal stops it; `superseded_limit` as [`Runner::give_up_superseded_after`].
///
/// # Errors
/// Why it could not start, or gave up; exit codes of [`exit`].
pub fn run(file: &Path, superseded_limit: Option<Duration>) -> Result<u8, Failure> {
    let config = config::load(file).map_err(|faults| Failure::configuration(faults.to_string()))?;
    logging::install(&config.log);
    hide_memory();
    if let Some(code) = init_warning(std::process::id()) {
        log::warn!("code={code}");
    }
    let variables: Vec<_> = std::env::vars_os().collect();
    check_home(&variables, environment::passwd_home())?;
    check_credentials(&config)?;
    let workspaces = Workspaces::Root(config.runner.projects_root.clone());
    let mut runner = Runner::new(config, workspaces, variables).map_err(|it| failure(&it))?;
    if let Some(limit) = superseded_limit {
        runner = runner.give_up_superseded_after(limit);
    }
    let signals = signals::spawn(runner.signal_sender()).map_err(|fault| no_signals(&fault))?;
    let result = runner.run();
    signals.stop();
    result.map(|()| exit::OK).map_err(|fault| failure(&fault))
}

/// What is to be said of a runner that is process `pid`: nobody collects the orphans of turns where it is the first one
/// (C2-07); a container needs an init of its own.
fn init_warning(pid: u32) -> Option<&'static str> {
    (pid == INIT).then_some("runs_as_process_1")
}

/// Keeps the memory with its secrets from other processes of the same user, turns among them.
pub fn hide_memory() {
    if process::set_not_dumpable().is_err() {
        log::warn!("code=process_stays_dumpable");
    }
}

/// The failure when no signal can be heard.
pub fn no_signals(fault: &std::io::Error) -> Failure {
    Failure::new(format!("signals cannot be heard ({})", fault.kind()))
}

/// A credential that cannot be read now cannot be read by the first request either, which would be repeated in
/// vain; a person sees it here.
fn check_credentials(config: &Config) -> Result<(), Failure> {
    let runner = &config.runner;
    let credentials = [
        ("runner.agent_token_ref", Some(&runner.agent_token_ref)),
        ("runner.dpop_key_ref", runner.dpop_key_ref.as_ref()),
    ];
    for (key, reference) in credentials {
        if let Some(Err(fault)) = reference.map(|reference| reference.read()) {
            log::error!("code={} key={key}", fault.code());
            return Err(Failure::configuration(format!("{key}: {fault}")));
        }
    }
    Ok(())
}

/// No turn could ever run without a home (M2-34 note 7).
///
/// # Errors
/// Neither HOME in `environment` nor `passwd` is an existing directory.
pub fn check_home(environment: &[(OsString, OsString)], passwd: Option<PathBuf>) -> Result<(), Failure> {
    environment::home(environment, passwd.as_deref()).map(drop).map_err(|fault| {
        log::error!("code={}", fault.code());
        Failure::configuration(fault.to_string())
    })
}

/// What a runner's fault means for whoever started it.
pub fn failure(fault: &RunnerFault) -> Failure {
    log::error!("code={}", fault.code());
    let cure = cure(fault);
    let message = if cure.is_empty() { fault.to_string() } else { format!("{fault}; {cure}") };
    Failure { exit: exit_code(fault), message }
}

fn exit_code(fault: &RunnerFault) -> u8 {
    match fault {
        RunnerFault::TokenRefused | RunnerFault::NotAnAgent => exit::TOKEN_REFUSED,
        RunnerFault::WrongInstance | RunnerFault::Client(_) => exit::CONFIGURATION,
        RunnerFault::Superseded => exit::SUPERSEDED,
        RunnerFault::StateDir(_)
        | RunnerFault::StateDirInUse
        | RunnerFault::StateDirLost
        | RunnerFault::Store(_)
        | RunnerFault::System(_) => exit::FAILED,
    }
}

/// What to do, where the fault's own words do not say it.
fn cure(fault: &RunnerFault) -> &'static str {
    match fault {
        RunnerFault::StateDir(_) => "check its owner, its permissions and the disk",
        RunnerFault::StateDirLost => {
            "leave it alone while the runner works; start the runner again, and look at runs that were at work"
        }
        RunnerFault::Store(_) => "check the disk and the owner of its files",
        RunnerFault::Client(_) => "check runner.server_url, sdk.proxy and sdk.ca_file",
        RunnerFault::System(_) => "raise the limits of processes and open files",
        RunnerFault::TokenRefused => "make a new token at the server and put it in that place",
        RunnerFault::WrongInstance => "check-config --online shows both; correct the one that is wrong",
        RunnerFault::NotAnAgent => "use the token that the server made for the agent",
        RunnerFault::StateDirInUse | RunnerFault::Superseded => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::error::TransportError;

    #[test]
    fn c2_07_process_1_is_warned_of() {
        assert_eq!([1, 2].map(init_warning), [Some("runs_as_process_1"), None]);
    }

    #[test]
    fn c2_09_without_a_home_nothing_starts() {
        let environment = [(OsString::from("HOME"), OsString::from("/nonexistent"))];
        assert!(check_home(&environment, Some("/".into())).is_ok());
        for passwd in [None, Some(PathBuf::from("/nonexistent"))] {
            let failure = check_home(&environment, passwd).unwrap_err();
            assert!(failure.exit == exit::CONFIGURATION && failure.message.contains("HOME"), "{failure:?}");
        }
    }

    #[test]
    fn every_fault_has_its_exit_code_and_a_cure() {
        let io = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let rows = [
            (RunnerFault::StateDir(io()), exit::FAILED, "permissions"),
            (RunnerFault::StateDirInUse, exit::FAILED, "directory of its own"),
            (RunnerFault::StateDirLost, exit::FAILED, "start the runner again"),
            (RunnerFault::Client(TransportError::Connect.into()), exit::CONFIGURATION, "sdk.ca_file"),
            (RunnerFault::System(io()), exit::FAILED, "limits"),
            (RunnerFault::TokenRefused, exit::TOKEN_REFUSED, "new token"),
            (RunnerFault::WrongInstance, exit::CONFIGURATION, "--online"),
            (RunnerFault::NotAnAgent, exit::TOKEN_REFUSED, "agent"),
            (RunnerFault::Superseded, exit::SUPERSEDED, "only one may run"),
        ];
        for (fault, code, said) in rows {
            let failure = failure(&fault);
            assert_eq!(failure.exit, code, "{fault:?}");
            assert!(failure.message.contains(said), "{}", failure.message);
            assert_eq!(failure.message.lines().count(), 1);
        }
    }
}
