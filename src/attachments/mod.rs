//! Files in and out of a turn.

pub mod attach_lines;
pub mod candidate;
pub mod delivery;
mod fence;
pub mod incoming;
pub mod notice;
pub mod outcome;
pub mod policy;
pub mod record;
pub mod set;
pub mod staging;
#[cfg(test)]
mod world;
