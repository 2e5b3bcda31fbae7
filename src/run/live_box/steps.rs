//! The steps of the live document: calls of tools, subagents, work beside the turn.
//!
//! Step ids are derived from the run and the CLI's own id, so a replay writes onto the same steps.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::{Sink, cut, word};
use crate::claude::message::{Assistant, TaskEnded, TaskStarted, TaskStatus, ToolResults};
use crate::sdk::wire::Time;
use crate::sdk::wire::run::{RunStep, StepKind, StepStatus};

/// Longest title of a step, characters: one line on a small screen or two.
const TITLE_MAX: usize = 200;

/// How far a step's beginning may lie behind the one before and still be moved behind it, milliseconds: lines of one
/// moment, not a clock that was set back.
const SAME_MOMENT: i64 = 1000;

/// `task_type` of a subagent.
const AGENT_TASK: &str = "local_agent";

/// A step that was shown.
struct Shown {
    step: RunStep,
    /// Whether it must be in the list of background tasks while it works.
    background: bool,
    /// Whether its end was only concluded from that list.
    concluded: bool,
}

/// All steps of a run.
pub(super) struct Steps {
    run_id: Uuid,
    /// Calls at work, by the CLI's id of the call.
    tools: BTreeMap<String, Shown>,
    /// Calls that have ended: nothing of them is needed but that they were shown.
    ended_tools: BTreeSet<Uuid>,
    /// By the CLI's id of the task.
    tasks: BTreeMap<String, Shown>,
    subagents: u64,
    background_jobs: Option<usize>,
    /// When the newest step began, milliseconds since 1970.
    newest: i64,
}

impl Steps {
    pub(super) fn new(run_id: Uuid) -> Steps {
        Steps {
            run_id,
            tools: BTreeMap::new(),
            ended_tools: BTreeSet::new(),
            tasks: BTreeMap::new(),
            subagents: 0,
            background_jobs: None,
            newest: i64::MIN,
        }
    }

    /// When a step begins: a millisecond behind the one before when both begin in one moment. A server need not keep
    /// the order of a document's members, so only their beginnings say which step came first.
    fn begins(&mut self, at: Time) -> Time {
        let behind = self.newest.saturating_sub(at.as_millis());
        let millis = if (0..=SAME_MOMENT).contains(&behind) { self.newest + 1 } else { at.as_millis() };
        self.newest = millis;
        Time::from_millis(millis)
    }

    pub(super) fn subagents(&self) -> u64 {
        self.subagents
    }

    pub(super) fn background_jobs(&self) -> u64 {
        self.background_jobs.map_or(0, |size| size as u64)
    }

    pub(super) fn tool_uses(&mut self, assistant: &Assistant, sink: &mut Sink<'_>) {
        let at = assistant.at_millis.map_or(sink.now, Time::from_millis);
        let parent = assistant.parent_tool_use_id.as_deref().and_then(|id| self.tool_step(id));
        for tool in &assistant.tool_uses {
            let id = self.step_id("tool", &tool.id);
            // The same message can be printed again (C1-13).
            if self.tools.contains_key(&tool.id) || self.ended_tools.contains(&id) {
                continue;
            }
            let step = RunStep {
                id,
                kind: StepKind::ToolCall,
                name: word(&tool.name, sink),
                title: title(&tool.subject, sink),
                status: StepStatus::Running,
                started_at: self.begins(at),
                finished_at: None,
                parent_step_id: parent,
                detail: None,
            };
            show(&step, sink);
            self.tools.insert(tool.id.clone(), Shown { step, background: false, concluded: false });
        }
    }

    pub(super) fn tool_results(&mut self, results: &ToolResults, sink: &mut Sink<'_>) {
        let at = results.at_millis.map_or(sink.now, Time::from_millis);
        for result in &results.results {
            let status = if result.is_error { StepStatus::Failed } else { StepStatus::Completed };
            if let Some(mut shown) = self.tools.remove(&result.tool_use_id) {
                shown.finish(status, at, sink);
                self.ended_tools.insert(shown.step.id);
            }
        }
    }

    pub(super) fn task_started(&mut self, task: &TaskStarted, sink: &mut Sink<'_>) {
        let agent = task.task_type.as_deref() == Some(AGENT_TASK);
        // A tool in the foreground that runs long is announced as a task too; its own step shows it already.
        let shown_already = !agent && !task.backgrounded;
        if task.ambient || shown_already || self.tasks.contains_key(&task.task_id) {
            return;
        }
        let kind = if agent { StepKind::Subagent } else { StepKind::BackgroundJob };
        let name = task.subagent_type.as_deref().filter(|_| agent).or(task.task_type.as_deref());
        let step = RunStep {
            id: self.step_id("task", &task.task_id),
            kind,
            name: word(name.unwrap_or_default(), sink),
            title: title(&task.description, sink),
            status: StepStatus::Running,
            started_at: self.begins(sink.now),
            finished_at: None,
            parent_step_id: task.tool_use_id.as_deref().and_then(|id| self.tool_step(id)),
            detail: agent.then(|| BTreeMap::from([("type".to_owned(), AGENT_TASK.to_owned())])),
        };
        show(&step, sink);
        self.tasks
            .insert(task.task_id.clone(), Shown { step, background: task.backgrounded, concluded: false });
        if agent {
            self.subagents += 1;
            sink.document.set("/metrics/subagents", self.subagents.into());
        }
    }

    pub(super) fn task_ended(&mut self, task: &TaskEnded, sink: &mut Sink<'_>) {
        let status = match task.status {
            TaskStatus::Completed => StepStatus::Completed,
            TaskStatus::Failed => StepStatus::Failed,
            TaskStatus::Stopped => StepStatus::Cancelled,
            TaskStatus::Other => return,
        };
        let now = sink.now;
        if let Some(shown) = self.tasks.get_mut(&task.task_id) {
            shown.finish(status, now, sink);
        }
    }

    pub(super) fn background_tasks(&mut self, tasks: &[String], sink: &mut Sink<'_>) {
        let now = sink.now;
        for (id, shown) in &mut self.tasks {
            if shown.background && shown.is_running() && !tasks.contains(id) {
                shown.finish(StepStatus::Completed, now, sink);
                shown.concluded = true;
            }
        }
        if self.background_jobs != Some(tasks.len()) {
            self.background_jobs = Some(tasks.len());
            sink.document.set("/metrics/background_jobs", tasks.len().into());
        }
    }

    pub(super) fn end(&mut self, status: StepStatus, sink: &mut Sink<'_>) {
        let now = sink.now;
        for shown in self.tools.values_mut().chain(self.tasks.values_mut()) {
            shown.finish(status, now, sink);
        }
    }

    pub(super) fn failed_status(&mut self, name: &str, detail: &[(&str, &str)], sink: &mut Sink<'_>) {
        let detail: BTreeMap<_, _> =
            detail.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let at = self.begins(sink.now);
        let step = RunStep {
            id: self.step_id("status", name),
            kind: StepKind::Status,
            name: name.to_owned(),
            title: String::new(),
            status: StepStatus::Failed,
            started_at: at,
            finished_at: Some(at),
            parent_step_id: None,
            detail: Some(detail).filter(|detail| !detail.is_empty()),
        };
        show(&step, sink);
    }

    fn tool_step(&self, tool_use_id: &str) -> Option<Uuid> {
        let id = self.step_id("tool", tool_use_id);
        (self.tools.contains_key(tool_use_id) || self.ended_tools.contains(&id)).then_some(id)
    }

    /// A UUID of version 8 (RFC 9562) over run, kind and the CLI's id.
    fn step_id(&self, kind: &str, id: &str) -> Uuid {
        let hash = Sha256::new()
            .chain_update(self.run_id.as_bytes())
            .chain_update(kind.as_bytes())
            .chain_update([0])
            .chain_update(id.as_bytes())
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Builder::from_bytes(bytes).with_version(Version::Custom).with_variant(Variant::RFC4122).into_uuid()
    }
}

impl Shown {
    fn is_running(&self) -> bool {
        self.step.status == StepStatus::Running
    }

    /// Ends a step once; an end that was only concluded gives way to a stated one.
    fn finish(&mut self, status: StepStatus, at: Time, sink: &mut Sink<'_>) {
        let stated_later = self.concluded && self.step.status != status;
        self.concluded = false;
        if self.is_running() || stated_later {
            self.step.status = status;
            self.step.finished_at = Some(at.max(self.step.started_at));
            show(&self.step, sink);
        }
    }
}

fn show(step: &RunStep, sink: &mut Sink<'_>) {
    sink.document.set(&format!("/steps/{}", step.id), json!(step));
}

/// The first line with something on it, masked before it is cut, without control characters.
fn title(text: &str, sink: &Sink<'_>) -> String {
    let masked = (sink.mask)(text);
    let line = masked.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = cut(line, TITLE_MAX);
    if line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return line.to_owned();
    }
    line.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}
