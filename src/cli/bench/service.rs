//! The service in a process of its own, its log stamped as it comes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};

use super::broken;
use super::place::Place;
use crate::cli::exit::Failure;

/// Longest wait for anything that must happen.
pub const SOON: Duration = Duration::from_secs(30);

/// A running service; dropping it kills it.
pub struct Service {
    child: Child,
    lines: Receiver<(Instant, String)>,
    started: Instant,
}

impl Service {
    /// Starts it.
    pub fn start(place: &Place) -> Result<Service, Failure> {
        let own = std::env::current_exe().map_err(broken("where is this program"))?;
        let mut command = Command::new(own);
        command.args(["run", "--config"]).arg(place.path("runner.toml")).env_clear();
        command.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "runner")]);
        command.env("HOME", place.path("home")).stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(broken("no service"))?;
        let (sender, lines) = unbounded();
        if let Some(stderr) = child.stderr.take() {
            let read = move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // Nobody measures any more.
                    let _ = sender.send((Instant::now(), line));
                }
            };
            std::thread::Builder::new().name("log".into()).spawn(read).map_err(broken("no thread"))?;
        }
        Ok(Service { child, lines, started })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When it said `code` next.
    pub fn said(&self, code: &str) -> Result<Instant, Failure> {
        let wanted = format!("\"code\":\"{code}\"");
        let end = Instant::now() + SOON;
        while let Ok((at, line)) = self.lines.recv_deadline(end) {
            if line.replace(' ', "").contains(&wanted) {
                return Ok(at);
            }
        }
        Err(Failure::new(format!("bench: the service never said {code}")))
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until `operation` came so many times and says when it did.
pub fn arrived(place: &Place, operation: &str, count: u64) -> Result<Instant, Failure> {
    let came = |seen: &[crate::local::hooks::Captured]| {
        seen.iter().any(|request| request.operation == operation && request.ordinal >= count)
    };
    if place.hooks.wait_until(SOON, came) {
        return Ok(Instant::now());
    }
    Err(Failure::new(format!("bench: {operation} never came")))
}
