mod golden;

use std::collections::BTreeMap;

use super::excerpt::EXCERPT_MAX;
use super::*;
use crate::claude::message::{TaskEnded, TaskStarted, TaskStatus, ToolResult, ToolResults, ToolUse};

fn plain(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// A live box with a document to look at.
struct Followed {
    live: LiveBox,
    out: Out,
}

/// The document and the number of operations on it.
#[derive(Default)]
struct Out {
    document: BTreeMap<String, Value>,
    operations: usize,
}

impl Document for Out {
    fn set(&mut self, path: &str, value: Value) {
        self.operations += 1;
        self.document.insert(path.to_owned(), value);
    }

    fn remove(&mut self, path: &str) {
        self.operations += 1;
        self.document.remove(path);
    }
}

impl Followed {
    fn new() -> Followed {
        Followed { live: LiveBox::new(Uuid::nil(), true), out: Out::default() }
    }

    fn on(&mut self, message: Message) -> &mut Self {
        self.masked(message, &plain)
    }

    fn masked(&mut self, message: Message, mask: Mask<'_>) -> &mut Self {
        let now = Time::from_millis(1000);
        self.live.on(&message, &mut Sink { document: &mut self.out, mask, now });
        self
    }

    fn used(&mut self, tokens: SoFar) -> &mut Self {
        let now = Time::from_millis(1000);
        self.live.used(tokens, &mut Sink { document: &mut self.out, mask: &plain, now });
        self
    }

    fn end(&mut self, status: StepStatus) {
        let now = Time::from_millis(2000);
        self.live.end(status, &mut Sink { document: &mut self.out, mask: &plain, now });
    }

    fn at(&self, path: &str) -> Value {
        self.out.document.get(path).cloned().unwrap_or_default()
    }

    /// Kind, name, title and status of each step, in the order of their ids.
    fn steps(&self) -> Vec<String> {
        let text = |step: &Value, name: &str| step[name].as_str().unwrap_or_default().to_owned();
        let steps = self.out.document.iter().filter(|(path, _)| path.starts_with("/steps/"));
        let mut all: Vec<String> = steps
            .map(|(_, step)| {
                let names = ["kind", "name", "title", "status"];
                names.map(|name| text(step, name)).join("|")
            })
            .collect();
        all.sort();
        all
    }
}

fn says(id: &str, text: &str) -> Message {
    Message::Assistant(Assistant { id: Some(id.into()), text: text.into(), ..Assistant::default() })
}

fn calls(id: &str, name: &str, subject: &str, parent: Option<&str>) -> Message {
    let tool_uses = vec![ToolUse { id: id.into(), name: name.into(), subject: subject.into() }];
    Message::Assistant(Assistant {
        tool_uses,
        parent_tool_use_id: parent.map(str::to_owned),
        ..Assistant::default()
    })
}

fn done(id: &str, is_error: bool) -> Message {
    let results = vec![ToolResult { tool_use_id: id.into(), is_error }];
    Message::ToolResults(ToolResults { results, at_millis: None })
}

fn task(id: &str, task_type: &str, backgrounded: bool) -> TaskStarted {
    TaskStarted {
        task_id: id.into(),
        task_type: Some(task_type.into()),
        description: "look around".into(),
        backgrounded,
        ..TaskStarted::default()
    }
}

fn ended(id: &str, status: TaskStatus) -> Message {
    Message::TaskEnded(TaskEnded { task_id: id.into(), status, notification: true })
}

fn background(ids: &[&str]) -> Message {
    Message::BackgroundTasks(ids.iter().map(|id| (*id).to_owned()).collect())
}

#[test]
fn the_title_of_a_step_is_one_masked_line() {
    let long = "y".repeat(300);
    let rows = [
        ("\n  \n  ls -l\nrm x", "ls -l".to_owned()),
        ("", String::new()),
        ("a\tb\u{7}c", "a b c".to_owned()),
        (long.as_str(), "y".repeat(200)),
        ("echo hunter2", "echo [redacted]".to_owned()),
    ];
    fn apply(text: &str) -> Cow<'_, str> {
        Cow::Owned(text.replace("hunter2", "[redacted]"))
    }
    for (subject, title) in rows {
        let mut one = Followed::new();
        one.masked(calls("t", "Bash", subject, None), &apply);
        assert_eq!(one.steps(), [format!("tool_call|Bash|{title}|running")]);
    }
}

#[test]
fn names_that_the_cli_gives_are_masked_before_they_are_cut() {
    fn apply(text: &str) -> Cow<'_, str> {
        Cow::Owned(text.replace("hunter2", "*"))
    }
    for (name, shown) in
        [("a hunter2", "a *".to_owned()), (&format!("{}hunter2", "x".repeat(96)), "x".repeat(96) + "*")]
    {
        let task =
            TaskStarted { task_type: Some(name.to_owned()), backgrounded: true, ..TaskStarted::default() };
        let retry = ApiRetry { error: name.to_owned(), ..ApiRetry::default() };
        let mut one = Followed::new();
        let init = crate::claude::message::Init { model: Some(name.to_owned()), ..Default::default() };
        one.masked(Message::Init(init), &apply).masked(calls("t", name, "", None), &apply);
        one.masked(Message::TaskStarted(task), &apply).masked(Message::ApiRetry(retry), &apply);
        assert_eq!(one.at("/model"), json!(shown));
        assert_eq!(one.at("/metrics/last_api_retry")["error"], json!(shown));
        let steps = [format!("background_job|{shown}||running"), format!("tool_call|{shown}||running")];
        let mut found = one.steps();
        found.sort();
        assert_eq!(found, steps);
    }
}

#[test]
fn a_secret_over_the_end_of_a_title_is_masked_before_the_cut() {
    fn apply(text: &str) -> Cow<'_, str> {
        Cow::Owned(text.replace("secret-\nvalue", "*"))
    }
    let mut one = Followed::new();
    one.masked(calls("t", "Bash", &format!("{}secret-\nvalue", "x".repeat(196)), None), &apply);
    assert_eq!(one.steps(), [format!("tool_call|Bash|{}*|running", "x".repeat(196))]);
}

#[test]
fn c1_13_a_repeated_call_is_one_step() {
    let mut one = Followed::new();
    for _ in 0..3 {
        one.on(calls("t", "Bash", "ls", None));
    }
    one.on(done("t", false)).on(calls("t", "Bash", "ls", None)).on(done("unknown", true));
    assert_eq!(one.steps(), ["tool_call|Bash|ls|completed"]);
    assert_eq!(one.out.operations, 2);
}

#[test]
fn nested_calls_name_their_parent() {
    let mut one = Followed::new();
    one.on(calls("p", "Task", "look", None)).on(calls("c", "Bash", "ls", Some("p")));
    let steps: Vec<&Value> = one.out.document.values().collect();
    let id = |name: &str| steps.iter().find(|step| step["name"] == name).unwrap()["id"].clone();
    let child = steps.iter().find(|step| step["name"] == "Bash").unwrap();
    assert_eq!(child["parent_step_id"], id("Task"));
}

#[test]
fn step_ids_belong_to_the_run() {
    let ids = [1, 1, 2].map(|run| {
        let mut out = Out::default();
        let now = Time::from_millis(0);
        let mut sink = Sink { document: &mut out, mask: &plain, now };
        LiveBox::new(Uuid::from_u128(run), false).on(&calls("t", "Bash", "ls", None), &mut sink);
        out.document.keys().next().unwrap().clone()
    });
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    let id: Uuid = ids[0].trim_start_matches("/steps/").parse().unwrap();
    assert_eq!(id.get_version_num(), 8);
}

#[test]
fn tasks_are_steps_of_their_kind() {
    let agent = TaskStarted { subagent_type: Some("Explore".into()), ..task("a", "local_agent", true) };
    let ambient = TaskStarted { ambient: true, ..task("x", "local_bash", true) };
    let rows: [(&str, Vec<Message>, &[&str]); 7] = [
        ("agent", vec![Message::TaskStarted(agent)], &["subagent|Explore|look around|running"]),
        (
            "job",
            vec![Message::TaskStarted(task("b", "local_bash", true))],
            &["background_job|local_bash|look around|running"],
        ),
        ("foreground tool", vec![Message::TaskStarted(task("b", "local_bash", false))], &[]),
        ("ambient", vec![Message::TaskStarted(ambient), background(&[])], &[]),
        (
            "failed",
            vec![Message::TaskStarted(task("b", "local_bash", true)), ended("b", TaskStatus::Failed)],
            &["background_job|local_bash|look around|failed"],
        ),
        (
            "gone from the list, then told how",
            vec![
                Message::TaskStarted(task("b", "local_bash", true)),
                background(&["b"]),
                background(&[]),
                ended("b", TaskStatus::Stopped),
            ],
            &["background_job|local_bash|look around|cancelled"],
        ),
        (
            "gone from the list",
            vec![Message::TaskStarted(task("b", "local_bash", true)), background(&["other"])],
            &["background_job|local_bash|look around|completed"],
        ),
    ];
    for (name, messages, expected) in rows {
        let mut one = Followed::new();
        for message in messages {
            one.on(message);
        }
        assert_eq!(one.steps(), expected, "{name}");
    }
}

#[test]
fn the_end_closes_what_is_at_work() {
    let rows = [(StepStatus::Cancelled, "cancelled"), (StepStatus::Failed, "failed")];
    for (status, word) in rows {
        let mut one = Followed::new();
        one.on(calls("a", "Read", "x", None)).on(done("a", false)).on(calls("b", "Bash", "ls", None));
        one.on(Message::Status { compacting: true });
        assert_eq!(one.at("/status_line"), "compacting");
        one.end(status);
        assert_eq!(one.steps(), [format!("tool_call|Bash|ls|{word}"), "tool_call|Read|x|completed".into()]);
        assert_eq!(one.at("/status_line"), Value::Null);
    }
}

#[test]
fn metrics_follow_the_messages() {
    let mut one = Followed::new();
    let usage = Some(Tokens { input: 10_000, output: 5, cache_read: 20_000, cache_write: 1_000 });
    let text = Assistant { model: Some("m".into()), usage, ..Assistant::default() };
    let retry = ApiRetry {
        attempt: 2,
        max_retries: 10,
        retry_delay_ms: 609,
        error: "overloaded".into(),
        error_status: Some(529),
    };
    one.on(Message::Assistant(text.clone())).on(Message::ApiRetry(retry)).on(background(&["a", "b"]));
    assert_eq!(one.at("/metrics/context_pct"), Value::Null, "the size is unknown yet");
    one.live.know_context_window("m", 200_000);
    one.on(Message::Assistant(text));
    assert_eq!(one.at("/metrics/context_pct"), 15.5);
    assert_eq!(one.at("/metrics/api_retries"), 1);
    assert_eq!(one.at("/metrics/background_jobs"), 2);
    let expected = json!({"attempt": 2, "max_retries": 10, "retry_delay_ms": 609, "error": "overloaded", "error_status": 529});
    assert_eq!(one.at("/metrics/last_api_retry"), expected);
}

#[test]
fn c10_15_lines_to_the_runner_never_show() {
    let rows: [(&str, &[&str], &str); 12] = [
        ("half an attach line", &["Done.\nAT"], "Done."),
        ("the keyword alone", &["Done.\nATTACH:"], "Done."),
        ("pieces", &["Done.\nAT", "TACH: RO", "OT/out/a.", "pdf"], "Done."),
        ("a whole line", &["Done.\nATTACH: ROOT/a.pdf\nMore."], "Done.\nMore."),
        ("a tab", &["ATTACH:\tROOT/a"], ""),
        ("no space: text", &["ATTACH:x"], "ATTACH:x"),
        ("indented: text", &[" ATTACH: x"], "ATTACH: x"),
        ("in a fence: text", &["```\nATTACH: x\n```\nATTACH: y"], "```\nATTACH: x\n```"),
        (
            "a tilde fence",
            &["~~~markdown\n```\nATTACH: a\n~~~\nATTACH: b\n"],
            "~~~markdown\n```\nATTACH: a\n~~~",
        ),
        ("a title", &["TITLE: Talk\nHello"], "Hello"),
        ("half a title", &["TIT"], ""),
        ("a later title is text", &["Hello\nTITLE: x"], "Hello\nTITLE: x"),
    ];
    for (name, pieces, expected) in rows {
        let mut one = Followed::new();
        for piece in pieces {
            one.on(says("m", piece));
            let shown = one.at("/last_text_excerpt");
            let shown = shown.as_str().unwrap_or_default();
            assert!(expected.contains("ATTACH") || !shown.contains("ROOT"), "{name}: {shown}");
        }
        assert_eq!(one.at("/last_text_excerpt").as_str().unwrap_or_default(), expected, "{name}");
    }
}

#[test]
fn the_excerpt_is_short_and_masked_before_the_cut() {
    fn apply(text: &str) -> Cow<'_, str> {
        Cow::Owned(text.replace("secretvalue", "*"))
    }
    let mut one = Followed::new();
    one.masked(says("m", &format!("{}secretvalue and more", "\u{e9}".repeat(EXCERPT_MAX - 4))), &apply);
    let shown = one.at("/last_text_excerpt");
    assert_eq!(shown.as_str().unwrap().chars().count(), EXCERPT_MAX);
    assert!(shown.as_str().unwrap().ends_with("\u{e9}* an"));
    // A bound inside the secret, and lines before it that do not show.
    let hidden = "ATTACH: ROOT/a\n".repeat(4369);
    let mut two = Followed::new();
    two.masked(says("m", &format!("{hidden}secretvalue and more")), &apply);
    assert!(!two.at("/last_text_excerpt").as_str().unwrap_or_default().contains("secr"));
}

#[test]
fn errors_and_subagents_are_no_excerpt() {
    let mut one = Followed::new();
    let error =
        Assistant { error: Some("rate_limit".into()), text: "API Error".into(), ..Assistant::default() };
    let agent =
        Assistant { parent_tool_use_id: Some("p".into()), text: "sub".into(), ..Assistant::default() };
    one.on(Message::Assistant(error)).on(Message::Assistant(agent));
    assert_eq!(one.at("/last_text_excerpt"), Value::Null);
}

#[test]
fn tokens_show_while_the_turn_works_and_only_what_changed_is_written() {
    let mut followed = Followed::new();
    followed.used(SoFar::default());
    assert_eq!(followed.out.operations, 0, "nothing used is nothing said");
    let first = SoFar { input: 7, cache_read: 3, ..SoFar::default() };
    followed.used(first).used(first);
    assert_eq!(followed.out.operations, 2);
    assert_eq!(
        (followed.at("/metrics/tokens_in"), followed.at("/metrics/tokens_cache_read")),
        (json!(7), json!(3))
    );
    assert_eq!(followed.at("/metrics/tokens_out"), Value::Null, "not known before a result");
    followed.used(SoFar { output: Some(5), ..first });
    assert_eq!((followed.at("/metrics/tokens_out"), followed.out.operations), (json!(5), 3));
}

/// Three calls of one message and one of the next, all printed in the same millisecond.
#[test]
fn steps_of_one_moment_begin_one_after_the_other() {
    let mut followed = Followed::new();
    let call = |id: &str| ToolUse { id: id.into(), name: "Read".into(), subject: id.into() };
    let says = |message: &str, calls: &[&str]| {
        Message::Assistant(Assistant {
            id: Some(message.into()),
            tool_uses: calls.iter().map(|id| call(id)).collect(),
            at_millis: Some(5000),
            ..Assistant::default()
        })
    };
    followed.on(says("m", &["first", "second", "third"])).on(says("n", &["fourth"]));
    followed.end(StepStatus::Cancelled);
    let steps = followed.out.document.iter().filter(|(path, _)| path.starts_with("/steps/"));
    let mut steps: Vec<_> = steps.map(|(_, step)| step).collect();
    steps.sort_by_key(|step| step["started_at"].as_str().unwrap().to_owned());
    let titles: Vec<_> = steps.iter().map(|step| step["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["first", "second", "third", "fourth"]);
    assert!(
        steps.iter().all(|step| step["finished_at"].as_str() >= step["started_at"].as_str()),
        "{steps:?}"
    );
}
