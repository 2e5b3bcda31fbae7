//! The configuration file: raw text, checks, keys, secrets.

pub mod checks;
pub mod keys;
pub mod raw;
pub mod secret;
pub mod values;
