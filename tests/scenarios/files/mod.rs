//! Files of people and files with answers: in unchanged, out all or none.

mod attached;
mod crash;
mod incoming;
mod odd;
mod refused;
mod rows;
mod sweep;
mod tracer;
mod world;
