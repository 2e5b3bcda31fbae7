//! Scenarios: the whole program against the embedded server, and the rules that hold for all of it.

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod cli_faults;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod contract_walk;
#[cfg(test)]
mod core;
#[cfg(all(test, feature = "crash-points"))]
mod crash;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod happy_path;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod house;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod page;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod real_cli;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod turn;
