//! The operating system (Linux), and the only unsafe code of this crate.
//!
//! Every module here wraps one facility and knows nothing of runs, of the server or of Claude Code.
//! Invariants: each descriptor made here is close-on-exec; each file or directory made here is private to
//! its owner from the moment it exists; no process is ever signalled by a bare process id.

pub mod atomic_file;
pub mod beneath;
pub mod crash;
pub mod digest;
pub mod fault;
pub mod lock;
pub mod notify;
pub mod pidfd;
pub mod pipe;
pub mod place;
pub mod private;
pub mod process;
pub mod service_manager;
pub mod signals;
pub mod wait;
pub mod write_out;
