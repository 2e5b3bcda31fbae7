//! A listener that nobody may ever connect to.

use std::net::TcpListener;

/// Another origin than the server's, which must stay alone.
pub struct Trap(TcpListener);

impl Trap {
    /// Listens.
    pub fn new() -> Trap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Trap(listener)
    }

    /// Its origin.
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// Whether nobody came.
    pub fn is_untouched(&self) -> bool {
        self.0.accept().is_err_and(|fault| fault.kind() == std::io::ErrorKind::WouldBlock)
    }
}
