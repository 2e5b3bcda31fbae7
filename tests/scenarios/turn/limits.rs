//! Limits of a turn (R-13, R-23), old events, another runner, lost events, keys that nobody knows yet (R-22, R-30).

use std::time::{Duration, Instant};

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::runner::RunnerFault;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use super::{nothing_is_left, reached, setup, turns, waiting_tool, world};
use crate::support::runner_process::RunnerProcess;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

#[test]
fn a_turn_that_uses_up_its_time_is_stopped_with_a_sentence() {
    let long_line = json!([{"raw": "x".repeat(200_000)}, {"hang": true}]);
    let rows = [
        ("time", "turn_time_limit = \"400ms\"", json!([waiting_tool()]), "longer than is allowed"),
        ("silence", "turn_silence_limit = \"400ms\"", json!([{"hang": true}]), "no sign of life"),
        ("line", "stream_line_limit = \"64KiB\"", long_line, "more at once"),
    ];
    for (name, line, steps, told) in rows {
        let world = world(&[line, "stop_grace = \"300ms\""]);
        world.claude.steps(steps);
        let (thread, run) = world.asks("one");
        let found = world.ends_as(run, RunState::Failed, Some("runtime_error"));
        let answers = world.answer_texts(thread);
        assert!(answers.len() == 1 && answers[0].contains(told), "{name}: {answers:?}");
        let steps = found.document["steps"].as_object().unwrap();
        let status = steps.values().find(|step| step["kind"] == "status").unwrap();
        assert_eq!(status["detail"], json!({"exit": "0"}), "{name}: it heeds SIGINT");
        nothing_is_left(&world, run);
    }
}

#[test]
fn a_silent_tool_is_no_silent_turn() {
    let world = world(&["turn_silence_limit = \"300ms\""]);
    world.claude.steps(json!([
        {"tool": {"name": "Bash", "input": {}, "do": [{"mark": "reached"}, {"shell": "sleep 0.8"}]}}, {"text": "done"},
    ]));
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}

fn adapter(line: &str) -> Setup {
    Setup { adapter: vec![line.to_owned()], ..setup(&[]) }
}

/// Looked at on acceptance: the message waited while no runner ran.
#[test]
fn an_old_event_ends_its_run_with_a_sentence() {
    let mut world = World::without_runner(adapter("max_event_age = \"1s\""));
    let (thread, run) = world.asks("one");
    let asked = Instant::now();
    eventually("the event is old", || (asked.elapsed() > Duration::from_millis(1_200)).then_some(()));
    world.start_runner();
    world.ends_as(run, RunState::Failed, Some("event_too_old"));
    let answers = world.answer_texts(thread);
    assert!(answers.len() == 1 && answers[0].contains("waited too long"), "{answers:?}");
    assert_eq!((turns(&world), world.hooks.count("startRun")), (0, 0));
}

/// Looked at again before the start: the run waited for its context.
#[test]
fn an_event_that_became_old_is_not_started() {
    let world = World::with(adapter("max_event_age = \"1s\""));
    let gate = world.hooks.hold_next("getRunContext");
    let (_, run) = world.asks("one");
    let asked = Instant::now();
    assert!(gate.reached(Duration::from_secs(60)));
    eventually("the event is old", || (asked.elapsed() > Duration::from_millis(1_200)).then_some(()));
    gate.open();
    world.ends_as(run, RunState::Failed, Some("event_too_old"));
    assert_eq!((turns(&world), world.hooks.count("startRun")), (0, 0));
}

/// R-22 looks at the age until the start; a turn that worked is not told that nothing was done.
#[test]
fn an_event_that_became_old_during_its_turn_loses_no_answer() {
    let world = World::with(adapter("max_event_age = \"1s\""));
    world.claude.steps(json!([waiting_tool(), {"text": "done\nATTACH: out/none.txt"}]));
    let (thread, run) = world.asks("one");
    let asked = Instant::now();
    reached(&world, "reached");
    eventually("the event is old", || (asked.elapsed() > Duration::from_millis(1_200)).then_some(()));
    let before = world.hooks.count("getInstance");
    for nth in 1..=2 {
        let refusal = Problem::new(401, "unauthenticated");
        world.hooks.nth("getInstance", before + nth, Fault::Refuse(refusal, None));
    }
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    let answers = world.answer_texts(thread);
    assert!(answers.len() == 1 && answers[0].starts_with("done"), "{answers:?}");
}

fn superseded() -> Fault {
    Fault::Refuse(Problem::new(409, "superseded_poll"), None)
}

/// C7-07: retried with growing waits, then given up, but never while a turn lives.
#[test]
fn c7_07_superseded_polls_are_given_up_after_a_while() {
    let mut world = World::without_runner(setup(&[]));
    world.hooks.always("pollEvents", superseded());
    world.start_runner_that_gives_up_after(Duration::from_millis(500));
    assert!(matches!(world.runner_gave_up(), RunnerFault::Superseded));
    assert!(world.hooks.count("pollEvents") > 2);
    assert_degraded(&world);
}

/// R-22: the process says by its exit code that another runner is at work, so that nobody starts it in a circle.
#[test]
fn r_22_a_superseded_runner_exits_with_75() {
    let world = World::without_runner(setup(&[]));
    world.hooks.always("pollEvents", superseded());
    let mut runner = RunnerProcess::start_with(&world, &["--superseded-limit-ms", "300"], |_| {});
    let status = runner.ends();
    assert_eq!(status.code(), Some(75), "{}", runner.log());
    assert!(runner.log().contains("only one may run"), "{}", runner.log());
}

fn assert_degraded(world: &World) {
    eventually("a heartbeat says so", || {
        let beats = world.hooks.requests_of("sendHeartbeat");
        beats.iter().filter_map(|beat| beat.json()).find(|beat| {
            beat["state"] == "degraded"
                && beat["details"]["degraded_reasons"].to_string().contains("gateway_superseded")
        })
    });
}

#[test]
fn superseded_polls_do_not_end_a_runner_with_a_live_turn() {
    let mut world = World::without_runner(setup(&[]));
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    world.start_runner_that_gives_up_after(Duration::from_millis(300));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.hooks.always("pollEvents", superseded());
    assert_degraded(&world);
    let begin = Instant::now();
    eventually("more than the limit", || (begin.elapsed() > Duration::from_millis(900)).then_some(()));
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
    assert!(matches!(world.runner_gave_up(), RunnerFault::Superseded));
}

/// Events were lost, a stop among them: every open run is asked for, until the server answers.
#[test]
fn a_gap_asks_for_open_runs() {
    for failures in [0, 2] {
        let lines = setup(&["stop_grace = \"300ms\""]);
        let mut world = World::with(Setup { sdk: vec!["retry_max_attempts = 1".into()], ..lines });
        world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
        let (stopped_thread, stopped) = world.asks("one");
        reached(&world, "reached");
        world.stop_runner().unwrap();
        world.person.stops(stopped);
        // The stop wakes the last poll of the runner that has gone.
        eventually("no poll waits", || {
            world.hooks.requests_of("pollEvents").iter().all(|poll| poll.status.is_some()).then_some(())
        });
        world.server.operator().lose_events().unwrap();
        for nth in 1..=failures {
            world.hooks.nth("getRun", nth, Fault::CutBefore);
        }
        world.start_runner();
        world.ends_as(stopped, RunState::Cancelled, Some("user_stop"));
        assert_eq!(world.answer_texts(stopped_thread), Vec::<String>::new());
        assert!(world.hooks.count("getRun") > failures);
        nothing_is_left(&world, stopped);
    }
}

/// A key that is not known after the reload: the event is left, and looked at again later.
#[test]
fn an_event_with_an_unknown_key_comes_again() {
    let setup = Setup { adapter: vec!["jwks_refresh_min_interval = \"300ms\"".into()], ..setup(&[]) };
    let world = World::with(setup);
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    world.server.operator().rotate_keys().unwrap();
    world.hooks.always("getJwks", Fault::Refuse(Problem::new(404, "not_found"), None));
    let loads = world.hooks.count("getJwks");
    let next = world.person.says(thread, "two").run_id.unwrap();
    eventually("the keys are asked for in vain", || (world.hooks.count("getJwks") > loads).then_some(()));
    assert_eq!(world.server.operator().unacknowledged("default").unwrap().len(), 1);
    let other = world.thread();
    world.hooks.clear();
    let another = world.person.says(other, "three").run_id.unwrap();
    world.ends_as(next, RunState::Completed, None);
    world.ends_as(another, RunState::Completed, None);
}

/// C7-01, C7-03: an event that cannot be read blocks nobody; a repeated one starts nothing twice.
#[test]
fn c7_03_odd_and_repeated_events() {
    let world = world(&[]);
    let operator = world.server.operator();
    operator.publish_raw(&json!({"event_id": 7, "type": null, "payload": "x".repeat(5_000_000)})).unwrap();
    operator.publish("agent.invocation", &json!({"run_id": "no uuid"})).unwrap();
    operator.publish("future.thing", &json!({"a": 1})).unwrap();
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    operator.redeliver(run).unwrap();
    let (_, last) = world.asks("two");
    world.ends_as(last, RunState::Completed, None);
    eventually("all is acknowledged", || {
        operator.unacknowledged("default").unwrap().is_empty().then_some(())
    });
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    assert_eq!(turns(&world), 2);
}

/// One event that no parser takes is set aside by its position; the good ones beside it are handled, and an unknown
/// member of a good one may be as deep as it likes.
#[test]
fn an_event_that_no_parser_takes_blocks_nobody() {
    let mut world = World::without_runner(setup(&[]));
    let (thread, run) = world.asks("one");
    let mut good = world.server.operator().unacknowledged("default").unwrap().remove(0);
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    good["payload"]["new_member"] = json!("DEEP");
    let good = good.to_string().replace("\"DEEP\"", &deep);
    let bad = format!(r#"{{"seq": 900001, "event_id": {deep}, "type": "x", "payload": "\ud800"}}"#);
    let mut body = format!(r#"{{"events": [{bad}, {good}, {{"seq": 900002, "type": ""#).into_bytes();
    body.extend_from_slice(b"\xff\"}]}");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    world.hooks.next("pollEvents", Fault::RawBefore([head.into_bytes(), body].concat()));
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
    eventually("both are acknowledged", || {
        let acks = world.hooks.requests_of("ackEvents");
        let all: String = acks.iter().filter_map(|ack| Some(ack.json()?["seqs"].to_string())).collect();
        (all.contains("900001") && all.contains("900002")).then_some(())
    });
}

/// C7-05: a page in place of JSON is a failure of the transport: the position stays, the events come.
#[test]
fn c7_05_pages_in_place_of_answers() {
    let world = world(&[]);
    let page = |status: &str, body: &str| {
        Fault::RawBefore(
            format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        )
    };
    let faults = [
        page("502 Bad Gateway", "<html>502</html>"),
        page("200 OK", "<html>login</html>"),
        page("200 OK", ""),
        page("204 No Content", ""),
        page("200 OK", "{\"events\": ["),
        Fault::RawBefore(
            b"HTTP/1.1 302 Found\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
    ];
    let begun = world.hooks.count("pollEvents");
    for (nth, fault) in faults.into_iter().enumerate() {
        world.hooks.nth("pollEvents", begun + 1 + nth as u64, fault);
    }
    let (thread, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    let (_, next) = world.asks("two");
    world.ends_as(next, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

/// R-31: a server that does not know a run for a moment has not said that it ended.
#[test]
fn a_gap_with_an_unknown_run_stops_nothing() {
    let world = world(&[]);
    world.claude.steps(json!([waiting_tool(), {"text": "done"}]));
    let (thread, run) = world.asks("one");
    reached(&world, "reached");
    world.hooks.next("getRun", Fault::Refuse(Problem::new(404, "not_found"), None));
    world.server.operator().lose_events().unwrap();
    assert!(world.hooks.wait_for("getRun", 1, Duration::from_secs(60)));
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}

/// R-22: two runners that take the poll from each other by turns; an answer in between is no peace.
#[test]
fn a_duel_with_answers_in_between_is_given_up() {
    let world = World::without_runner(setup(&[]));
    let nothing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{\"events\":[]}";
    for nth in (4..4_000).step_by(2) {
        world.hooks.nth("pollEvents", nth, superseded());
        world.hooks.nth("pollEvents", nth + 1, Fault::RawBefore(nothing.into()));
    }
    let mut runner = RunnerProcess::start_with(&world, &["--superseded-limit-ms", "300"], |_| {});
    assert_eq!(runner.ends().code(), Some(75), "{}", runner.log());
}

/// An acknowledgement that did not reach the server makes its event come again, also without a restart.
#[test]
fn a_lost_acknowledgement_is_made_good() {
    let world = World::with(Setup { sdk: vec!["retry_max_attempts = 1".into()], ..setup(&[]) });
    world.hooks.always("ackEvents", Fault::Refuse(Problem::new(503, "unavailable"), None));
    let (_, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    assert!(world.hooks.wait_for("ackEvents", 1, Duration::from_secs(60)));
    world.hooks.clear();
    let operator = world.server.operator();
    eventually("all is acknowledged", || {
        operator.unacknowledged("default").unwrap().is_empty().then_some(())
    });
    assert_eq!(turns(&world), 1);
}

/// The event of a change is acknowledged before the change is loaded, so the load is made until it is answered.
#[test]
fn a_change_that_could_not_be_loaded_is_loaded_later() {
    let world = World::with(Setup { sdk: vec!["retry_max_attempts = 1".into()], ..setup(&[]) });
    let (_, run) = world.asks("one");
    world.ends_as(run, RunState::Completed, None);
    world.hooks.next("getServedChannelConfig", Fault::Refuse(Problem::new(503, "unavailable"), None));
    let changed = json!({"channel_id": world.channel(), "settings_version": 2});
    world.server.operator().publish("agent.config_changed", &changed).unwrap();
    eventually("it is loaded", || {
        let loads = world.hooks.requests_of("getServedChannelConfig");
        loads.iter().any(|load| load.status == Some(200)).then_some(())
    });
}
