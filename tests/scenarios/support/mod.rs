//! What scenarios share.

pub mod logs;
pub mod openapi;
pub mod person;
pub mod raw_http;
pub mod runner_process;
pub mod service;
pub mod source;
pub mod spdx;
pub mod stand_in;
pub mod trap;
pub mod wait;
pub mod world;
