//! The main thread.

pub mod channels;
pub mod courier;
pub mod event;
pub mod readiness;
pub mod sweep;
pub mod table;
