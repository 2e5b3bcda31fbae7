//! Scenarios: the whole program against the embedded server, and the rules that hold for all of it.

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod contract_walk;
mod core;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod happy_path;
#[cfg(test)]
mod house;
#[cfg(test)]
mod page;
mod readme;
#[cfg(test)]
mod real_cli;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod turn;
