//! The runner as a process of its own, which may die.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use claude_code_runner::sys::crash;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait::eventually;
use super::world::{World, private_file};

/// A started runner.
pub struct RunnerProcess(Child);

impl RunnerProcess {
    /// Starts `run` in `world`; it dies at the visit `at`, and lists its visits in `list`.
    pub fn start(world: &World, at: Option<&str>, list: Option<&Path>) -> RunnerProcess {
        let config = world.dir.join("runner.toml");
        private_file(&config, &world.config_text());
        let log = File::options().append(true).create(true).open(world.dir.join("runner.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_claude-code-runner"));
        command
            .arg("run")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.env_clear().envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "runner")]);
        command.env("HOME", world.dir.join("home"));
        command.envs(at.map(|at| (crash::AT, at)));
        command.envs(list.map(|list| (crash::LOG, list)));
        RunnerProcess(command.spawn().unwrap())
    }

    /// Whether it has died.
    pub fn has_died(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Starts another one when this one has died, which lives on.
    pub fn restart_if_dead(&mut self, world: &World) {
        if self.has_died() {
            *self = RunnerProcess::start(world, None, None);
        }
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Stops it orderly and says how it ended.
    pub fn stop(mut self) -> std::process::ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = kill(pid, Signal::SIGTERM);
        eventually("the runner has stopped", || self.0.try_wait().unwrap())
    }
}

impl Drop for RunnerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
