//! The operating system, and the only unsafe code.

pub mod atomic_file;
pub mod beneath;
pub mod lock;
pub mod notify;
pub mod pidfd;
pub mod pipe;
pub mod private;
pub mod process;
pub mod signals;
