//! The service under a service manager: readiness, status text, watchdog, stop, told to a stand-in for its socket.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::libc::O_NONBLOCK;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::command;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{Setup, World};

/// The limit that the stand-in sets; signs of life come every 100 ms.
const LIMIT_USEC: &str = "200000";

/// Many intervals: that long without a sign of life is no accident.
const SILENCE: Duration = Duration::from_secs(2);

/// A stand-in for the manager's socket.
struct Manager(UnixDatagram);

impl Manager {
    fn new(world: &World) -> Manager {
        let socket = UnixDatagram::bind(world.dir.join("notify")).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        Manager(socket)
    }

    /// The next state; `None` when none comes for [`SILENCE`].
    fn hears(&self) -> Option<String> {
        let mut got = [0; 4096];
        match self.0.recv(&mut got) {
            Ok(length) => Some(String::from_utf8(got[..length].to_vec()).unwrap()),
            Err(fault) if matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(fault) => panic!("{fault}"),
        }
    }

    /// What came until `wanted` did.
    #[track_caller]
    fn hears_until(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let end = std::time::Instant::now() + DEADLINE;
        let mut all = Vec::new();
        while !all.last().is_some_and(|state: &String| wanted(state)) {
            assert!(std::time::Instant::now() < end, "only {all:?}");
            all.extend(self.hears());
        }
        all
    }
}

struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(world: &World, log: OwnedFd) -> Running {
    let mut run = command(world, &["run"]);
    run.env("NOTIFY_SOCKET", world.dir.join("notify")).env("WATCHDOG_USEC", LIMIT_USEC);
    Running(run.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

#[test]
fn the_manager_hears_that_the_runner_is_ready_alive_and_stopping() {
    let mut world = World::without_runner(Setup::default());
    let manager = Manager::new(&world);
    world.server.stop();
    let log = File::create(world.dir.join("log")).unwrap();
    let mut running = start(&world, log.into());
    let before = manager.hears_until(|state| state == "WATCHDOG=1");
    assert!(before.iter().any(|state| state.starts_with("STATUS=connecting")), "{before:?}");
    assert!(!before.contains(&"READY=1".to_owned()), "not before the server has answered");
    world.restart_server();
    manager.hears_until(|state| state == "READY=1");
    manager.hears_until(|state| state == "STATUS=serving: 0 of 2 turns live, 0 runs queued");
    manager.hears_until(|state| state == "WATCHDOG=1");
    running.signal(Signal::SIGTERM);
    let last = manager.hears_until(|state| state.starts_with("STATUS=stopping"));
    assert!(last.contains(&"STOPPING=1".to_owned()), "{last:?}");
    assert_eq!(eventually("the runner has ended", || running.0.try_wait().unwrap()).code(), Some(0));
}

#[test]
fn a_main_loop_that_is_stuck_starves_the_watchdog() {
    let world = World::without_runner(Setup::default());
    let manager = Manager::new(&world);
    let (mut reader, writer) = std::io::pipe().unwrap();
    // The same pipe opened anew, so that only this side does not wait when it is full.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path).unwrap();
    let running = start(&world, writer.into());
    manager.hears_until(|state| state.starts_with("STATUS=serving"));
    // The log has no room any more, and the main thread is made to write a line: it waits for the reader.
    while filler.write(&[b'\n'; 4096]).is_ok() {}
    while filler.write(b"\n").is_ok() {}
    running.signal(Signal::SIGHUP);
    let end = std::time::Instant::now() + DEADLINE;
    while manager.hears().is_some() {
        assert!(std::time::Instant::now() < end, "a stuck main loop still gives signs of life");
    }
    std::thread::spawn(move || {
        let mut rest = [0; 4096];
        while reader.read(&mut rest).is_ok_and(|read| read > 0) {}
    });
    manager.hears_until(|state| state == "WATCHDOG=1");
}
