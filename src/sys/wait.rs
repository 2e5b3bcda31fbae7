//! Waiting for several descriptors at once, over poll(2).
//!
//! Must not know what the descriptors are.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, an end of file, an event, an exit.
    Read,
    /// Room for bytes.
    Write,
}

/// Waits until one of `fds` is ready or `timeout` is over and says which ones are.
///
/// A hang-up or an error counts as ready, because the next read or write then tells what it is. A signal
/// does not end the wait. `timeout` is rounded up to whole milliseconds.
///
/// # Errors
/// The system's answer to poll.
pub fn wait(fds: &[(BorrowedFd<'_>, Interest)], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|(fd, what)| PollFd::new(*fd, flags(*what))).collect();
    let begin = Instant::now();
    loop {
        match poll(&mut polled, in_millis(timeout.saturating_sub(begin.elapsed()))) {
            // A long wait is cut by the system's range, so an empty answer is final only at its time.
            Ok(0) if begin.elapsed() < timeout => continue,
            Ok(_) => return Ok(polled.iter().map(ready).collect()),
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
    }
}

fn flags(what: Interest) -> PollFlags {
    match what {
        Interest::Read => PollFlags::POLLIN,
        Interest::Write => PollFlags::POLLOUT,
    }
}

/// Unknown bits count as ready too: the next read or write tells what they are.
fn ready(fd: &PollFd<'_>) -> bool {
    fd.revents().is_none_or(|events| !events.is_empty())
}

fn in_millis(left: Duration) -> PollTimeout {
    let millis = left.as_nanos().div_ceil(Duration::from_millis(1).as_nanos());
    i32::try_from(millis)
        .ok()
        .and_then(|millis| PollTimeout::try_from(millis).ok())
        .unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn says_which_descriptors_are_ready() {
        let (quiet, _keep) = std::io::pipe().unwrap();
        let (loud, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let fds = [
            (quiet.as_fd(), Interest::Read),
            (loud.as_fd(), Interest::Read),
            (writer.as_fd(), Interest::Write),
        ];
        assert_eq!(wait(&fds, Duration::MAX).unwrap(), [false, true, true]);
    }

    #[test]
    fn an_end_of_file_is_ready_and_nothing_is_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        let fds = [(reader.as_fd(), Interest::Read)];
        assert_eq!(wait(&fds, Duration::ZERO).unwrap(), [false]);
        assert_eq!(wait(&fds, Duration::from_micros(10)).unwrap(), [false]);
        drop(writer);
        assert_eq!(wait(&fds, Duration::MAX).unwrap(), [true]);
        assert!(wait(&[], Duration::ZERO).unwrap().is_empty());
    }
}
