//! What a question came to: printed for a person or as one JSON object.

use serde_json::{Value, json};

use super::reasons;
use super::save::Saved;
use crate::cli::exit;
use crate::cli::show;
use crate::sdk::wire::person::{Message, RunDocument};
use crate::sdk::wire::run::{CostReport, RunState};

/// Millionths of a unit of a currency.
const MICROS: f64 = 1_000_000.0;

/// What came of a question.
#[derive(Debug)]
pub struct Reply {
    /// The run at its end.
    pub run: RunDocument,
    /// The agent's messages.
    pub answers: Vec<Message>,
    /// Their files.
    pub saved: Vec<Saved>,
    /// Why some of them are not there.
    pub unsaved: Vec<String>,
    /// Ctrl-C was pressed.
    pub interrupted: bool,
}

impl Reply {
    /// The exit code of `ask`.
    pub fn exit(&self) -> u8 {
        match self.run.state {
            RunState::Completed if self.unsaved.is_empty() => exit::OK,
            _ if self.interrupted => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }

    /// The agent's texts, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.answers.iter().map(|answer| answer.content_md.as_str()).collect();
        texts.join("\n\n")
    }

    /// Why the run did not complete, as a sentence.
    pub fn why(&self) -> Option<String> {
        (self.run.state != RunState::Completed)
            .then(|| reasons::words(self.run.state, self.run.reason.as_deref()))
    }
}

/// Prints the reply: the answer on standard output, the rest on standard error; with `json` one object.
pub fn print(reply: &Reply, json: bool) {
    if json {
        return show::line(&object(reply).to_string());
    }
    if !reply.answers.is_empty() {
        show::line(show::plain(&reply.text()).trim_end());
    }
    for file in &reply.saved {
        show::error_line(&format!("saved {} ({})", file.path.display(), show::size(file.size_bytes)));
    }
    for fault in &reply.unsaved {
        show::error_line(fault);
    }
    if let Some(why) = reply.why() {
        show::error_line(&why);
    }
    if let Some(costs) = costs(reply.run.costs.as_deref()) {
        show::error_line(&costs);
    }
    show::error_line(&format!("thread {}", reply.run.thread_id));
}

fn object(reply: &Reply) -> Value {
    let file = |file: &Saved| {
        json!({
            "name": file.name, "path": file.path.to_string_lossy(), "size_bytes": file.size_bytes, "sha256": file.sha256,
        })
    };
    json!({
        "thread_id": reply.run.thread_id,
        "run_id": reply.run.run_id,
        "state": reply.run.state,
        "reason": reply.run.reason,
        "explanation": reply.why(),
        "answer": reply.text(),
        "unsaved": reply.unsaved,
        "files": reply.saved.iter().map(file).collect::<Vec<_>>(),
        "costs": reply.run.costs,
    })
}

/// What the run cost, summed by currency, as the runtime estimates it.
fn costs(reports: Option<&[CostReport]>) -> Option<String> {
    let reports = reports.filter(|reports| !reports.is_empty())?;
    let currency = &reports.first()?.currency;
    let same = reports.iter().filter(|report| report.currency == *currency);
    let micros: i64 = same.map(|report| report.amount_micros).sum();
    let tokens: u64 = reports.iter().map(|report| report.tokens_in + report.tokens_out).sum();
    // Millionths of any price of a run fit into a float without loss.
    Some(format!("estimated cost {:.4} {currency}, {tokens} tokens in and out", micros as f64 / MICROS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(state: &str, interrupted: bool) -> Reply {
        let run = serde_json::from_value(json!({
            "run_id": uuid::Uuid::nil(), "thread_id": uuid::Uuid::nil(), "state": state, "reason": "user_stop",
            "document": {}, "version": 1, "followups": [], "created_at": "1970-01-01T00:00:00.000Z",
            "costs": [{"provider": "anthropic", "model": "m", "tokens_in": 10, "tokens_out": 5, "tokens_cache_read": 0,
                "tokens_cache_write": 0, "amount_micros": 12_300, "currency": "USD"}],
        }))
        .unwrap();
        Reply { run, answers: Vec::new(), saved: Vec::new(), unsaved: Vec::new(), interrupted }
    }

    #[test]
    fn exit_codes() {
        let rows = [
            ("completed", false, exit::OK),
            ("completed", true, exit::OK),
            ("failed", false, exit::FAILED),
            ("interrupted", false, exit::FAILED),
            ("cancelled", false, exit::FAILED),
            ("cancelled", true, exit::INTERRUPTED),
        ];
        for (state, interrupted, code) in rows {
            assert_eq!(reply(state, interrupted).exit(), code, "{state} {interrupted}");
        }
    }

    #[test]
    fn the_object_has_everything_and_costs_have_words() {
        let object = object(&reply("cancelled", true));
        assert_eq!(object["state"], "cancelled");
        assert_eq!(object["reason"], "user_stop");
        assert!(object["explanation"].is_string() && object["files"].is_array());
        let words = costs(reply("completed", false).run.costs.as_deref());
        assert_eq!(words.as_deref(), Some("estimated cost 0.0123 USD, 15 tokens in and out"));
        assert_eq!(costs(None), None);
    }
}
