use super::*;
use crate::claude::message::{ApiRetry, Assistant, TaskStatus, ToolResult, ToolResults, ToolUse};

fn life(uuid: &str, state: LifecycleState) -> Message {
    Message::Lifecycle { uuid: uuid.into(), state }
}

fn result(uuids: &[&str], text: &str) -> TurnResult {
    TurnResult {
        is_error: Some(false),
        text: Some(text.into()),
        uuids: uuids.iter().map(|uuid| (*uuid).to_owned()).collect(),
        ..TurnResult::default()
    }
}

fn ok(uuids: &[&str], text: &str) -> Message {
    Message::Result(Box::new(result(uuids, text)))
}

fn failed(uuids: &[&str], terminal: &str) -> Message {
    Message::Result(Box::new(TurnResult {
        is_error: Some(true),
        terminal_reason: Some(terminal.into()),
        ..result(uuids, "CLI text")
    }))
}

fn background(text: &str) -> Message {
    Message::Result(Box::new(TurnResult { origin: Some("task-notification".into()), ..result(&[], text) }))
}

fn init() -> Message {
    Message::Init(Init::default())
}

fn tasks(ids: &[&str]) -> Message {
    Message::BackgroundTasks(ids.iter().map(|id| (*id).to_owned()).collect())
}

fn notification(id: &str) -> Message {
    Message::TaskEnded(TaskEnded { task_id: id.into(), status: TaskStatus::Completed, notification: true })
}

/// Short names of effects: `A1:text`, `F:code`, `x=Answered`.
fn names(effects: Vec<Effect>) -> Vec<String> {
    effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Init(_) => None,
            Effect::Answer(answer) => Some(format!("A{}:{}", answer.position, answer.text)),
            Effect::Failed(turn) => Some(format!("F:{}", turn.failure.code)),
            Effect::CompactDone { ok } => Some(format!("C:{ok}")),
            Effect::Followup { id, fate } => Some(format!("{id}={fate:?}")),
            Effect::ControlRequest { request_id } => Some(format!("?{request_id}")),
            Effect::NotAuthenticated => Some("401".into()),
            Effect::ForeignResult => Some("foreign".into()),
        })
        .collect()
}

fn run(sent: &[(&str, Purpose)], messages: Vec<Message>) -> (Progress, Vec<String>) {
    let mut progress = Progress::new();
    for (uuid, purpose) in sent {
        progress.sent(uuid, purpose.clone());
    }
    let mut got = Vec::new();
    for message in messages {
        got.extend(names(progress.on(message)));
    }
    (progress, got)
}

fn first() -> (&'static str, Purpose) {
    ("u1", Purpose::First)
}

fn follow() -> (&'static str, Purpose) {
    ("u2", Purpose::Followup("f".into()))
}

use LifecycleState::{Cancelled, Completed, Queued, Started};

#[test]
fn only_results_of_sent_lines_and_background_work_are_answers() {
    let rows: [(&str, Vec<Message>, &[&str]); 5] = [
        ("own", vec![init(), ok(&["u1"], "a")], &["A1:a"]),
        ("foreign uuid", vec![ok(&["other"], "a")], &["foreign"]),
        ("no uuid", vec![ok(&[], "a")], &["foreign"]),
        ("background", vec![ok(&["u1"], "a"), background("b")], &["A1:a", "A2:b"]),
        (
            "peer",
            vec![Message::Result(Box::new(TurnResult { origin: Some("peer".into()), ..result(&[], "x") }))],
            &["foreign"],
        ),
    ];
    for (name, messages, expected) in rows {
        let (progress, got) = run(&[first()], messages);
        assert_eq!(got, expected, "{name}");
        assert_eq!(progress.foreign_results(), u32::from(expected == ["foreign"]), "{name}");
    }
}

#[test]
fn c1_09_a_background_turn_is_never_the_answer_to_the_next_message() {
    let (progress, got) = run(
        &[first(), follow()],
        vec![
            life("u1", Queued),
            life("u1", Started),
            init(),
            tasks(&["t"]),
            ok(&["u1"], "A"),
            life("u1", Completed),
            life("u2", Queued),
            notification("t"),
            tasks(&[]),
            init(),
            background("B"),
            life("u2", Started),
            init(),
            ok(&["u2"], "C"),
            life("u2", Completed),
        ],
    );
    assert_eq!(got, ["A1:A", "f=Delivered", "A2:B", "A3:C", "f=Answered"]);
    assert!(progress.finished());
}

#[test]
fn followup_states() {
    let rows: [(&str, Vec<Message>, &[&str]); 7] = [
        ("own result", vec![life("u2", Queued), ok(&["u2"], "b")], &["f=Delivered", "A1:b", "f=Answered"]),
        ("joint result", vec![ok(&["u1", "u2"], "b"), life("u2", Completed)], &["A1:b", "f=Absorbed"]),
        (
            "completed before the joint result",
            vec![life("u2", Queued), life("u2", Started), life("u2", Completed), ok(&["u1", "u2"], "b")],
            &["f=Delivered", "f=Absorbed", "A1:b"],
        ),
        ("a failed result of its own", vec![failed(&["u2"], "api_error")], &["F:turn_failed", "f=Answered"]),
        ("started", vec![life("u2", Queued), life("u2", Started)], &["f=Delivered", "end", "f=Absorbed"]),
        ("cancelled", vec![life("u2", Cancelled)], &["end", "f=Absorbed"]),
        ("queued", vec![life("u2", Queued), life("u2", Queued)], &["f=Delivered", "end", "f=Refused"]),
    ];
    for (name, messages, expected) in rows {
        let (mut progress, mut got) = run(&[first(), follow()], messages);
        let ended = names(progress.process_ended());
        if !ended.is_empty() {
            got.push("end".into());
        }
        got.extend(ended);
        assert_eq!(got, expected, "{name}");
        assert!(progress.process_ended().is_empty(), "{name}: one final state");
    }
}

#[test]
fn a_stop_absorbs_what_is_open_and_keeps_the_outcome() {
    let (mut progress, _) = run(&[first(), follow()], vec![ok(&["u1"], "a"), life("u2", Queued)]);
    assert_eq!(names(progress.stop()), ["f=Absorbed"]);
    assert_eq!(names(progress.on(failed(&["u2"], "aborted_tools"))), ["F:interrupted"]);
    assert_eq!(progress.outcome(), Some(&Outcome::Success));
    assert!(progress.process_ended().is_empty());
}

#[test]
fn finished_waits_for_lines_tasks_and_turns() {
    let rows: [(&str, Vec<Message>, bool, bool); 10] = [
        ("nothing yet", vec![], false, false),
        ("turn open", vec![life("u1", Completed), init()], false, false),
        ("line open", vec![init(), ok(&["u1"], "a")], false, false),
        ("done", vec![init(), ok(&["u1"], "a"), life("u1", Completed)], true, false),
        ("ended without a result", vec![init(), life("u1", Completed)], true, false),
        ("a foreign line", vec![life("u1", Completed), init(), life("x", Completed)], false, false),
        ("a taken uuid", vec![Message::Replay, life("u1", Completed)], true, false),
        ("task open", vec![tasks(&["t"]), ok(&["u1"], "a"), life("u1", Completed)], false, true),
        (
            "notified",
            vec![tasks(&["t"]), ok(&["u1"], "a"), life("u1", Completed), tasks(&[]), notification("t")],
            false,
            true,
        ),
        (
            "notified and answered",
            vec![life("u1", Completed), tasks(&["t"]), tasks(&[]), notification("t"), background("b")],
            true,
            false,
        ),
    ];
    for (name, messages, finished, waits) in rows {
        let (progress, _) = run(&[first()], messages);
        assert_eq!((progress.finished(), progress.waits_for_background()), (finished, waits), "{name}");
    }
}

#[test]
fn a_full_context_is_compacted_and_the_lines_are_sent_again() {
    let (mut progress, got) = run(
        &[first(), follow()],
        vec![
            life("u2", Queued),
            life("u1", Started),
            life("u2", Started),
            failed(&["u1", "u2"], "prompt_too_long"),
            life("u1", Cancelled),
            life("u2", Cancelled),
        ],
    );
    assert_eq!(got, ["f=Delivered", "F:context_full"]);
    progress.sent("c", Purpose::Compact);
    assert!(!progress.finished());
    let compact =
        Message::Result(Box::new(TurnResult { local_command: Some("compact".into()), ..result(&["c"], "") }));
    assert_eq!(names(progress.on(compact)), ["C:true"]);
    progress.on(life("c", Completed));
    progress.sent_again("u1", "v1");
    progress.sent_again("u2", "v2");
    assert!(!progress.finished());
    let mut got = names(progress.on(life("v2", Queued)));
    got.extend(names(progress.on(ok(&["v1", "v2"], "a"))));
    assert_eq!(got, ["A1:a", "f=Absorbed"]);
    progress.on(life("v1", Completed));
    progress.on(life("v2", Completed));
    assert!(progress.finished() && progress.process_ended().is_empty());
    assert_eq!(progress.outcome(), Some(&Outcome::Success));
}

#[test]
fn a_new_process_takes_the_lines_over() {
    let start_error = TurnResult {
        is_error: Some(true),
        errors: vec!["No conversation found with session ID: x".into()],
        ..TurnResult::default()
    };
    let (mut progress, got) = run(&[first()], vec![Message::Result(Box::new(start_error))]);
    assert_eq!(got, ["F:turn_failed"]);
    progress.sent_again("u1", "v1");
    progress.process_started();
    assert!(!progress.finished());
    assert_eq!(names(progress.on(ok(&["v1"], "a"))), ["A1:a"]);
    progress.on(life("v1", Completed));
    assert!(progress.finished());
    assert_eq!(progress.outcome(), Some(&Outcome::Success));
}

#[test]
fn c1_11_success_and_failure_do_not_come_from_the_subtype() {
    let limit = TurnResult {
        subtype: Some("success".into()),
        is_error: Some(true),
        api_error_status: Some(429),
        ..result(&["u1"], "limit\nATTACH: ROOT/a")
    };
    let (progress, got) = run(&[first()], vec![Message::Result(Box::new(limit))]);
    assert_eq!(got, ["F:rate_limit"]);
    assert!(matches!(progress.outcome(), Some(Outcome::Failed(_))));
    let odd = TurnResult { subtype: Some("new_kind".into()), ..result(&["u1"], "text") };
    let (_, got) = run(&[first()], vec![Message::Result(Box::new(odd))]);
    assert_eq!(got, ["A1:text"]);
}

#[test]
fn c4_05_the_reset_time_comes_from_machine_fields() {
    let error =
        Assistant { error: Some("rate_limit".into()), text: "resets 5pm".into(), ..Assistant::default() };
    let mut progress = Progress::new();
    progress.sent("u1", Purpose::First);
    progress.on(Message::RateLimit { resets_at: Some(1_900_000_000) });
    progress.on(Message::Assistant(error));
    let Some(Effect::Failed(turn)) = progress.on(failed(&["u1"], "api_error")).into_iter().next() else {
        panic!()
    };
    assert!(turn.failure.sentence.unwrap().contains("2030-03-17 17:46 UTC"));
    assert!(!progress.text_seen(), "the CLI's own text is no answer");
}

#[test]
fn r_8_a_refused_key_ends_the_turn() {
    let rows = [
        ("authentication_failed", None, true),
        ("unknown", Some(401), true),
        ("overloaded", Some(529), false),
    ];
    for (error, error_status, ends) in rows {
        let retry = Message::ApiRetry(ApiRetry { error: error.into(), error_status, ..ApiRetry::default() });
        assert_eq!(Progress::new().on(retry) == [Effect::NotAuthenticated], ends, "{error}");
    }
}

#[test]
fn c1_15_a_control_request_asks_for_a_response() {
    let request = Message::ControlRequest { request_id: "r1".into() };
    assert_eq!(names(Progress::new().on(request)), ["?r1"]);
}

#[test]
fn tools_at_work_are_known() {
    let mut progress = Progress::new();
    let call = ToolUse { id: "t".into(), ..ToolUse::default() };
    progress.on(Message::Assistant(Assistant { tool_uses: vec![call], ..Assistant::default() }));
    assert!(progress.tools_running());
    let done = ToolResult { tool_use_id: "t".into(), is_error: false };
    progress.on(Message::ToolResults(ToolResults { results: vec![done], at_millis: None }));
    assert!(!progress.tools_running());
}
