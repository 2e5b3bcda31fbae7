//! The live document of a run: what people see while the turn works (M2-34 note 12).
//!
//! Follows the messages and writes operations on the run document into a `Document`. Pure state: no clock, no network.
//! The same messages give the same document, so an adopted recording is replayed onto itself. It must not know
//! what becomes of the run.

mod excerpt;
mod replay;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::claude::message::{ApiRetry, Assistant, Message, Tokens};
use crate::claude::usage::SoFar;
use crate::sdk::wire::Time;
use crate::sdk::wire::run::{ApiRetry as WireRetry, StepStatus};
use excerpt::Excerpt;
pub use replay::{Replay, replay};
use steps::Steps;

/// Longest name of a model, a tool or an error, characters; such a word is never longer.
const WORD_MAX: usize = 100;

/// Where the operations go.
pub trait Document {
    /// Sets the value at a JSON pointer of the run document.
    fn set(&mut self, path: &str, value: Value);
    /// Takes the value at a JSON pointer away.
    fn remove(&mut self, path: &str);
}

/// Replaces every secret in a text.
pub type Mask<'a> = &'a dyn for<'t> Fn(&'t str) -> Cow<'t, str>;

/// Where a message is written to and what it needs for that.
pub struct Sink<'a> {
    /// The run document.
    pub document: &'a mut dyn Document,
    /// Applied to every text before it is cut.
    pub mask: Mask<'a>,
    /// The present moment, for lines that carry no time of their own.
    pub now: Time,
}

/// The state of the live document.
pub struct LiveBox {
    steps: Steps,
    excerpt: Excerpt,
    model: Option<String>,
    compacting: bool,
    api_retries: u64,
    /// Sizes of the models' contexts, tokens.
    windows: Vec<(String, u64)>,
    /// Model and tokens of the newest message of the main agent.
    newest_usage: Option<(String, Tokens)>,
    context_pct: Option<f64>,
    /// Tokens as the document shows them.
    tokens: SoFar,
}

impl LiveBox {
    /// An empty document of this run. `title_wanted`: the model was asked for a `TITLE:` line, which is not shown.
    pub fn new(run_id: Uuid, title_wanted: bool) -> LiveBox {
        LiveBox {
            steps: Steps::new(run_id),
            excerpt: Excerpt::new(title_wanted),
            model: None,
            compacting: false,
            api_retries: 0,
            windows: Vec::new(),
            newest_usage: None,
            context_pct: None,
            tokens: SoFar::default(),
        }
    }

    /// Tells the size of a model's context in tokens, as an earlier run learned it.
    pub fn know_context_window(&mut self, model: &str, tokens: u64) {
        self.windows.retain(|(known, _)| known != model);
        self.windows.push((model.to_owned(), tokens));
    }

    /// Takes the next message.
    pub fn on(&mut self, message: &Message, sink: &mut Sink<'_>) {
        match message {
            Message::Init(init) => self.on_model(init.model.as_deref(), sink),
            Message::Assistant(assistant) => self.on_assistant(assistant, sink),
            Message::ToolResults(results) => self.steps.tool_results(results, sink),
            Message::TaskStarted(task) => self.steps.task_started(task, sink),
            Message::TaskEnded(task) => self.steps.task_ended(task, sink),
            Message::BackgroundTasks(tasks) => self.steps.background_tasks(tasks, sink),
            Message::Status { compacting } => self.on_status(*compacting, sink),
            Message::ApiRetry(retry) => self.on_retry(retry, sink),
            Message::Result(result) => {
                for (model, usage) in result.model_usage.iter().flatten() {
                    if let Some(window) = usage.context_window {
                        self.know_context_window(model, window);
                    }
                }
                self.set_context_pct(sink);
            }
            _ => {}
        }
    }

    /// Shows what the run used so far. There is no cost beside it: the contract's document has no place for one before
    /// the end.
    pub fn used(&mut self, tokens: SoFar, sink: &mut Sink<'_>) {
        let shown = std::mem::replace(&mut self.tokens, tokens);
        let rows = [
            ("/metrics/tokens_in", Some(shown.input), Some(tokens.input)),
            ("/metrics/tokens_out", shown.output, tokens.output),
            ("/metrics/tokens_cache_read", Some(shown.cache_read), Some(tokens.cache_read)),
            ("/metrics/tokens_cache_write", Some(shown.cache_write), Some(tokens.cache_write)),
        ];
        for (path, before, now) in rows {
            if let Some(now) = now.filter(|now| before != Some(*now)) {
                sink.document.set(path, now.into());
            }
        }
    }

    /// The turn has ended: steps still at work end with this status.
    pub fn end(&mut self, status: StepStatus, sink: &mut Sink<'_>) {
        self.on_status(false, sink);
        self.steps.end(status, sink);
    }

    /// Adds the one step that says how a failed turn ended (M2-34 note 14), for example `runtime_error` with
    /// `{"exit": "1"}`.
    pub fn status_step(&mut self, name: &str, detail: &[(&str, &str)], sink: &mut Sink<'_>) {
        self.steps.failed_status(name, detail, sink);
    }

    /// Share of the context in use, percent; `None` while the size is unknown.
    pub fn context_pct(&self) -> Option<f64> {
        self.context_pct
    }

    /// Subagents started.
    pub fn subagents(&self) -> u64 {
        self.steps.subagents()
    }

    /// Tasks beside the turn, as the newest list has them.
    pub fn background_jobs(&self) -> u64 {
        self.steps.background_jobs()
    }

    /// Repeated calls of the model.
    pub fn api_retries(&self) -> u64 {
        self.api_retries
    }

    fn on_model(&mut self, model: Option<&str>, sink: &mut Sink<'_>) {
        let Some(model) = model.map(|model| word(model, sink)) else { return };
        if self.model.as_ref() != Some(&model) {
            sink.document.set("/model", model.as_str().into());
            self.model = Some(model);
        }
    }

    fn on_assistant(&mut self, assistant: &Assistant, sink: &mut Sink<'_>) {
        self.steps.tool_uses(assistant, sink);
        if let Some(text) = self.excerpt.on(assistant, sink.mask) {
            sink.document.set("/last_text_excerpt", text.into());
        }
        // A subagent has a context of its own, and the CLI's error text none.
        if assistant.parent_tool_use_id.is_some() || assistant.error.is_some() {
            return;
        }
        if let (Some(model), Some(usage)) = (&assistant.model, assistant.usage) {
            self.newest_usage = Some((model.clone(), usage));
            self.set_context_pct(sink);
        }
    }

    fn set_context_pct(&mut self, sink: &mut Sink<'_>) {
        let Some((model, usage)) = &self.newest_usage else { return };
        let Some((_, window)) = self.windows.iter().find(|(known, window)| known == model && *window > 0)
        else {
            return;
        };
        let used = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let percent = one_decimal(used, *window);
        if self.context_pct != Some(percent) {
            self.context_pct = Some(percent);
            sink.document.set("/metrics/context_pct", json!(percent));
        }
    }

    fn on_status(&mut self, compacting: bool, sink: &mut Sink<'_>) {
        if self.compacting == compacting {
            return;
        }
        self.compacting = compacting;
        if compacting {
            sink.document.set("/status_line", "compacting".into());
        } else {
            sink.document.remove("/status_line");
        }
    }

    fn on_retry(&mut self, retry: &ApiRetry, sink: &mut Sink<'_>) {
        self.api_retries += 1;
        let wire = WireRetry {
            attempt: retry.attempt,
            max_retries: retry.max_retries,
            retry_delay_ms: retry.retry_delay_ms,
            error: word(&retry.error, sink),
            error_status: retry.error_status,
        };
        sink.document.set("/metrics/api_retries", self.api_retries.into());
        sink.document.set("/metrics/last_api_retry", json!(wire));
    }
}

/// `part` of `whole` in percent with one decimal.
fn one_decimal(part: u64, whole: u64) -> f64 {
    // Exact enough: token counts are far below 2^53.
    let tenths = (part as f64 * 1000.0 / whole as f64).round();
    tenths / 10.0
}

/// A name that the CLI gives, masked before it is cut: it can come from a tool or a service.
fn word(text: &str, sink: &Sink<'_>) -> String {
    cut(&(sink.mask)(text), WORD_MAX).to_owned()
}

/// The first `limit` characters.
fn cut(text: &str, limit: usize) -> &str {
    // No text has more characters than bytes.
    if text.len() <= limit {
        return text;
    }
    text.char_indices().nth(limit).map_or(text, |(at, _)| &text[..at])
}
