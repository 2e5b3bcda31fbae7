//! The runner as a process of its own, which may die.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use claude_code_runner::sys::crash;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait::eventually;
use super::world::{World, private_file};

/// A started runner.
pub struct RunnerProcess {
    child: Child,
    log: PathBuf,
}

impl RunnerProcess {
    /// Starts `run` in `world`; it dies at the visit `at`, and lists its visits in `list`.
    pub fn start(world: &World, at: Option<&str>, list: Option<&Path>) -> RunnerProcess {
        RunnerProcess::start_with(world, &[], |command| {
            command.envs(at.map(|at| (crash::AT, at)));
            command.envs(list.map(|list| (crash::LOG, list)));
        })
    }

    /// Starts `run` in `world` with these words behind it, after `change` has had its say.
    pub fn start_with(world: &World, words: &[&str], change: impl FnOnce(&mut Command)) -> RunnerProcess {
        let config = world.dir.join("runner.toml");
        private_file(&config, &world.config_text());
        let path = world.dir.join("runner.log");
        let log = File::options().append(true).create(true).open(&path).unwrap();
        // The shell gives the process the usual mask, or the one of `start_without_mask`.
        let mut command = Command::new("/bin/sh");
        command
            .args([
                "-c",
                "umask ${RUNNER_MASK:-022}; exec \"$0\" \"$@\"",
                env!("CARGO_BIN_EXE_claude-code-runner"),
            ])
            .arg("run")
            .arg("--config")
            .arg(&config)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.env_clear().envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "runner")]);
        command.env("HOME", world.dir.join("home"));
        change(&mut command);
        RunnerProcess { child: command.spawn().unwrap(), log: path }
    }

    /// Starts `run` in `world` as a service manager without a mask does.
    pub fn start_without_mask(world: &World) -> RunnerProcess {
        RunnerProcess::start_with(world, &[], |command| {
            command.env("RUNNER_MASK", "000");
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has died.
    pub fn has_died(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it has ended by itself and says how.
    pub fn ends(&mut self) -> std::process::ExitStatus {
        eventually("the runner has ended", || self.child.try_wait().unwrap())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it orderly and says how it ended.
    pub fn stop(mut self) -> std::process::ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let _ = kill(pid, Signal::SIGTERM);
        eventually("the runner has stopped", || self.child.try_wait().unwrap())
    }
}

impl Drop for RunnerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
