//! The contract's rules as pure functions: which state follows which, what a run document may hold. No data access.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::sdk::wire::run::{FollowupState, PatchKind, PatchOp, RunMetrics, RunState, RunStep};

/// Most steps of one run document; a turn with more shows its first ones.
const MAX_STEPS: usize = 5_000;
/// Most operations of one patch.
const MAX_OPS: usize = 1_000;
/// Longest text member of a run document, bytes.
const MAX_TEXT: usize = 16 * 1024;
/// Longest title of a thread, characters.
const MAX_TITLE: usize = 200;

/// Reasons of `failed` and `interrupted` (contract, "Finish reasons").
const END_REASONS: [&str; 10] = [
    "invalid_invocation_token",
    "tool_class_mismatch",
    "billing_mode_mismatch",
    "runtime_not_authenticated",
    "runtime_error",
    "adapter_error",
    "runtime_limit",
    "context_full",
    "event_too_old",
    "runner_restarted",
];
/// Reasons of a stop (contract, `run.cancel_requested`).
const STOP_REASONS: [&str; 5] = ["user_stop", "owner_stop", "cancel_timeout", "agent_disabled", "shutdown"];

/// What a final state does to the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It becomes the state.
    Take,
    /// It is the state already.
    Same,
    /// It does not follow.
    Refuse,
}

/// `finishRun` in state `now`: a run that never started cannot have completed.
pub fn finish(now: RunState, end: RunState) -> Step {
    match (now, end) {
        (now, end) if now == end && end.is_final() => Step::Same,
        (now, _) if now.is_final() => Step::Refuse,
        (RunState::Queued, RunState::Completed) => Step::Refuse,
        _ => Step::Take,
    }
}

/// Whether `reason` may stand beside the final state `end`; `asked` is the reason of the stop, if there was one.
pub fn finish_reason(end: RunState, reason: Option<&str>, asked: Option<&str>) -> bool {
    match (end, reason) {
        (_, None) => true,
        (RunState::Completed, Some(_)) => false,
        (RunState::Cancelled, Some(reason)) => STOP_REASONS.contains(&reason) || asked == Some(reason),
        (_, Some(reason)) => END_REASONS.contains(&reason),
    }
}

/// `reportFollowup` when `now` was reported before: `delivered` may become final, a final state stays.
pub fn followup(now: Option<FollowupState>, next: FollowupState) -> Step {
    match (now, next) {
        (Some(now), next) if now == next => Step::Same,
        (Some(FollowupState::Delivered), _) | (None, _) => Step::Take,
        // A late repeat of `delivered` after the final state changes nothing and is no error.
        (Some(_), FollowupState::Delivered) => Step::Same,
        (Some(_), _) => Step::Refuse,
    }
}

/// Applies `ops` to `document` with set semantics; on a fault its pointer and code, and nothing counts.
pub fn patch(document: &mut Value, ops: &[PatchOp]) -> Result<(), (String, &'static str)> {
    if ops.is_empty() || ops.len() > MAX_OPS {
        return Err(("/ops".to_owned(), "wrong_number"));
    }
    for (index, op) in ops.iter().enumerate() {
        patch_one(document, op).map_err(|(member, code)| (format!("/ops/{index}/{member}"), code))?;
    }
    Ok(())
}

fn patch_one(document: &mut Value, op: &PatchOp) -> Result<(), (&'static str, &'static str)> {
    let (group, name) = place(&op.path).ok_or(("path", "not_allowed"))?;
    let value = match (op.op, &op.value) {
        (PatchKind::Remove, None) => None,
        (PatchKind::Remove, Some(_)) => return Err(("value", "not_allowed")),
        (_, None) => return Err(("value", "missing")),
        (_, Some(value)) if fits(group, name, value) => Some(value.clone()),
        (_, Some(_)) => return Err(("value", "wrong_value")),
    };
    let Value::Object(root) = document else { return Err(("path", "not_allowed")) };
    set(root, group, name, value).map_err(|code| ("path", code))
}

/// Splits an allowed path into its group (empty at the root) and the member's name.
fn place(path: &str) -> Option<(&str, &str)> {
    match path.strip_prefix('/')?.split_once('/') {
        None => {
            let name = &path[1..];
            ["model", "grant_revision", "status_line", "last_text_excerpt"]
                .contains(&name)
                .then_some(("", name))
        }
        Some(("steps", id)) => {
            Uuid::parse_str(id).ok().filter(|uuid| uuid.to_string() == id).map(|_| ("steps", id))
        }
        Some(("metrics", name)) => Some(("metrics", name)),
        Some(_) => None,
    }
}

fn fits(group: &str, name: &str, value: &Value) -> bool {
    match (group, name) {
        ("", "grant_revision") => value.is_i64(),
        ("", _) => value.as_str().is_some_and(|text| text.len() <= MAX_TEXT),
        ("steps", id) => serde_json::from_value::<RunStep>(value.clone())
            .is_ok_and(|step| step.id.to_string() == id && value.to_string().len() <= MAX_TEXT),
        (_, name) => {
            let one = Map::from_iter([(name.to_owned(), value.clone())]);
            serde_json::from_value::<RunMetrics>(Value::Object(one)).is_ok()
        }
    }
}

fn set(
    root: &mut Map<String, Value>,
    group: &str,
    name: &str,
    value: Option<Value>,
) -> Result<(), &'static str> {
    let members = if group.is_empty() {
        root
    } else {
        let inner = root.entry(group).or_insert_with(|| Value::Object(Map::new()));
        inner.as_object_mut().ok_or("not_allowed")?
    };
    match value {
        None => {
            members.remove(name);
        }
        Some(_) if group == "steps" && members.len() >= MAX_STEPS && !members.contains_key(name) => {
            return Err("too_many");
        }
        Some(value) => {
            members.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Whether `title` can be a thread's title: one line with something in it.
pub fn title(title: &str) -> bool {
    let letters = title.chars().count();
    !title.trim().is_empty() && letters <= MAX_TITLE && !title.chars().any(char::is_control)
}

/// Whether `name` can be a file's name: no directory, no control character, at most `max` bytes.
pub fn file_name(name: &str, max: u64) -> bool {
    let plain = !name.chars().any(|c| c.is_control() || c == '/' || c == '\\');
    plain && !name.trim().is_empty() && name != "." && name != ".." && name.len() as u64 <= max
}

/// Whether `text` is a SHA-256 in lowercase hex.
pub fn sha256_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `name` can be a gateway consumer: it becomes part of a key, so it stays short and plain.
pub fn consumer(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn final_states_follow_the_table() {
        use RunState::*;
        let rows = [
            (Queued, Completed, Step::Refuse),
            (Queued, Failed, Step::Take),
            (Queued, Cancelled, Step::Take),
            (Running, Completed, Step::Take),
            (Cancelling, Completed, Step::Take),
            (Cancelling, Cancelled, Step::Take),
            (Completed, Completed, Step::Same),
            (Completed, Failed, Step::Refuse),
            (Interrupted, Completed, Step::Refuse),
        ];
        for (now, end, step) in rows {
            assert_eq!(finish(now, end), step, "{now:?} {end:?}");
        }
    }

    #[test]
    fn reasons_fit_their_state() {
        use RunState::*;
        let rows = [
            (Completed, None, None, true),
            (Completed, Some("user_stop"), None, false),
            (Failed, Some("runtime_error"), None, true),
            (Failed, Some("because"), None, false),
            (Cancelled, Some("user_stop"), None, true),
            (Cancelled, Some("runtime_error"), None, false),
            (Cancelled, Some("fire_drill"), Some("fire_drill"), true),
            (Interrupted, Some("runner_restarted"), None, true),
        ];
        for (end, reason, asked, fits) in rows {
            assert_eq!(finish_reason(end, reason, asked), fits, "{end:?} {reason:?}");
        }
    }

    #[test]
    fn followup_states_end_once() {
        use FollowupState::*;
        let all = [Delivered, Answered, Absorbed, Refused];
        for next in all {
            assert_eq!(followup(None, next), Step::Take);
            assert_eq!(followup(Some(next), next), Step::Same);
        }
        for end in [Answered, Absorbed, Refused] {
            assert_eq!(followup(Some(Delivered), end), Step::Take);
            assert_eq!(followup(Some(end), Delivered), Step::Same);
        }
        assert_eq!(followup(Some(Answered), Refused), Step::Refuse);
        assert_eq!(followup(Some(Refused), Absorbed), Step::Refuse);
    }

    const STEP: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn step(id: &str) -> Value {
        json!({"id": id, "kind": "tool_call", "name": "Read", "title": "a", "status": "running",
               "started_at": "2026-01-02T03:04:05.000Z"})
    }

    fn op(op: &str, path: &str, value: Option<Value>) -> PatchOp {
        let mut op = json!({"op": op, "path": path});
        if let Some(value) = value {
            op["value"] = value;
        }
        serde_json::from_value(op).unwrap()
    }

    #[test]
    fn patches_touch_allowed_places_only() {
        let path = format!("/steps/{STEP}");
        let rows = [
            ("model", op("add", "/model", Some(json!("m"))), None),
            ("replace of nothing", op("replace", "/status_line", Some(json!("queued"))), None),
            ("remove of nothing", op("remove", "/status_line", None), None),
            ("step", op("add", &path, Some(step(STEP))), None),
            ("metric", op("add", "/metrics/api_retries", Some(json!(2))), None),
            ("revision", op("add", "/grant_revision", Some(json!(2))), None),
            ("root", op("add", "", Some(json!({}))), Some("path")),
            ("unknown", op("add", "/state", Some(json!("completed"))), Some("path")),
            ("all steps", op("remove", "/steps", None), Some("path")),
            ("inside a step", op("add", &format!("{path}/title"), Some(json!("x"))), Some("path")),
            ("step without uuid", op("add", "/steps/1", Some(step(STEP))), Some("path")),
            (
                "foreign step",
                op("add", &path, Some(step("01890a5d-ac96-774b-bcce-b302099a8058"))),
                Some("value"),
            ),
            ("unknown metric", op("add", "/metrics/joy", Some(json!(2))), Some("value")),
            ("wrong metric", op("add", "/metrics/tokens_in", Some(json!("2"))), Some("value")),
            ("number as model", op("add", "/model", Some(json!(2))), Some("value")),
            ("long text", op("add", "/model", Some(json!("x".repeat(MAX_TEXT + 1)))), Some("value")),
            ("no value", op("add", "/model", None), Some("value")),
            ("value of remove", op("remove", "/model", Some(json!("m"))), Some("value")),
        ];
        for (name, op, fault) in rows {
            let mut document = json!({});
            let found = patch(&mut document, &[op]).err().map(|(pointer, _)| pointer);
            assert_eq!(found, fault.map(|member| format!("/ops/0/{member}")), "{name}");
        }
    }

    #[test]
    fn patches_set_and_take_away() {
        let mut document = json!({});
        let path = format!("/steps/{STEP}");
        patch(&mut document, &[op("add", &path, Some(step(STEP))), op("add", "/model", Some(json!("a")))])
            .unwrap();
        patch(&mut document, &[op("add", "/model", Some(json!("b"))), op("remove", &path, None)]).unwrap();
        assert_eq!(document, json!({"model": "b", "steps": {}}));
        assert!(patch(&mut document, &[]).is_err());
    }

    #[test]
    fn names_and_titles() {
        for (name, good) in [
            ("a.txt", true),
            ("", false),
            (" ", false),
            ("..", false),
            ("a/b", false),
            ("a\\b", false),
            ("a\nb", false),
        ] {
            assert_eq!(file_name(name, 255), good, "{name:?}");
        }
        assert!(!file_name(&"a".repeat(256), 255));
        for (text, good) in [("a", true), ("", false), ("a\nb", false)] {
            assert_eq!(title(text), good, "{text:?}");
        }
        assert!(sha256_hex(&"a0".repeat(32)) && !sha256_hex(&"A0".repeat(32)) && !sha256_hex("a0"));
        assert!(consumer("default") && !consumer("") && !consumer("a b"));
    }
}
