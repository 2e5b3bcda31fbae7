//! What scenarios share.

pub mod logs;
pub mod openapi;
pub mod person;
pub mod source;
pub mod spdx;
pub mod stand_in;
pub mod wait;
pub mod world;
