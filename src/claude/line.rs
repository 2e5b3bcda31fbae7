//! The lines that are written to the turn's stdin.
//!
//! Every line is one JSON object and one line feed. It must not know what the texts say, nor when a line is sent.

use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize)]
struct UserLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    uuid: Uuid,
    message: UserMessage<'a>,
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: Vec<TextItem<'a>>,
}

#[derive(Serialize)]
struct TextItem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ControlLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    response: ControlError<'a>,
}

#[derive(Serialize)]
struct ControlError<'a> {
    subtype: &'static str,
    request_id: &'a str,
    error: &'static str,
}

/// The command that compacts a session; it must be the line's only text item.
const COMPACT_COMMAND: &str = "/compact";

/// One user line with one text item per element of `texts`, ending in a line feed.
///
/// `uuid` must be fresh, also when the same texts are sent again: the runtime answers a known one with nothing
/// . The caller puts [`crate::claude::prompt::CLOSING_LINE`] last.
pub fn user_line(uuid: Uuid, texts: &[&str]) -> String {
    let content = texts.iter().map(|text| TextItem { kind: "text", text }).collect();
    to_line(&UserLine { kind: "user", uuid, message: UserMessage { role: "user", content } })
}

/// The line that asks the runtime to compact its session; its result is no answer.
pub fn compact_line(uuid: Uuid) -> String {
    user_line(uuid, &[COMPACT_COMMAND])
}

/// The error response to a `control_request` of the runtime, so that no turn waits for an answer.
pub fn control_refusal(request_id: &str) -> String {
    let response = ControlError { subtype: "error", request_id, error: "This request is not answered here." };
    to_line(&ControlLine { kind: "control_response", response })
}

fn to_line<T: Serialize>(value: &T) -> String {
    // Strings and a UUID under fixed keys always have a JSON form; an empty line is ignored by the runtime.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parsed(line: &str) -> Value {
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "one line");
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn user_line_has_one_item_per_text() {
        let uuid = Uuid::new_v4();
        let line = user_line(uuid, &["context\nwith lines", "words \u{2028} \"quoted\"", "end"]);
        let items = json!([
            {"type": "text", "text": "context\nwith lines"},
            {"type": "text", "text": "words \u{2028} \"quoted\""},
            {"type": "text", "text": "end"},
        ]);
        let expected =
            json!({"type": "user", "uuid": uuid.to_string(), "message": {"role": "user", "content": items}});
        assert_eq!(parsed(&line), expected);
        assert!(line.starts_with("{\"type\":\"user\",\"uuid\":\""));
    }

    #[test]
    fn compact_line_is_a_single_item() {
        let value = parsed(&compact_line(Uuid::new_v4()));
        assert_eq!(value["message"]["content"], json!([{"type": "text", "text": "/compact"}]));
    }

    #[test]
    fn control_request_is_refused() {
        let value = parsed(&control_refusal("req \"1\"\n"));
        assert_eq!(value["type"], "control_response");
        assert_eq!(value["response"]["subtype"], "error");
        assert_eq!(value["response"]["request_id"], "req \"1\"\n");
        assert!(value["response"]["error"].is_string());
    }
}
