//! The CLI as a program: where it is and which version, looked at again when the file changes.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::claude::environment::{clean_path, find_program};
use crate::claude::version::{self, Probed, VersionProbe};
use crate::config::Config;
use crate::sys::process::run_probe;

/// The CLI of `runner.claude_bin`.
pub struct Runtime {
    name: String,
    path: Vec<PathBuf>,
    limit: Duration,
    home: OsString,
    probe: Mutex<VersionProbe>,
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
        }
    }

    /// The program, looked up in the cleaned PATH.
    pub fn program(&self) -> Option<PathBuf> {
        find_program(&self.name, &self.path)
    }

    /// The version now; the program is run only when its file differs from the last time.
    pub fn probed(&self) -> Probed {
        let Some(program) = self.program() else { return version::verdict(None) };
        // A panic in a probe leaves an older, still true result behind.
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        probe.check(&program, |args| self.run(&program, args))
    }

    /// Whether the program's file differs from the last answer, or there is none yet.
    pub fn changed(&self) -> bool {
        let probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        self.program().is_none_or(|program| !probe.knows(&program))
    }

    fn run(&self, program: &std::path::Path, args: Vec<OsString>) -> Option<Vec<u8>> {
        let path = std::env::join_paths(&self.path).unwrap_or_default();
        let env = vec![(OsString::from("PATH"), path), (OsString::from("HOME"), self.home.clone())];
        let cwd = std::path::Path::new(OsStr::new("/"));
        run_probe(program, &args, &env, cwd, self.limit)
            .ok()
            .filter(|out| out.exit.is_some())
            .map(|out| out.stdout)
    }
}
