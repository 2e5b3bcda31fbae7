//! Scenarios: the whole program against the embedded server, and the rules that hold for all of it.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod happy_path;
#[cfg(test)]
mod house;
#[cfg(test)]
mod page;
#[cfg(test)]
mod real_cli;
#[cfg(test)]
mod support;
