//! Tests of the run binding against the scripted server.

use serde_json::{Value, json};

use super::super::client::ClientSettings;
use super::super::jws::SigningKey;
use super::super::test_server::{Seen, Step, TestServer, answer, empty, problem};
use super::super::wire::run::{BillingEvidence, BillingMode, RunState, ToolClass};
use super::*;

/// A token whose `jti` can be read; nobody checks its signature here.
fn token(jti: &str) -> String {
    SigningKey::generate().unwrap().sign(&json!({"kid": "k"}), &json!({"jti": jti}))
}

struct Bench {
    server: TestServer,
    bound: Bound,
    first: String,
}

fn bench(script: Vec<Step>) -> Bench {
    let server = TestServer::start(script);
    let first = token("j-1");
    let bound = server.client().bind(Uuid::now_v7(), TokenCell::new(first.clone()));
    Bench { server, bound, first }
}

impl Bench {
    fn tokens(&self, requests: usize) -> Vec<String> {
        (0..requests).map(|_| self.server.next_request().header("invocation-token").to_owned()).collect()
    }
}

fn invalid(reason: &str) -> Step {
    problem(403, "invocation_token_invalid", Some(reason))
}

fn thread_info() -> Step {
    answer(200, json!({"id": Uuid::now_v7(), "title": "Website", "title_source": "auto", "version": 3}))
}

fn run_info(run_id: Uuid, state: &str) -> Value {
    json!({"run_id": run_id, "state": state, "version": 2})
}

fn start_body() -> RunStart {
    RunStart {
        billing_mode_used: BillingMode::Organization,
        tool_class_used: ToolClass::Chat,
        external_session_ref: Uuid::now_v7().to_string(),
        model: "model".to_owned(),
        billing_evidence: BillingEvidence {
            provider: "anthropic".to_owned(),
            key_type: "api_key".to_owned(),
            method: "claude_auth_status".to_owned(),
        },
    }
}

#[test]
fn meaning_of_each_problem() {
    let token = |reason: &str| Problem::new(403, code::INVOCATION_TOKEN_INVALID).because(reason);
    let rows = [
        ("expired", token("expired"), Meaning::Renew),
        ("invalid", token("invalid"), Meaning::Renew),
        ("unknown_reason", token("other"), Meaning::Renew),
        ("no_reason", Problem::new(403, code::INVOCATION_TOKEN_INVALID), Meaning::Renew),
        ("superseded", token("superseded"), Meaning::UseNewest),
        ("run_inactive", token("run_inactive"), Meaning::Ended),
        (
            "unauthenticated",
            Problem::new(401, code::UNAUTHENTICATED),
            Meaning::Hold(HoldReason::Unauthenticated),
        ),
        ("page_401", Problem::new(401, "x"), Meaning::Hold(HoldReason::Unauthenticated)),
        ("forbidden", Problem::new(403, code::FORBIDDEN), Meaning::Final),
        ("not_found", Problem::new(404, code::NOT_FOUND), Meaning::Final),
        ("conflict", Problem::new(409, code::CONFLICT), Meaning::Final),
    ];
    for (name, problem, expected) in rows {
        assert_eq!(meaning(&problem), expected, "{name}");
    }
}

#[test]
fn requests_carry_the_newest_token() {
    let bench = bench(vec![thread_info(), thread_info()]);
    let thread = Uuid::now_v7();
    assert_eq!(bench.bound.get_thread(thread).unwrap().version, 3);
    bench.bound.token().replace("second".to_owned());
    bench.bound.get_thread(thread).unwrap();
    assert_eq!(bench.tokens(2), [bench.first.as_str(), "second"]);
    assert_eq!(bench.bound.token().generation(), 1);
    assert!(!format!("{:?}", bench.bound.token()).contains("second"));
}

#[test]
fn expired_and_invalid_are_renewed_stored_and_repeated_once() {
    for reason in ["expired", "invalid"] {
        let grant = answer(200, json!({"invocation_token": "renewed"}));
        let bench = bench(vec![invalid(reason), grant, thread_info()]);
        let (tell, stored) = crossbeam_channel::unbounded();
        bench.bound.token().set_store(Box::new(move |token| tell.send(token.to_owned()).unwrap()));
        bench.bound.get_thread(Uuid::now_v7()).unwrap();
        assert_eq!(stored.try_iter().collect::<Vec<_>>(), ["renewed"], "{reason}");
        bench.server.next_request();
        let renewal = bench.server.next_request();
        assert_eq!(renewal.target, format!("/api/v1/runs/{}/invocation-token", bench.bound.run_id()));
        assert_eq!(renewal.json(), json!({"expired_jti": "j-1"}));
        assert_eq!(renewal.header("invocation-token"), "");
        assert_eq!(bench.tokens(1), ["renewed"]);
    }
}

#[test]
fn refusals_that_do_not_go_away_hold_the_work() {
    let grant = || answer(200, json!({"invocation_token": token("j-2")}));
    let unauthenticated = || problem(401, "unauthenticated", None);
    let refused = RunError::Hold(HoldReason::TokenRefused);
    let rows = [
        ("expired_twice", vec![invalid("expired"), grant(), invalid("expired")], refused.clone()),
        ("invalid_twice", vec![invalid("invalid"), grant(), invalid("invalid")], refused.clone()),
        ("superseded_without_newer", vec![invalid("superseded")], refused.clone()),
        (
            "expired_then_superseded",
            vec![invalid("expired"), grant(), invalid("superseded")],
            refused.clone(),
        ),
        (
            "unauthenticated",
            vec![unauthenticated(), unauthenticated()],
            RunError::Hold(HoldReason::Unauthenticated),
        ),
        (
            "unauthenticated_at_renewal",
            vec![invalid("expired"), unauthenticated(), unauthenticated()],
            RunError::Hold(HoldReason::Unauthenticated),
        ),
        ("odd_renewal", vec![invalid("expired"), problem(400, "validation_failed", None)], refused),
    ];
    for (name, script, expected) in rows {
        let requests = script.len();
        let bench = bench(script);
        assert_eq!(bench.bound.get_thread(Uuid::now_v7()), Err(expected.clone()), "{name}");
        assert!(expected.is_transient(), "{name}");
        bench.tokens(requests);
        assert!(bench.server.saw_no_more(), "{name}");
    }
}

#[test]
fn superseded_is_repeated_once_with_the_newest_token() {
    let bench = bench(Vec::new());
    // the redelivery comes while the request is on its way: the answer is scripted after it
    let (release, held) = super::super::test_server::hold();
    let body = r#"{"code":"invocation_token_invalid","reason":"superseded"}"#;
    let drip = format!("HTTP/1.1 403 X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    bench.server.push(Step::Drip(drip.clone().into(), held));
    bench.server.push(thread_info());
    let bound = bench.bound.clone();
    let worker = std::thread::spawn(move || bound.get_thread(Uuid::now_v7()));
    let seen = bench.server.next_request();
    bench.bound.token().replace("newer".to_owned());
    drip.bytes().for_each(|_| release.send(()).unwrap());
    assert!(worker.join().unwrap().is_ok());
    assert_eq!(seen.header("invocation-token"), bench.first);
    assert_eq!(bench.tokens(1), ["newer"]);
}

#[test]
fn the_server_ends_a_run_only_in_the_named_ways() {
    type Call = fn(&Bound) -> Option<RunError>;
    let context: Call = |bound| bound.get_run_context().err();
    let thread: Call = |bound| bound.get_thread(Uuid::nil()).err();
    let rows: Vec<(&str, Vec<Step>, Call, bool)> = vec![
        ("run_inactive", vec![invalid("run_inactive")], thread, true),
        ("context_404", vec![problem(404, "not_found", None)], context, true),
        ("thread_404", vec![problem(404, "not_found", None)], thread, false),
        (
            "renewal_refused",
            vec![invalid("expired"), problem(403, "agent_invocation_denied", None)],
            thread,
            true,
        ),
        ("renewal_404", vec![invalid("expired"), problem(404, "not_found", None)], thread, true),
        ("denied", vec![problem(403, "agent_invocation_denied", None)], thread, false),
    ];
    for (name, script, call, ended) in rows {
        let bench = bench(script);
        assert_eq!(call(&bench.bound) == Some(RunError::Ended), ended, "{name}");
    }
}

#[test]
fn start_is_repeated_unchanged_renews_once_and_reports_superseded() {
    let bench = bench(Vec::new());
    let run = run_info(bench.bound.run_id(), "running");
    let session = json!({"external_session_ref": "s", "started": false, "version": 1});
    bench.server.push(Step::Raw(Vec::new()));
    bench.server.push(invalid("expired"));
    bench.server.push(answer(200, json!({"invocation_token": token("j-2")})));
    bench.server.push(answer(200, json!({"run": run, "agent_session": session})));
    bench.server.push(invalid("superseded"));
    bench.server.push(problem(409, "already_started", None));
    let (key, body) = (Uuid::now_v7(), start_body());
    assert_eq!(bench.bound.start_run(key, &body).unwrap().run.state, RunState::Running);
    let seen: Vec<Seen> = (0..4).map(|_| bench.server.next_request()).collect();
    for start in [&seen[0], &seen[1], &seen[3]] {
        assert_eq!(start.header("idempotency-key"), key.to_string());
        assert_eq!(start.body, seen[0].body);
    }
    for code in ["invocation_token_invalid", "already_started"] {
        let error = bench.bound.start_run(key, &body).unwrap_err();
        assert_eq!(error.problem().unwrap().code, code);
    }
}

#[test]
fn a_start_whose_renewed_token_is_invalid_too_is_refused() {
    let grant = answer(200, json!({"invocation_token": token("j-2")}));
    let bench = bench(vec![invalid("invalid"), grant, invalid("invalid")]);
    let error = bench.bound.start_run(Uuid::now_v7(), &start_body()).unwrap_err();
    assert!(error.problem().unwrap().is_because("invocation_token_invalid", "invalid"));
}

#[test]
fn an_answer_about_another_run_is_no_answer() {
    let other = json!({"run": run_info(Uuid::now_v7(), "running"),
        "agent_session": {"external_session_ref": "s", "started": false, "version": 1}});
    let bench = bench((0..3).map(|_| answer(200, other.clone())).collect());
    let result = bench.bound.start_run(Uuid::now_v7(), &start_body());
    assert_eq!(result, Err(RunError::Transport(TransportError::Garbage)));
}

#[test]
fn finish_and_get_run_leave_a_refused_token_out() {
    let bench = bench(Vec::new());
    let run_id = bench.bound.run_id();
    for step in [
        invalid("expired"),
        answer(200, run_info(run_id, "completed")),
        invalid("invalid"),
        answer(200, run_info(run_id, "completed")),
        problem(404, "not_found", None),
        problem(409, "invalid_state_transition", None),
    ] {
        bench.server.push(step);
    }
    let finish = RunFinish { state: RunState::Completed, reason: None, costs: None, metrics: None };
    bench.bound.finish_run(&finish).unwrap();
    assert!(bench.bound.get_run().unwrap().unwrap().state.is_final());
    assert_eq!(bench.bound.get_run().unwrap(), None);
    let other = bench.bound.finish_run(&finish).unwrap_err();
    assert_eq!(other.code(), "invalid_state_transition");
    assert_eq!(bench.tokens(4), [bench.first.as_str(), "", bench.first.as_str(), ""]);
}

#[test]
fn versions_travel_as_etags_and_conflicts_name_the_present_one() {
    let mut conflict = Problem::new(412, code::VERSION_CONFLICT);
    conflict.current = Some(json!({"version": 9}));
    assert_eq!(current_version(&conflict), Some(9));
    conflict.current = Some(json!(8));
    assert_eq!(current_version(&conflict), Some(8));
    conflict.current = None;
    assert_eq!(current_version(&conflict), None);

    let bench =
        bench(vec![answer(200, json!({"version": 5})), empty(204), problem(409, "title_manual", None)]);
    let report = AgentSessionReport {
        external_session_ref: "s".to_owned(),
        model: None,
        started: true,
        bind_failed: None,
    };
    assert_eq!(bench.bound.report_agent_session(4, &report).unwrap().version, 5);
    let thread = Uuid::now_v7();
    bench.bound.set_thread_title(thread, 3, "Title").unwrap();
    let error = bench.bound.set_thread_title(thread, 3, "Title").unwrap_err();
    assert_eq!(error.code(), "title_manual");
    let seen = [bench.server.next_request(), bench.server.next_request()];
    assert_eq!(seen.each_ref().map(|seen| seen.header("if-match").to_owned()), ["\"4\"", "\"3\""]);
    assert_eq!(seen[1].method, "PUT");
}

#[test]
fn messages_followups_and_patches_reach_their_paths() {
    let (thread, followup, id) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let created = json!({"message_id": Uuid::now_v7(), "seq": 4, "client_msg_id": id});
    let bench = bench(vec![
        Step::Raw(Vec::new()),
        answer(201, created),
        empty(200),
        answer(200, json!({"version": 2})),
    ]);
    let run_id = bench.bound.run_id();
    let body = MessageCreate {
        client_msg_id: id,
        content_md: "Hello".to_owned(),
        run_id,
        attachment_file_ids: None,
    };
    assert_eq!(bench.bound.create_message(thread, &body).unwrap().seq, 4);
    bench.bound.report_followup(followup, FollowupState::Answered).unwrap();
    bench.bound.patch_run(&RunPatch { base_version: 1, ops: Vec::new() }).unwrap();
    let seen: Vec<Seen> = (0..4).map(|_| bench.server.next_request()).collect();
    assert_eq!(seen[0].body, seen[1].body, "a lost answer repeats the same message");
    let lines: Vec<String> = seen.iter().skip(1).map(|it| format!("{} {}", it.method, it.target)).collect();
    assert_eq!(
        lines,
        [
            format!("POST /api/v1/threads/{thread}/messages"),
            format!("POST /api/v1/runs/{run_id}/followups/{followup}"),
            format!("PATCH /api/v1/runs/{run_id}"),
        ]
    );
    assert_eq!(seen[2].json(), json!({"state": "answered"}));
}

#[test]
fn a_stopped_run_is_finished_over_a_client_of_its_own() {
    let bench = bench(Vec::new());
    bench.server.push(answer(200, run_info(bench.bound.run_id(), "cancelled")));
    bench.bound.client().shutdown();
    let reason = Some("user_stop".to_owned());
    let finish = RunFinish { state: RunState::Cancelled, reason, costs: None, metrics: None };
    assert_eq!(bench.bound.finish_run(&finish), Err(RunError::ShutDown));
    let last = bench.bound.within(Duration::from_secs(20));
    last.finish_run(&finish).unwrap();
    assert_eq!(bench.server.next_request().json(), json!({"state": "cancelled", "reason": "user_stop"}));
}

#[test]
fn a_run_without_a_token_is_finished_without_the_field() {
    let server = TestServer::start(Vec::new());
    let bound = server.client().bind(Uuid::now_v7(), TokenCell::new(String::new()));
    server.push(answer(200, run_info(bound.run_id(), "interrupted")));
    bound
        .finish_run(&RunFinish { state: RunState::Interrupted, reason: None, costs: None, metrics: None })
        .unwrap();
    let seen = server.next_request();
    assert!(seen.headers.iter().all(|(name, _)| name != "invocation-token"));
}

/// The contract names no members of its answer.
#[test]
fn a_finish_is_taken_whatever_its_answer_says_of_this_run() {
    let page = Step::Answer(200, Vec::new(), b"<html>login</html>".to_vec());
    let other = answer(200, run_info(Uuid::now_v7(), "completed"));
    let rows = [
        ("empty", vec![empty(200)], false),
        ("nothing_of_it", vec![answer(200, json!({}))], true),
        ("no_object", vec![answer(200, json!(true))], true),
        ("page", vec![page], false),
        ("another_run", vec![other], false),
    ];
    for (name, script, taken) in rows {
        let server = TestServer::start(script);
        let client = Client::new(ClientSettings { retry_max_attempts: 1, ..server.settings() }).unwrap();
        let bound = client.bind(Uuid::now_v7(), TokenCell::new(token("j-1")));
        let finish = RunFinish { state: RunState::Completed, reason: None, costs: None, metrics: None };
        assert_eq!(bound.finish_run(&finish).is_ok(), taken, "{name}");
    }
}
