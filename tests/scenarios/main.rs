//! Scenarios: the whole program against the embedded server.

mod contract;
mod house;
mod support;
