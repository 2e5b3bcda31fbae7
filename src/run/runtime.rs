//! The CLI as a program: where it is and which version, looked at again when the file changes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use crate::claude::environment::{clean_path, find_program};
use crate::claude::version::{self, Probed, VersionProbe};
use crate::config::Config;

/// The CLI of `runner.claude_bin`.
pub struct Runtime {
    name: String,
    path: Vec<PathBuf>,
    limit: Duration,
    home: OsString,
    /// Held while the program is asked, which may take `limit`.
    probe: Mutex<VersionProbe>,
    /// The newest answer; never held for long.
    last: Mutex<Option<Probed>>,
}

impl Runtime {
    /// Looks nothing up yet. `environment`: the runner's own variables.
    pub fn new(config: &Config, environment: &[(OsString, OsString)]) -> Runtime {
        let value =
            |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        Runtime {
            name: config.runner.claude_bin.clone(),
            path: clean_path(value("PATH").as_deref()),
            limit: config.runner.cli_probe_timeout,
            home: value("HOME").unwrap_or_default(),
            probe: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// The program, looked up in the cleaned PATH.
    pub fn program(&self) -> Option<PathBuf> {
        find_program(&self.name, &self.path)
    }

    /// The version now; the program is run only when its file differs from the last time. Waits while another
    /// thread asks it.
    pub fn probed(&self) -> Probed {
        let probed = self.ask();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(probed);
        probed
    }

    /// The newest answer, whoever asked; never waits for the program.
    pub fn last(&self) -> Option<Probed> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program's file differs from the last answer, or there is none yet. A program that is being
    /// asked is not waited for: its answer is on its way.
    pub fn changed(&self) -> bool {
        let probe = match self.probe.try_lock() {
            Ok(probe) => probe,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.program().is_none_or(|program| !probe.knows(&program))
    }

    fn ask(&self) -> Probed {
        let Some(program) = self.program() else { return version::verdict(None) };
        // A panic in a probe leaves an older, still true result behind.
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        probe.check(&program, |args| {
            let path = std::env::join_paths(&self.path).unwrap_or_default();
            let env = [(OsString::from("PATH"), path), (OsString::from("HOME"), self.home.clone())];
            version::ask_program(&program, &args, &env, Path::new("/"), self.limit)
        })
    }
}
