//! Telling the service manager how this process is: ready, at work, alive, stopping (sd_notify(3)).
//!
//! Must not know what makes the process alive; whoever says so must be what would be missed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Environment variable by which a service manager names its socket.
pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Environment variable with the time after which silence counts as a fault, microseconds (sd_watchdog_enabled(3)).
pub const WATCHDOG_USEC: &str = "WATCHDOG_USEC";

/// Environment variable with the process that the watchdog is meant for; absent: whoever has the others.
pub const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// The service manager that started this process, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceManager {
    socket: Option<OsString>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The one that `environment` names for the process `pid`.
    pub fn named_in(environment: &[(OsString, OsString)], pid: u32) -> ServiceManager {
        let value = |wanted: &str| {
            environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_os_str())
        };
        let number = |name: &str| value(name)?.to_str()?.parse::<u64>().ok();
        let for_us = value(WATCHDOG_PID).is_none() || number(WATCHDOG_PID) == Some(u64::from(pid));
        let limit = number(WATCHDOG_USEC).filter(|limit| for_us && *limit > 0);
        ServiceManager {
            socket: value(NOTIFY_SOCKET).filter(|socket| !socket.is_empty()).map(OsStr::to_owned),
            watchdog: limit.map(Duration::from_micros),
        }
    }

    /// Says `state` (for example `READY=1`); whether it was sent.
    ///
    /// A failure has no other consequence: the process works without a service manager.
    pub fn tell(&self, state: &str) -> bool {
        self.socket.as_deref().is_some_and(|socket| send(socket, state).is_ok())
    }

    /// How often the manager wants to hear that the process is alive: half of its limit, as sd_watchdog_enabled(3)
    /// advises. `None` when it does not watch.
    pub fn life_interval(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|limit| limit / 2)
    }
}

/// `socket` is a path, or a name in the abstract space after `@`.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    datagram.set_nonblocking(true)?;
    datagram.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    fn manager(rows: &[(&str, &str)]) -> ServiceManager {
        let rows: Vec<_> = rows.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        ServiceManager::named_in(&rows, 7)
    }

    #[test]
    fn the_service_manager_hears_a_state_by_path_and_by_abstract_name() {
        let home = TempDir::new().unwrap();
        let path = home.join("notify");
        let abstract_name = format!("ccr-{}", uuid::Uuid::new_v4());
        let by_name = SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap();
        let rows = [
            (path.display().to_string(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{abstract_name}"), UnixDatagram::bind_addr(&by_name).unwrap()),
        ];
        for (address, socket) in rows {
            assert!(manager(&[(NOTIFY_SOCKET, &address)]).tell("READY=1"));
            let mut got = [0; 64];
            let length = socket.recv(&mut got).unwrap();
            assert_eq!(&got[..length], b"READY=1");
        }
        assert!(!manager(&[(NOTIFY_SOCKET, &home.join("absent").display().to_string())]).tell("READY=1"));
        assert!(!manager(&[]).tell("READY=1"));
    }

    #[test]
    fn signs_of_life_come_at_half_the_limit_of_a_manager_that_watches_this_process() {
        let socket = (NOTIFY_SOCKET, "/run/notify");
        let rows: &[(&[(&str, &str)], Option<u64>)] = &[
            (&[socket], None),
            (&[socket, (WATCHDOG_USEC, "120000000")], Some(60)),
            (&[socket, (WATCHDOG_USEC, "120000000"), (WATCHDOG_PID, "7")], Some(60)),
            (&[socket, (WATCHDOG_USEC, "120000000"), (WATCHDOG_PID, "8")], None),
            (&[socket, (WATCHDOG_USEC, "120000000"), (WATCHDOG_PID, "seven")], None),
            (&[socket, (WATCHDOG_USEC, "0")], None),
            (&[socket, (WATCHDOG_USEC, "soon")], None),
            (&[(WATCHDOG_USEC, "120000000")], None),
            (&[(NOTIFY_SOCKET, ""), (WATCHDOG_USEC, "120000000")], None),
        ];
        for (environment, seconds) in rows {
            let found = manager(environment).life_interval();
            assert_eq!(found, seconds.map(Duration::from_secs), "{environment:?}");
        }
    }
}
