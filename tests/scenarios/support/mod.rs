//! What scenarios share.

pub mod openapi;
pub mod source;
pub mod spdx;
