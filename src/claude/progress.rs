//! How far a run's turns are: which results are answers, what became of each sent line, when all is done.
//!
//! A pure function of the messages and of what was sent: no clock, no file. Rereading a recording from
//! its start gives the same effects in the same order with the same positions. It must not know how answers
//! are delivered or how the process is ended.

use std::collections::BTreeSet;

use super::error_table::{Failure, classify};
use super::message::{Init, LifecycleState, Message, TaskEnded, TurnResult};

mod lines;
#[cfg(test)]
mod tests;

use lines::Lines;
pub use lines::{Fate, Purpose};

/// What the caller has to act on.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A turn of the process began: check the key source, report the session.
    Init(Init),
    /// Post this text; an empty one is counted and not posted.
    Answer(Answer),
    /// A turn that answers sent lines failed.
    Failed(FailedTurn),
    /// The one `/compact` has ended.
    CompactDone {
        /// Whether it made room.
        ok: bool,
    },
    /// Report this state of a follow-up.
    Followup {
        /// The follow-up.
        id: String,
        /// Its state.
        fate: Fate,
    },
    /// The CLI asks something; answer with an error response.
    ControlRequest {
        /// What the response must name.
        request_id: String,
    },
    /// The service refuses the key: end the turn at once.
    NotAuthenticated,
    /// A result that answers nothing the runner sent was dropped.
    ForeignResult,
}

/// The text of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Counts the answers of the run from 1.
    pub position: u32,
    /// The text as the CLI printed it.
    pub text: String,
    /// The sent lines it answers; empty for background work.
    pub uuids: Vec<String>,
}

/// A failed result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTurn {
    /// What it means.
    pub failure: Failure,
    /// The sent lines it was to answer: the ones to send again after a compaction.
    pub uuids: Vec<String>,
    /// Error texts of the CLI, for `error_table::start_fault` only.
    pub errors: Vec<String>,
}

/// How the last result that names a sent line ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Success,
    /// With an error.
    Failed(Failure),
}

/// The state of a run's turns.
#[derive(Debug, Default)]
pub struct Progress {
    lines: Lines,
    answers: u32,
    foreign_results: u32,
    outcome: Option<Outcome>,
    /// The tasks that run beside the turn.
    background: BTreeSet<String>,
    /// Whether the model was told of a task's end and its turn has no result yet.
    notified: bool,
    /// Whether a turn began and has no result yet.
    turn_open: bool,
    tools: BTreeSet<String>,
    last_error: Option<String>,
    resets_at: Option<i64>,
    text_seen: bool,
    stopped: bool,
    /// Whether it was told that the service refuses the key.
    refused: bool,
}

impl Progress {
    /// A run to which nothing was sent yet.
    pub fn new() -> Progress {
        Progress::default()
    }

    /// A line with this uuid was or will be written to the process. To be called before its first message is taken.
    pub fn sent(&mut self, uuid: &str, purpose: Purpose) {
        self.lines.add(uuid, purpose);
    }

    /// The line `old` is sent again as `new` (after a compaction or in a new process). What becomes of a follow-up is
    /// told by the new line only.
    pub fn sent_again(&mut self, old: &str, new: &str) {
        self.lines.replace(old, new);
    }

    /// Another process takes over the run: tasks, tools and turns of the one before are forgotten. Its open lines must be
    /// sent again (`sent_again`).
    pub fn process_started(&mut self) {
        self.background.clear();
        self.tools.clear();
        self.notified = false;
        self.turn_open = false;
        self.last_error = None;
        self.text_seen = false;
        self.refused = false;
    }

    /// Takes the next message.
    pub fn on(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Init(init) => {
                self.turn_open = true;
                vec![Effect::Init(init)]
            }
            Message::Lifecycle { uuid, state } => self.on_lifecycle(&uuid, state),
            Message::Result(result) => self.on_result(*result),
            Message::ControlRequest { request_id } => vec![Effect::ControlRequest { request_id }],
            Message::ApiRetry(retry) => {
                let refused =
                    retry.error == "authentication_failed" || retry.error_status == Some(UNAUTHORIZED);
                let new = refused && !std::mem::replace(&mut self.refused, true);
                if new { vec![Effect::NotAuthenticated] } else { Vec::new() }
            }
            other => {
                self.note(other);
                Vec::new()
            }
        }
    }

    /// Messages that change the state and cause nothing.
    fn note(&mut self, message: Message) {
        match message {
            Message::Assistant(assistant) => {
                self.tools.extend(assistant.tool_uses.into_iter().map(|tool| tool.id));
                self.resets_at = assistant.resets_at.or(self.resets_at);
                let answers = assistant.parent_tool_use_id.is_none() && assistant.error.is_none();
                self.text_seen |= answers && !assistant.text.is_empty();
                self.last_error = assistant.error.or(self.last_error.take());
            }
            Message::ToolResults(results) => {
                for result in results.results {
                    self.tools.remove(&result.tool_use_id);
                }
            }
            Message::RateLimit { resets_at } => self.resets_at = resets_at.or(self.resets_at),
            Message::BackgroundTasks(tasks) => self.background = tasks.into_iter().collect(),
            Message::TaskEnded(TaskEnded { notification: true, .. }) => self.notified = true,
            _ => {}
        }
    }

    fn on_lifecycle(&mut self, uuid: &str, state: LifecycleState) -> Vec<Effect> {
        let fates = self.lines.on_lifecycle(uuid, state);
        // A line's end follows its result, so a turn that began for the lines and has none yet will have none. What
        // a task's end began is waited for as `notified`.
        self.turn_open &= !(self.lines.knows(uuid) && self.lines.all_ended());
        fates.into_iter().map(followup).collect()
    }

    fn on_result(&mut self, mut result: TurnResult) -> Vec<Effect> {
        self.turn_open = false;
        self.notified = false;
        self.tools.clear();
        let error = self.last_error.take();
        let uuids: Vec<String> =
            std::mem::take(&mut result.uuids).into_iter().filter(|uuid| self.lines.knows(uuid)).collect();
        if self.lines.is_compact(&uuids) || result.local_command.as_deref() == Some("compact") {
            let done = Effect::CompactDone { ok: result.is_success() };
            let fates = self.lines.on_result(&uuids, true);
            return [done].into_iter().chain(fates.into_iter().map(followup)).collect();
        }
        // A result without an id of its own: the CLI could not start the turn at all.
        let unstarted = !result.errors.is_empty() && !self.lines.any_started();
        if uuids.is_empty() && result.origin.as_deref() != Some("task-notification") && !unstarted {
            self.foreign_results += 1;
            return vec![Effect::ForeignResult];
        }
        if result.is_success() {
            self.succeeded(result, uuids)
        } else {
            self.failed(&result, uuids, error.as_deref())
        }
    }

    fn succeeded(&mut self, result: TurnResult, uuids: Vec<String>) -> Vec<Effect> {
        if !uuids.is_empty() {
            self.set_outcome(Outcome::Success);
        }
        self.answers += 1;
        let fates = self.lines.on_result(&uuids, true);
        let text = result.text.unwrap_or_default();
        let answer = Effect::Answer(Answer { position: self.answers, text, uuids });
        [answer].into_iter().chain(fates.into_iter().map(followup)).collect()
    }

    fn failed(&mut self, result: &TurnResult, uuids: Vec<String>, error: Option<&str>) -> Vec<Effect> {
        let failure = classify(result, error, self.resets_at);
        if result.origin.as_deref() != Some("task-notification") || !uuids.is_empty() {
            self.set_outcome(Outcome::Failed(failure.clone()));
        }
        // After a full context the lines can be sent again, so nothing is said about them yet.
        let final_now = failure.reason != super::error_table::Reason::ContextFull;
        let fates = self.lines.on_result(&uuids, final_now);
        let failed = Effect::Failed(FailedTurn { failure, uuids, errors: result.errors.clone() });
        [failed].into_iter().chain(fates.into_iter().map(followup)).collect()
    }

    /// Only results before a signal of the runner say how the run went.
    fn set_outcome(&mut self, outcome: Outcome) {
        if !self.stopped {
            self.outcome = Some(outcome);
        }
    }

    /// The runner stops the run: every open follow-up is final, later results do not count.
    pub fn stop(&mut self) -> Vec<Effect> {
        self.stopped = true;
        self.lines.end(true).into_iter().map(followup).collect()
    }

    /// The process has ended and its stream is read to the end.
    pub fn process_ended(&mut self) -> Vec<Effect> {
        self.tools.clear();
        self.turn_open = false;
        self.lines.end(self.stopped).into_iter().map(followup).collect()
    }

    /// Whether nothing is left to wait for: every sent line has ended, no task runs beside the turn, and no turn is
    /// without its result.
    pub fn finished(&self) -> bool {
        self.lines.all_ended() && self.background.is_empty() && !self.notified && !self.turn_open
    }

    /// Whether only work beside the turn is left, which `runner.background_wait` bounds.
    pub fn waits_for_background(&self) -> bool {
        self.lines.all_ended() && !self.turn_open && (self.notified || !self.background.is_empty())
    }

    /// Number of tasks that run beside the turn.
    pub fn background_open(&self) -> usize {
        self.background.len()
    }

    /// Whether a tool is at work, so that silence is no sign of a stuck turn.
    pub fn tools_running(&self) -> bool {
        !self.tools.is_empty()
    }

    /// How the last result that names a sent line ended; `None` without one.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether the model wrote text that could be an incomplete answer.
    pub fn text_seen(&self) -> bool {
        self.text_seen
    }

    /// Number of lines that were sent.
    pub fn lines_sent(&self) -> usize {
        self.lines.len()
    }

    /// Number of answers so far.
    pub fn answers(&self) -> u32 {
        self.answers
    }

    /// Number of results that were dropped because they answer nothing that was sent.
    pub fn foreign_results(&self) -> u32 {
        self.foreign_results
    }
}

/// HTTP status of a refused key.
const UNAUTHORIZED: u16 = 401;

fn followup((id, fate): (String, Fate)) -> Effect {
    Effect::Followup { id, fate }
}
