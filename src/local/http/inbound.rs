//! The reading half of a connection: heads and bodies, each with a time limit. Keeps what came too early.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::head::{self, Head, Refusal};
use super::{HEAD_LIMIT, IDLE_LIMIT, STALL_LIMIT};

/// Bytes of a head read from the socket at once.
const CHUNK: usize = 64 * 1024;
/// Bytes of a body that are collected before they are handed on: a part of a large file has some millions, and they
/// come in small pieces.
const BODY_CHUNK: u64 = 256 * 1024;

/// Why no request came.
#[derive(Debug)]
pub enum ReadFault {
    /// The head or body is not acceptable; answer and close.
    Refused(Refusal),
    /// The connection is gone or silent; nothing can be answered.
    Gone,
}

impl From<io::Error> for ReadFault {
    fn from(_: io::Error) -> ReadFault {
        ReadFault::Gone
    }
}

/// The other end of a connection, for an answer that makes sense only once.
pub struct Client(Option<TcpStream>);

impl Client {
    /// Whether it has closed the connection; one that cannot be looked at counts as there. To be called by the thread
    /// that reads the connection: for a moment the socket does not wait.
    pub fn has_gone(&self) -> bool {
        let Some(stream) = &self.0 else { return false };
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        let seen = stream.peek(&mut [0]);
        let restored = stream.set_nonblocking(false);
        match seen {
            Ok(count) => count == 0,
            Err(fault) => restored.is_err() || fault.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// A connection's reading side with its buffer.
pub struct Inbound<'a> {
    stream: &'a TcpStream,
    buffer: Vec<u8>,
}

impl<'a> Inbound<'a> {
    /// Starts reading from `stream`.
    pub fn new(stream: &'a TcpStream) -> Inbound<'a> {
        Inbound { stream, buffer: Vec::new() }
    }

    /// The other end.
    pub fn client(&self) -> Client {
        Client(self.stream.try_clone().ok())
    }

    /// The next head; `Gone` when the client closed or stayed silent for `IDLE_LIMIT`.
    pub fn head(&mut self) -> Result<Head, ReadFault> {
        let mut deadline = Instant::now() + IDLE_LIMIT;
        let mut begun = false;
        loop {
            if !begun && !self.buffer.is_empty() {
                begun = true;
                deadline = Instant::now() + HEAD_LIMIT;
            }
            if let Some((head, taken)) = head::parse(&self.buffer).map_err(ReadFault::Refused)? {
                self.buffer.drain(..taken);
                return Ok(head);
            }
            match self.fill(deadline) {
                Ok(()) => {}
                Err(fault) if begun && is_timeout(&fault) => {
                    return Err(ReadFault::Refused(Refusal { status: 408, code: "request_timeout" }));
                }
                Err(_) => return Err(ReadFault::Gone),
            }
        }
    }

    /// Says `100 Continue`, when the client waits for it and its body is wanted.
    pub fn invite(&mut self, head: &Head) -> Result<(), ReadFault> {
        if head.expects_continue && self.buffer.is_empty() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        Ok(())
    }

    /// Hands a body of `length` bytes to `sink`, piece by piece; a stall of `STALL_LIMIT` ends it.
    ///
    /// The error of `sink` is kept apart from the client's: the rest of the body is still unread then.
    pub fn body(
        &mut self,
        length: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, ReadFault> {
        let early = usize::try_from(length).unwrap_or(usize::MAX).min(self.buffer.len());
        let mut stored = if early > 0 { sink(&self.buffer[..early]) } else { Ok(()) };
        self.buffer.drain(..early);
        let mut left = length - early as u64;
        let mut piece = vec![0; usize::try_from(left.min(BODY_CHUNK)).unwrap_or(0)];
        while left > 0 && stored.is_ok() {
            // Never more than the body: what follows it belongs to the next request.
            let most = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.read_full(&mut piece[..most])?;
            stored = sink(&piece[..most]);
            left -= most as u64;
        }
        Ok(stored)
    }

    fn read_full(&mut self, piece: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < piece.len() {
            filled += self.read(&mut piece[filled..], Instant::now() + STALL_LIMIT)?;
        }
        Ok(())
    }

    /// Throws away up to `bound` bytes for `time`, so that an early answer is not lost in a reset.
    pub fn discard(&mut self, bound: u64, time: Duration) {
        self.buffer.clear();
        let deadline = Instant::now() + time;
        let mut seen = 0;
        while seen < bound && self.fill(deadline).is_ok() {
            seen += self.buffer.len() as u64;
            self.buffer.clear();
        }
    }

    fn fill(&mut self, deadline: Instant) -> io::Result<()> {
        let old = self.buffer.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(old + CHUNK, 0);
        let read = self.read(&mut buffer[old..], deadline);
        buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        self.buffer = buffer;
        read.map(|_| ())
    }

    /// Reads at least one byte until `deadline`.
    fn read(&mut self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        match read_again(&mut self.stream, into)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

fn read_again(stream: &mut &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn is_timeout(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
