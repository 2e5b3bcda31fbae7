//! A report as lines for people.

use super::report::{Report, RunReport, RunStep, State};
use crate::cli::show;
use crate::runner::status::Status;

/// Seconds of a minute, and minutes of an hour.
const SIXTY: i64 = 60;

/// Hours of a day.
const DAY_HOURS: i64 = 24;

/// The lines.
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![head(report)];
    lines.extend(report.last_contact_s.map(|ago| format!("server   last answer {} ago", age(ago))));
    if let Some(runner) = &report.runner {
        lines.extend(about(runner, report.running));
    }
    lines.extend(report.runs.iter().map(run));
    lines.push(match (&report.waiting, report.waiting_fault) {
        (Some(waiting), _) => format!(
            "inbox    {} open runs, {} follow-ups, {} refusals and {} reports to deliver",
            waiting.open_runs, waiting.followups, waiting.refusals, waiting.deliveries
        ),
        (None, Some(fault)) => format!("inbox    cannot be read ({fault})"),
        (None, None) => "inbox    none yet".to_owned(),
    });
    lines.push(disk(report));
    lines
}

fn head(report: &Report) -> String {
    let word = match report.state {
        State::NotRunning | State::Unknown => return format!("runner   {}", untold(report)),
        State::Stuck => "runs and does not get on; restart it, its turns live through that",
        State::Connecting => "looks for the server",
        State::Draining => "asks the server what it missed",
        State::Serving => "serves",
        State::Stopping => "stops",
    };
    let Some(Status { facts, .. }) = &report.runner else { return format!("runner   {word}") };
    format!("runner   {word} (version {}, process {}, since {})", facts.version, facts.pid, facts.started_at)
}

/// The head where the runner's own words are missing or old.
fn untold(report: &Report) -> String {
    match (report.state, report.runner_fault) {
        (State::NotRunning, None) => "does not run; what follows is what the last one left".to_owned(),
        (State::NotRunning, Some(fault)) => {
            format!("does not run; what the last one wrote into status.json cannot be read ({fault})")
        }
        (_, None) => "runs and has shown nothing yet".to_owned(),
        (_, Some("disk_full")) => {
            "runs, and cannot show how it is because its disk is full; make room".to_owned()
        }
        (_, Some(fault)) => {
            format!("runs, but its status.json cannot be read ({fault}); remove it, it is written anew")
        }
    }
}

fn about(runner: &Status, running: bool) -> Vec<String> {
    let facts = &runner.facts;
    let mut lines = Vec::new();
    lines.extend(
        facts.runtime_version.as_ref().map(|version| format!("CLI      version {}", show::one_line(version))),
    );
    if !facts.degraded_reasons.is_empty() {
        lines.push(format!("degraded {}", show::one_line(&facts.degraded_reasons.join(", "))));
    }
    if running {
        lines.push(format!(
            "runs     {} ({} turns at once, {} set aside)",
            facts.runs.len(),
            facts.slots,
            facts.parked
        ));
    }
    lines
}

fn run(run: &RunReport) -> String {
    let step = match run.step {
        RunStep::Queued => "queued",
        RunStep::AtWork => "at work",
        RunStep::Turn => "turn",
        RunStep::TurnAlone => "turn without a runner",
        RunStep::Left => "waits for the next start",
    };
    let mut line = format!("         {} {step}, {}", run.run_id, age(run.age_s));
    line.extend(run.ahead.map(|ahead| format!(", {ahead} ahead")));
    if let (Some(bytes), Some(silent)) = (run.output_bytes, run.silent_s) {
        line += &format!(", printed {}, the last {} ago", show::size(bytes), age(silent));
    }
    line
}

fn disk(report: &Report) -> String {
    let parts: Vec<_> = report
        .disk
        .parts
        .iter()
        .map(|part| format!("{} {}", show::one_line(&part.name), show::size(part.bytes)))
        .collect();
    let free = report.disk.free_bytes.map(|free| format!(", {} free", show::size(free))).unwrap_or_default();
    let list = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("disk     {} used{list}{free}", show::size(report.disk.used_bytes))
}

/// A time for people: its two largest units.
fn age(seconds: i64) -> String {
    let (minutes, hours) = (seconds / SIXTY, seconds / SIXTY / SIXTY);
    let days = hours / DAY_HOURS;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % SIXTY),
        (0, _, _) => format!("{hours} h {} min", minutes % SIXTY),
        _ => format!("{days} d {} h", hours % DAY_HOURS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        for (seconds, text) in [(0, "0 s"), (61, "1 min 1 s"), (3_720, "1 h 2 min"), (90_000, "1 d 1 h")] {
            assert_eq!(age(seconds), text);
        }
    }
}
