//! The runner as a process: `claude-code-runner run --config FILE`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::wait::DEADLINE;
use super::world::{World, private_file};

/// A running service; dropping it kills it.
pub struct Service {
    child: Child,
    log: PathBuf,
}

/// How a service ended.
pub struct Ended {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it printed on stderr.
    pub stderr: String,
}

impl Service {
    /// Starts the service of a world.
    pub fn start(world: &World) -> Service {
        Service::start_with(world, &world.config_text())
    }

    /// Starts it with another configuration.
    pub fn start_with(world: &World, config: &str) -> Service {
        let file = world.dir.join("runner.toml");
        private_file(&file, config);
        let mut command = Command::new(env!("CARGO_BIN_EXE_claude-code-runner"));
        command.args(["run", "--config"]).arg(&file).env_clear();
        command.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "runner")]);
        command.env("HOME", world.dir.join("home"));
        // A file, not a pipe: nobody has to read while it runs.
        let log = world.dir.join(format!("runner-{}.log", uuid::Uuid::new_v4()));
        let stderr = std::fs::File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        Service { child, log }
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let end = Instant::now() + DEADLINE;
        loop {
            let status = self.child.try_wait().unwrap();
            if let Some(status) = status {
                return Ended { code: status.code(), stderr: self.log_text() };
            }
            assert!(Instant::now() < end, "still running: {}", self.log_text());
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }

    /// What it has printed so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}
