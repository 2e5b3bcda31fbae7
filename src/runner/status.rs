//! What the runner shows of itself in `status.json` of its state directory, for `claude-code-runner status`.
//!
//! Ids, numbers, times and codes only: no name, no path, no text of anybody.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::sdk::wire::Time;

/// Version of the file's shape; a reader leaves another one alone.
pub const STATUS_VERSION: u32 = 1;

/// How far the runner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing is known of the server yet.
    Connecting,
    /// The server is asked until it has nothing more to say; no run thread begins.
    Draining,
    /// The ordinary state.
    Serving,
    /// Nothing new; run threads let go of their turns.
    Stopping,
}

impl Phase {
    /// The phase in one word.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Connecting => "connecting",
            Phase::Draining => "draining",
            Phase::Serving => "serving",
            Phase::Stopping => "stopping",
        }
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Others are ahead of it, or it waits for the locks of its thread and session.
    Queued,
    /// Before its process, or behind it.
    AtWork,
    /// Its process lives.
    Turn,
}

/// One run that has a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// The run.
    pub run_id: Uuid,
    /// Where it is.
    pub step: Step,
    /// Since when this runner works on it.
    pub since: Time,
    /// How many runs are ahead of a queued one.
    pub ahead: Option<u64>,
}

/// What changes only when something happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// [`STATUS_VERSION`].
    pub status_version: u32,
    /// Version of the runner.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it began.
    pub started_at: Time,
    /// How far it is.
    pub phase: Phase,
    /// Version of the CLI; absent before the first probe and when there is none.
    pub runtime_version: Option<String>,
    /// What the last heartbeat complained of.
    pub degraded_reasons: Vec<String>,
    /// Turns at once.
    pub slots: usize,
    /// Runs without a thread for now, which wait for a newer token or a better moment.
    pub parked: usize,
    /// Runs with a thread.
    pub runs: Vec<RunStatus>,
}

impl Facts {
    /// One line for the service manager.
    pub fn line(&self) -> String {
        let count = |step| self.runs.iter().filter(|run| run.step == step).count();
        let (turns, queued) = (count(Step::Turn), count(Step::Queued));
        let mut line =
            format!("{}: {turns} of {} turns live, {queued} runs queued", self.phase.word(), self.slots);
        if !self.degraded_reasons.is_empty() {
            line += &format!("; degraded: {}", self.degraded_reasons.join(", "));
        }
        line
    }
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What changes only when something happens.
    #[serde(flatten)]
    pub facts: Facts,
    /// When this was written.
    pub written_at: Time,
    /// When the next one is written at the latest, while the main thread gets on.
    pub next_by: Time,
    /// When the server last answered anything but a refusal.
    pub last_contact_at: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_turns_and_queue_and_names_what_is_degraded() {
        let run = |step| RunStatus { run_id: Uuid::nil(), step, since: Time::from_millis(0), ahead: None };
        let mut facts = Facts {
            status_version: STATUS_VERSION,
            version: "1".into(),
            pid: 7,
            started_at: Time::from_millis(0),
            phase: Phase::Serving,
            runtime_version: None,
            degraded_reasons: Vec::new(),
            slots: 2,
            parked: 0,
            runs: vec![run(Step::Turn), run(Step::Queued), run(Step::AtWork), run(Step::Queued)],
        };
        assert_eq!(facts.line(), "serving: 1 of 2 turns live, 2 runs queued");
        facts.degraded_reasons = vec!["host_as_root".into()];
        assert!(facts.line().ends_with("; degraded: host_as_root"));
    }
}
