//! The pipe into a child's stdin, and a waker for threads that wait for descriptors.
//!
//! Our end never blocks: what does not fit stays in a buffer until there is room, so a child that does not
//! read cannot stop its run's thread. Must not know what is written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::pipe2;

/// Makes a pipe for a child's stdin: the child's end (blocking) and ours (non-blocking).
///
/// # Errors
/// The system's answer, for example when no descriptor is left.
pub fn stdin_pipe() -> io::Result<(OwnedFd, PipeWriter)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader, PipeWriter { pipe: File::from(writer), pending: VecDeque::new() }))
}

/// Our end of a child's stdin. Dropping it closes the child's stdin.
#[derive(Debug)]
pub struct PipeWriter {
    pipe: File,
    pending: VecDeque<u8>,
}

impl PipeWriter {
    /// Puts `bytes` behind what is still to be written; writes nothing.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    /// Writes as much as fits and says whether all is written.
    ///
    /// # Errors
    /// `BrokenPipe` when the child closed its end (it may just have ended: R-11); else the system's answer.
    pub fn flush(&mut self) -> io::Result<bool> {
        while !self.pending.is_empty() {
            match self.pipe.write(self.pending.as_slices().0) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// How many bytes are still to be written.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

impl AsFd for PipeWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Makes a waker and the descriptor that it makes ready.
///
/// # Errors
/// The system's answer, for example when no descriptor is left.
pub fn waker() -> io::Result<(Waker, Wakeup)> {
    let event = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    Ok((Waker(Arc::clone(&event)), Wakeup(event)))
}

/// Wakes a thread that waits for the [`Wakeup`]; may be cloned into any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Makes the wakeup ready until it is drained; many calls count as one.
    pub fn wake(&self) {
        // The only failure is a full counter, and a full counter is ready already.
        let _ = self.0.write(1);
    }
}

/// The waiting side of a [`Waker`].
#[derive(Debug)]
pub struct Wakeup(Arc<EventFd>);

impl Wakeup {
    /// One more waker of this thread.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0))
    }

    /// Takes every wake so far and says whether there was one.
    pub fn drain(&self) -> bool {
        loop {
            match self.0.read() {
                Err(Errno::EINTR) => continue,
                answer => return answer.is_ok(),
            }
        }
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;
    use crate::sys::wait::{Interest, wait};

    #[test]
    fn what_does_not_fit_stays_pending_and_order_is_kept() {
        let (reader, mut writer) = stdin_pipe().unwrap();
        let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        writer.push(&sent[..10]);
        writer.push(&sent[10..]);
        assert!(!writer.flush().unwrap());
        assert!(writer.pending() > 0 && writer.pending() < sent.len());
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(reader).read_to_end(&mut all).unwrap();
            all
        });
        while !writer.flush().unwrap() {
            wait(&[(writer.as_fd(), Interest::Write)], Duration::MAX).unwrap();
        }
        assert_eq!(writer.pending(), 0);
        drop(writer);
        assert_eq!(reading.join().unwrap(), sent);
    }

    #[test]
    fn a_closed_reader_is_a_broken_pipe() {
        let (reader, mut writer) = stdin_pipe().unwrap();
        assert!(writer.flush().unwrap());
        drop(reader);
        writer.push(b"x");
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_waker_wakes_from_another_thread_and_is_drained_once() {
        let (waker, wakeup) = waker().unwrap();
        assert!(!wakeup.drain());
        let other = waker.clone();
        std::thread::spawn(move || other.wake()).join().unwrap();
        waker.wake();
        assert_eq!(wait(&[(wakeup.as_fd(), Interest::Read)], Duration::MAX).unwrap(), [true]);
        assert!(wakeup.drain());
        assert!(!wakeup.drain());
    }
}
