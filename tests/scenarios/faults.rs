//! Faults on the way of one run: whatever happens to a request once, the run ends once, in the right state,
//! with one answer.
//!
//! The run of these rows uses every operation that a runner has for a run: its token has expired, it has a file
//! in and a file out, it proposes a title, a message comes while it works, and its binding has changed.

use std::sync::atomic::{AtomicUsize, Ordering};

use claude_code_runner::local::Signer;
use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::person::RunDocument;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::{FollowupState, RunState};
use serde_json::json;
use uuid::Uuid;

use crate::support::trap::Trap;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Every operation that the runner uses.
const OPERATIONS: &[&str] = &[
    "getDiscovery",
    "getMe",
    "listServedChannels",
    "getJwks",
    "pollEvents",
    "ackEvents",
    "sendHeartbeat",
    "getServedChannelConfig",
    "renewInvocationToken",
    "getRunContext",
    "downloadFile",
    "startRun",
    "patchRun",
    "reportAgentSession",
    "reportFollowup",
    "getInstance",
    "createUpload",
    "uploadPart",
    "completeUpload",
    "createMessage",
    "getThread",
    "setThreadTitle",
    "finishRun",
];

/// Worlds at once: more only wait for the same two cores.
const WORLDS: usize = 3;

/// Makes a fault; the address of the trap goes into redirects.
type Make = fn(&Trap) -> Fault;

/// What happens to the first request of every operation.
const FAULTS: &[(&str, Make)] = &[
    ("bad_gateway", |_| Fault::Refuse(Problem::new(502, "unavailable"), None)),
    ("unavailable", |_| Fault::Refuse(Problem::new(503, "unavailable"), Some("0".to_owned()))),
    ("cut_before_the_change", |_| Fault::CutBefore),
    ("cut_after_the_change", |_| Fault::DoneThenCut),
    ("done_then_bad_gateway", |_| Fault::DoneThenRefuse(Problem::new(502, "unavailable"))),
    ("cut_in_the_body", |_| Fault::CutBodyAt(3)),
    ("too_many_without_a_wait", |_| limited(None)),
    ("too_many_and_no_wait", |_| limited(Some("0"))),
    ("too_many_and_a_negative_wait", |_| limited(Some("-5"))),
    ("too_many_and_a_broken_wait", |_| limited(Some("1.5"))),
    ("too_many_and_words", |_| limited(Some("soon"))),
    ("too_many_and_a_date_in_the_past", |_| limited(Some("Fri, 31 Dec 1999 23:59:59 GMT"))),
    ("a_page_instead", |_| Fault::RawBefore(page("200 OK"))),
    ("done_then_a_page", |_| Fault::DoneThenRaw(page("200 OK"))),
    ("a_bad_gateway_page", |_| Fault::RawBefore(page("502 Bad Gateway"))),
    ("half_a_json", |_| Fault::DoneThenRaw(half_a_json())),
    ("nothing_that_was_promised", |_| {
        Fault::RawBefore(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    }),
    ("no_http", |_| Fault::RawBefore(b"\x16\x03\x01 hello\r\n\r\n".to_vec())),
    ("a_redirect_elsewhere", |trap| redirect("302 Found", trap)),
    ("a_redirect_that_repeats_the_body", |trap| redirect("307 Temporary Redirect", trap)),
];

fn limited(wait: Option<&str>) -> Fault {
    Fault::Refuse(Problem::new(429, "rate_limited"), wait.map(str::to_owned))
}

fn page(status: &str) -> Vec<u8> {
    let text = "<html><body>Please sign in</body></html>";
    let length = text.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{text}")
        .into_bytes()
}

fn half_a_json() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"run\":".to_vec()
}

fn redirect(status: &str, trap: &Trap) -> Fault {
    let to = trap.url();
    Fault::RawBefore(
        format!("HTTP/1.1 {status}\r\nLocation: {to}/api/v1/me\r\nContent-Length: 0\r\n\r\n").into_bytes(),
    )
}

/// A world with a run that uses everything; the runner does not run yet.
struct Everything {
    world: World,
    thread: Uuid,
    run: Uuid,
}

impl Everything {
    fn new() -> Everything {
        let world = World::without_runner(Setup {
            adapter: vec!["jwks_refresh_min_interval = \"1s\"".to_owned()],
            ..Setup::default()
        });
        world.claude.plays(&json!({"turns": [
            {"title": "Orders", "steps": [
                {"tool": {"name": "Bash", "input": {"command": "make"}, "output": "made", "do": [
                    {"mark": "reached"}, {"hold": "go"},
                    {"write": {"path": "{{tmpdir}}/sum.txt", "content": "seven"}},
                ]}},
                {"text": "Seven orders.\nATTACH: {{tmpdir}}/sum.txt"},
            ]},
        ]}));
        let file = world.person.uploads(world.channel(), "orders.csv", b"id,quantity\n1,7\n");
        let thread = world.thread();
        let posted = world.person.says_with(thread, "How many orders?", &[file]);
        let run = posted.run_id.unwrap();
        let everything = Everything { world, thread, run };
        everything.expire();
        everything
    }

    /// The event's token has expired, so that it is renewed.
    fn expire(&self) {
        let operator = self.world.server.operator();
        let (header, mut claims) = operator.token_parts(self.run).unwrap();
        let exp = claims["iat"].as_i64().unwrap() - 7_200;
        claims["iat"] = json!(exp - 600);
        claims["nbf"] = json!(exp - 600);
        claims["exp"] = json!(exp);
        let token = operator.sign(&header, &claims, Signer::Current).unwrap();
        operator.accept_token(self.run, &token, claims["jti"].as_str().unwrap(), exp).unwrap();
        operator.redeliver_with(self.run, token, |_| {}).unwrap();
    }

    /// Lets the run go to its end, a message coming while it works.
    #[track_caller]
    fn plays(&mut self, row: &str) {
        self.world.start_runner();
        eventually(&format!("{row}: the turn works"), || self.world.claude.reached("reached").then_some(()));
        let followup = self.world.person.says(self.thread, "And the total?").followup_id.unwrap();
        self.world.person.lets_write(self.world.channel());
        eventually(&format!("{row}: the message is on its way"), || {
            let lines = self.world.claude.captured("stdin").len();
            let state = self.world.person.run(self.run);
            let told = state.followups.iter().any(|it| it.followup_id == followup);
            (told && lines >= 2).then_some(())
        });
        let hooks = &self.world.hooks;
        eventually(&format!("{row}: the new settings are asked for"), || {
            (hooks.count("getServedChannelConfig") > 0).then_some(())
        });
        self.world.claude.release("go");
    }

    /// Waits for the end; what did not happen until then may not disturb the looking.
    #[track_caller]
    fn ends(&self, row: &str) -> RunDocument {
        let look = || Some(self.world.person.run(self.run)).filter(|run| run.state.is_final());
        let ended = eventually(&format!("{row}: the run has ended"), look);
        self.world.hooks.clear();
        ended
    }

    /// The run ended once, in the right state, with one answer.
    #[track_caller]
    fn judge(&self, row: &str) {
        let ended = self.ends(row);
        assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Completed, None), "{row}");
        let answers = self.world.answers(self.thread);
        let texts: Vec<&str> = answers.iter().map(|answer| answer.content_md.as_str()).collect();
        assert_eq!(texts, ["Seven orders."], "{row}");
        let files: Vec<usize> = answers.iter().map(|answer| answer.attachments.len()).collect();
        assert_eq!(files, [1], "{row}");
        assert_eq!(self.world.person.downloads(answers[0].attachments[0].file_id), b"seven", "{row}");
        assert_eq!(self.world.claude.argvs().len(), 1, "{row}: one turn");
        let runs = self.world.server.operator().runs(self.thread).unwrap();
        assert_eq!(runs.len(), 1, "{row}: no run is opened again");
        let followups: Vec<_> = ended.followups.iter().map(|it| it.state).collect();
        assert_eq!(followups, [Some(FollowupState::Absorbed)], "{row}: it was read during the tool call");
        assert_eq!(ended.costs.as_ref().map(Vec::len), Some(1), "{row}: costs once");
    }
}

/// Plays every row in a world of its own, some at once.
fn each<T: Sync>(rows: &[T], play: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORLDS {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    play(row);
                }
            });
        }
    });
}

#[test]
fn the_run_without_faults_uses_every_operation() {
    let mut everything = Everything::new();
    everything.plays("no fault");
    everything.judge("no fault");
    for operation in OPERATIONS {
        assert!(everything.world.hooks.count(operation) > 0, "{operation} is not used");
    }
    let used: std::collections::BTreeSet<String> = everything
        .world
        .hooks
        .requests()
        .iter()
        .filter(|it| by_the_agent(&everything.world, it))
        .map(|it| it.operation.clone())
        .collect();
    for operation in used {
        assert!(OPERATIONS.contains(&operation.as_str()), "{operation} has no row");
    }
}

fn by_the_agent(world: &World, request: &claude_code_runner::local::hooks::Captured) -> bool {
    let token = std::fs::read_to_string(world.server.agent_token_file()).unwrap();
    request.header("authorization").is_some_and(|value| value.ends_with(token.trim()))
}

#[test]
fn a_fault_of_the_first_request_of_each_operation_changes_nothing() {
    each(FAULTS, |(name, make)| {
        let trap = Trap::new();
        let mut everything = Everything::new();
        for operation in OPERATIONS {
            everything.world.hooks.next(operation, make(&trap));
        }
        everything.plays(name);
        everything.judge(name);
        assert!(trap.is_untouched(), "{name}: nobody is followed elsewhere");
        everything.world.stop_runner().unwrap();
    });
}

#[test]
fn an_operation_that_fails_for_a_while_only_delays_the_run() {
    each(OPERATIONS, |operation| {
        let mut everything = Everything::new();
        let first = everything.world.hooks.count(operation);
        for ordinal in 1..=7 {
            let fault = match ordinal % 3 {
                0 => Fault::CutBefore,
                1 => Fault::Refuse(Problem::new(502, "unavailable"), None),
                _ => Fault::RawBefore(page("503 Service Unavailable")),
            };
            everything.world.hooks.nth(operation, first + ordinal, fault);
        }
        everything.plays(operation);
        if matches!(*operation, "createUpload" | "uploadPart" | "completeUpload" | "getInstance") {
            // Files are given up after the attempts of one request; the answer still comes, once.
            let ended = everything.ends(operation);
            assert_eq!(ended.state, RunState::Completed, "{operation}");
            let texts = everything.world.answer_texts(everything.thread);
            assert_eq!(
                texts.iter().filter(|text| text.starts_with("Seven orders.")).count(),
                1,
                "{operation}: {texts:?}"
            );
        } else {
            everything.judge(operation);
        }
    });
}
