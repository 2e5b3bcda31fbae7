//! A runner that is started again whenever it has died.

use std::path::Path;

use crate::support::runner_process::RunnerProcess;
use crate::support::world::World;

/// The runner and its successors.
pub struct Mortal {
    runner: RunnerProcess,
    /// How often another one had to take its place.
    pub restarts: usize,
}

impl Mortal {
    /// Starts one as [`RunnerProcess::start`] does; its successors die at no visit.
    pub fn start(world: &World, at: Option<&str>, list: Option<&Path>) -> Mortal {
        Mortal { runner: RunnerProcess::start(world, at, list), restarts: 0 }
    }

    /// Whether it has died.
    pub fn has_died(&mut self) -> bool {
        self.runner.has_died()
    }

    /// Starts another one when this one has died.
    pub fn restart_if_dead(&mut self, world: &World) {
        if self.has_died() {
            self.runner = RunnerProcess::start(world, None, None);
            self.restarts += 1;
        }
    }

    /// Stops it, orderly unless its visit is one of the stop itself, or it has only just begun.
    pub fn stop(self) {
        self.runner.stop();
    }
}
