//! What is new in a run document since the last look, as lines for people. Pure: no clock, no network, no terminal.

use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use crate::sdk::wire::Time;
use crate::sdk::wire::person::RunDocument;
use crate::sdk::wire::run::{ApiRetry, RunState, RunStep, StepKind, StepStatus};

/// Milliseconds of a second.
const SECOND: f64 = 1000.0;

/// What was said of a run so far.
#[derive(Default)]
pub struct Tracker {
    state: Option<RunState>,
    model: Option<String>,
    status_line: Option<String>,
    steps: BTreeMap<Uuid, StepStatus>,
    retries: u64,
}

impl Tracker {
    /// The lines that `run` adds.
    pub fn news(&mut self, run: &RunDocument) -> Vec<String> {
        let mut news = Vec::new();
        if self.state != Some(run.state) {
            self.state = Some(run.state);
            news.extend(state_words(run.state).map(str::to_owned));
        }
        let document = &run.document;
        let model = text(document, "/model");
        if model.is_some() && model != self.model {
            news.extend(model.as_ref().map(|model| format!("model {model}")));
            self.model = model;
        }
        let status_line = text(document, "/status_line");
        if status_line != self.status_line {
            news.extend(status_line.as_deref().map(status_words));
            self.status_line = status_line;
        }
        steps(document).iter().for_each(|step| self.step(step, &mut news));
        self.retry(document, &mut news);
        news
    }

    fn step(&mut self, step: &RunStep, news: &mut Vec<String>) {
        let before = self.steps.insert(step.id, step.status);
        if before.is_none() {
            news.push(format!("{}> {}", indent(step), step_name(step)));
        }
        if before != Some(step.status) && step.status != StepStatus::Running {
            let end = match step.status {
                StepStatus::Failed => "failed",
                StepStatus::Cancelled => "stopped",
                StepStatus::Running | StepStatus::Completed => "done",
            };
            news.push(format!("{}  {end}: {}{}", indent(step), step_name(step), duration(step)));
        }
    }

    fn retry(&mut self, document: &Value, news: &mut Vec<String>) {
        let Some(count) = document.pointer("/metrics/api_retries").and_then(Value::as_u64) else { return };
        if count <= self.retries {
            return;
        }
        self.retries = count;
        let last = document.pointer("/metrics/last_api_retry").cloned();
        let last = last.and_then(|last| serde_json::from_value::<ApiRetry>(last).ok());
        news.push(last.map_or_else(
            || "the model's service is asked again".to_owned(),
            |retry| {
                let (attempt, most) = (retry.attempt, retry.max_retries);
                format!("the model's service is asked again: {}, attempt {attempt} of {most}", retry.error)
            },
        ));
    }
}

/// What the run does now, on one line: the open step, else the status, else its state; and the context in use.
pub fn activity(run: &RunDocument) -> String {
    let steps = steps(&run.document);
    let open = steps.iter().rev().find(|step| step.status == StepStatus::Running).map(step_name);
    let status = text(&run.document, "/status_line").map(|line| status_words(&line));
    let words = open.or(status).unwrap_or_else(|| match run.state {
        RunState::Queued => "waiting for the runner".to_owned(),
        RunState::Cancelling => "stopping".to_owned(),
        _ => "working".to_owned(),
    });
    match run.document.pointer("/metrics/context_pct").and_then(Value::as_f64) {
        Some(percent) => format!("{words} (context {percent:.0} %)"),
        None => words,
    }
}

/// The context in use at the end, as a line.
pub fn context(run: &RunDocument) -> Option<String> {
    let percent = run.document.pointer("/metrics/context_pct")?.as_f64()?;
    Some(format!("context in use: {percent:.0} %"))
}

fn state_words(state: RunState) -> Option<&'static str> {
    match state {
        RunState::Queued => Some("queued"),
        RunState::Running => Some("started"),
        RunState::Cancelling => Some("stopping"),
        // How it ended is said by whoever prints the answer.
        RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Interrupted => None,
    }
}

/// The codes of `/status_line` as words.
fn status_words(code: &str) -> String {
    code.replace('_', " ")
}

fn steps(document: &Value) -> Vec<RunStep> {
    let all = document.pointer("/steps").and_then(Value::as_object).into_iter().flatten();
    let read = |(_, step): (&String, &Value)| serde_json::from_value::<RunStep>(step.clone()).ok();
    let mut steps: Vec<_> = all.filter_map(read).collect();
    steps.sort_by_key(|step| (step.started_at, step.id));
    steps
}

fn indent(step: &RunStep) -> &'static str {
    if step.parent_step_id.is_some() { "    " } else { "  " }
}

fn step_name(step: &RunStep) -> String {
    let kind = match step.kind {
        StepKind::ToolCall | StepKind::Status => "",
        StepKind::Subagent => "agent ",
        StepKind::BackgroundJob => "background ",
    };
    if step.title.is_empty() {
        format!("{kind}{}", step.name)
    } else {
        format!("{kind}{}: {}", step.name, step.title)
    }
}

fn duration(step: &RunStep) -> String {
    let Some(end) = step.finished_at else { return String::new() };
    let millis = Time::as_millis(end) - Time::as_millis(step.started_at);
    // Milliseconds of a step fit into a float without loss.
    format!(" ({:.1} s)", millis.max(0) as f64 / SECOND)
}

fn text(document: &Value, pointer: &str) -> Option<String> {
    document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(state: &str, document: Value) -> RunDocument {
        serde_json::from_value(json!({
            "run_id": Uuid::nil(), "thread_id": Uuid::nil(), "state": state, "document": document, "version": 1,
            "followups": [], "created_at": "1970-01-01T00:00:00.000Z",
        }))
        .unwrap()
    }

    fn step(id: u128, status: &str, end: Option<&str>) -> Value {
        let mut step = json!({
            "id": Uuid::from_u128(id), "kind": "tool_call", "name": "Read", "title": "orders.csv", "status": status,
            "started_at": "1970-01-01T00:00:01.000Z",
        });
        if let Some(end) = end {
            step["finished_at"] = end.into();
        }
        step
    }

    #[test]
    fn a_run_is_told_once() {
        let mut tracker = Tracker::default();
        let id = Uuid::from_u128(1).to_string();
        let open = json!({"model": "m", "steps": {id.clone(): step(1, "running", None)}});
        let done = json!({
            "model": "m", "steps": {id: step(1, "completed", Some("1970-01-01T00:00:02.500Z"))},
            "metrics": {"api_retries": 1, "last_api_retry":
                {"attempt": 1, "max_retries": 10, "retry_delay_ms": 500, "error": "overloaded"}},
        });
        let rows = [
            (run("queued", json!({})), vec!["queued"]),
            (run("queued", json!({})), vec![]),
            (
                run("queued", json!({"status_line": "downloading_attachments"})),
                vec!["downloading attachments"],
            ),
            (run("running", open.clone()), vec!["started", "model m", "  > Read: orders.csv"]),
            (run("running", open), vec![]),
            (
                run("running", done.clone()),
                vec![
                    "    done: Read: orders.csv (1.5 s)",
                    "the model's service is asked again: overloaded, attempt 1 of 10",
                ],
            ),
            (run("completed", done), vec![]),
        ];
        for (document, expected) in rows {
            assert_eq!(tracker.news(&document), expected);
        }
    }

    #[test]
    fn a_step_seen_only_at_its_end_is_told_whole() {
        let id = Uuid::from_u128(1).to_string();
        let document = json!({"steps": {id: step(1, "failed", None)}});
        let news = Tracker::default().news(&run("running", document));
        assert_eq!(news, ["started", "  > Read: orders.csv", "    failed: Read: orders.csv"]);
    }

    #[test]
    fn activity_names_the_open_step_and_the_context() {
        let id = Uuid::from_u128(1).to_string();
        let open = json!({"steps": {id: step(1, "running", None)}, "metrics": {"context_pct": 12.4}});
        let rows = [
            (run("queued", json!({})), "waiting for the runner"),
            (run("running", json!({})), "working"),
            (run("running", json!({"status_line": "compacting"})), "compacting"),
            (run("running", open), "Read: orders.csv (context 12 %)"),
            (run("cancelling", json!({"steps": "nonsense"})), "stopping"),
        ];
        for (document, expected) in rows {
            assert_eq!(activity(&document), expected);
        }
    }
}
