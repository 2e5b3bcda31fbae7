//! `bench`: the footprint of the service on this machine, one table. Not in `--help`; `scripts/bench` calls it.
//!
//! The embedded server runs in this process, the service in one of its own, the stand-in in a third. Every
//! section is a function that gives rows, so that sections can be added; the table is printed at the end.

mod idle;
mod latency;
mod place;
mod service;
mod streams;

use super::exit::{self, Failure};
use super::show;

/// What a section gives.
type Rows = Result<Vec<Row>, Failure>;

/// One measured number.
pub struct Row {
    /// What was measured.
    what: &'static str,
    /// What came out, with its unit.
    found: String,
    /// What it should be.
    aim: &'static str,
}

impl Row {
    fn new(what: &'static str, found: String, aim: &'static str) -> Row {
        Row { what, found, aim }
    }
}

/// Measures one part.
type Section = fn() -> Rows;

/// Measures and prints.
///
/// # Errors
/// What kept it from measuring. A missed aim is no error: the table says both.
pub fn bench() -> Result<u8, Failure> {
    let sections: [(&str, Section); 4] = [
        ("idle", idle::measure),
        ("start", latency::starts),
        ("turn", latency::turns),
        ("stream", streams::measure),
    ];
    let mut rows = Vec::new();
    for (name, section) in sections {
        show::line(&format!("measuring: {name}"));
        rows.extend(section()?);
    }
    show::line(&format!("\n{:<52} {:>16}  {}", "what", "measured", "aim"));
    for row in rows {
        show::line(&format!("{:<52} {:>16}  {}", row.what, row.found, row.aim));
    }
    Ok(exit::OK)
}

/// Lets time pass while something else is watched.
fn rest(time: std::time::Duration) {
    let _ = crossbeam_channel::after(time).recv();
}

/// The middle one, milliseconds.
fn median(mut times: Vec<std::time::Duration>) -> String {
    times.sort();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    format!("{:.1} ms", middle.as_secs_f64() * 1e3)
}

/// A failure of this machine while measuring.
fn broken(what: &str) -> impl Fn(std::io::Error) -> Failure {
    let what = what.to_owned();
    move |fault| Failure::new(format!("bench: {what} ({})", fault.kind()))
}
