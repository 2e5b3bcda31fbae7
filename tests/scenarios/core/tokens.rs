//! Invocation tokens: what starts nothing, what is renewed, what survives a restart.

use claude_code_runner::local::Signer;
use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::Time;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::{BillingMode, RunState, ToolClass};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::support::logs;
use crate::support::wait::DEADLINE;
use crate::support::world::{Setup, World};

/// A world without a runner whose only event is one that `make` sends for an open run.
fn one_event(make: impl FnOnce(&World, Uuid)) -> (World, Uuid) {
    let mut world = World::without_runner(Setup::default());
    let (_, run) = world.asks("Hello");
    world.server.operator().lose_events().unwrap();
    make(&world, run);
    world.start_runner();
    (world, run)
}

/// Sends the run's invocation with a token whose claims `change` has changed.
fn with_claims(world: &World, run: Uuid, signer: Signer, change: impl FnOnce(&mut Value)) {
    let operator = world.server.operator();
    let (header, mut claims) = operator.token_parts(run).unwrap();
    change(&mut claims);
    let token = operator.sign(&header, &claims, signer).unwrap();
    operator.redeliver_with(run, token, |_| {}).unwrap();
}

fn with_payload(world: &World, run: Uuid, change: impl FnOnce(&mut Value)) {
    let operator = world.server.operator();
    let token = operator.mint_token(run).unwrap();
    operator.redeliver_with(run, token, change).unwrap();
}

type Make = fn(&World, Uuid);

#[test]
fn az_p6_runner_never_starts_runtime() {
    let rows: [(&str, Make); 9] = [
        ("missing token", |world, run| {
            with_payload(world, run, |payload| {
                payload.as_object_mut().unwrap().remove("invocation_token");
            });
        }),
        ("empty token", |world, run| {
            with_payload(world, run, |payload| payload["invocation_token"] = "".into())
        }),
        ("wrong signature", |world, run| with_claims(world, run, Signer::Stranger, |_| {})),
        ("aud of Lotse", |world, run| {
            let (lotse, _) = world.server.operator().add_agent("Lotse").unwrap();
            with_claims(world, run, Signer::Current, |claims| claims["aud"] = json!(lotse));
        }),
        ("another instance", |world, run| {
            with_claims(world, run, Signer::Current, |claims| claims["iss"] = json!(Uuid::now_v7()));
        }),
        ("another run", |world, run| {
            with_claims(world, run, Signer::Current, |claims| claims["run_id"] = json!(Uuid::now_v7()));
        }),
        ("not yet valid", |world, run| {
            let later = Time::now().as_seconds() + 3600;
            with_claims(world, run, Signer::Current, |claims| claims["nbf"] = json!(later));
        }),
        ("deviating billing mode", |world, run| {
            with_payload(world, run, |payload| payload["billing_mode"] = "personal".into());
        }),
        ("deviating tool class", |world, run| {
            with_payload(world, run, |payload| payload["tool_class"] = "host".into());
        }),
    ];
    for (name, make) in rows {
        let (world, run) = one_event(make);
        refused_before_start(&world, run, "invalid_invocation_token", name);
        assert!(world.claude.captured("auth").is_empty(), "{name}");
        answered(&world, "ackEvents", 1);
    }
}

/// R-28, R-31: while the agent token itself is refused, the end of a refused run waits until it is good again.
#[test]
fn r_31_a_refusal_outlasts_a_refused_agent_token() {
    let (world, run) = one_event(|world, run| {
        with_claims(world, run, Signer::Stranger, |_| {});
        // The second is the repeat with the token read anew.
        for ordinal in 1..=2 {
            let refused = Problem::new(401, "unauthenticated");
            world.hooks.nth("finishRun", ordinal, Fault::Refuse(refused, None));
        }
    });
    refused_before_start(&world, run, "invalid_invocation_token", "told later");
}

#[test]
fn az_p6_a_refused_renewal_starts_nothing() {
    let (world, run) = one_event(|world, run| {
        let operator = world.server.operator();
        let (header, mut claims) = operator.token_parts(run).unwrap();
        let past = Time::now().as_seconds() - 3600;
        (claims["iat"], claims["exp"]) = (json!(past - 60), json!(past));
        let token = operator.sign(&header, &claims, Signer::Current).unwrap();
        operator.accept_token(run, &token, claims["jti"].as_str().unwrap(), past).unwrap();
        let denied = Problem::new(403, "agent_invocation_denied");
        world.hooks.always("renewInvocationToken", Fault::Refuse(denied, None));
        operator.redeliver_with(run, token, |_| {}).unwrap();
    });
    answered(&world, "renewInvocationToken", 1);
    answered(&world, "ackEvents", 1);
    let gone = || logs::has_code(run, "server_ended") || logs::has_code(run, "invocation_denied");
    crate::support::wait::eventually("the entry is closed", || gone().then_some(()));
    nothing_started(&world, "a refused renewal");
    assert_eq!(world.hooks.count("finishRun"), 0, "the server ends such a run itself");
    world.server.operator().end_run(run, RunState::Failed, Some("invalid_invocation_token")).unwrap();
}

#[test]
fn az_p6_a_repeated_jti_gives_one_turn() {
    let (world, run) = one_event(|world, run| {
        let operator = world.server.operator();
        let token = operator.mint_token(run).unwrap();
        for _ in 0..3 {
            operator.redeliver_with(run, token.clone(), |_| {}).unwrap();
        }
    });
    world.ends_as(run, RunState::Completed, None);
    let token = world.server.operator().newest_token(run).unwrap();
    world.server.operator().redeliver_with(run, token, |_| {}).unwrap();
    let acked = || world.server.operator().unacknowledged("default").unwrap().is_empty().then_some(());
    crate::support::wait::eventually("everything is acknowledged", acked);
    assert_eq!((world.claude.captured("turn").len(), world.hooks.count("startRun")), (1, 1));
    assert_eq!(world.hooks.count("finishRun"), 1);
}

/// R-30: a bad redelivery of a run that the inbox knows is acknowledged and changes nothing.
#[test]
fn r_30_a_bad_redelivery_kills_no_run() {
    let world = World::new();
    world.claude.steps(json!([{"tool": {"name": "Bash", "input": {}, "do": [{"mark": "up"}, {"hold": "go"}]}}, {"text": "done"}]));
    let (thread, run) = world.asks("Hello");
    reached(&world, "up");
    with_claims(&world, run, Signer::Stranger, |_| {});
    let token = world.server.operator().newest_token(run).unwrap();
    world
        .server
        .operator()
        .redeliver_with(run, token, |payload| payload["tool_class"] = "host".into())
        .unwrap();
    let acked = || world.server.operator().unacknowledged("default").unwrap().is_empty().then_some(());
    crate::support::wait::eventually("everything is acknowledged", acked);
    assert!(logs::has_code(run, "invalid_invocation_token"));
    world.claude.release("go");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(world.answer_texts(thread), ["done"]);
}

#[test]
fn expired_token_renewed_before_start() {
    let world = World::new();
    world.hooks.next("startRun", Fault::Refuse(token_refused("expired"), None));
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    let counts =
        ["startRun", "renewInvocationToken", "finishRun"].map(|operation| world.hooks.count(operation));
    assert_eq!((counts, world.claude.captured("turn").len()), ([2, 1, 1], 1));
    let starts = of_run(&world, "startRun", run);
    assert_eq!(starts[0].header("Idempotency-Key"), starts[1].header("Idempotency-Key"));
    assert_ne!(starts[0].header("Invocation-Token"), starts[1].header("Invocation-Token"));

    let world = World::new();
    world.hooks.next("startRun", Fault::Refuse(token_refused("superseded"), None));
    let (_, run) = world.asks("Hello");
    crate::support::wait::eventually("it is parked", || {
        logs::has_code(run, "token_superseded").then_some(())
    });
    assert!(!world.hooks.wait_for("startRun", 2, QUIET), "it waits for the newer token");
    assert_eq!((world.claude.captured("turn").len(), world.hooks.count("finishRun")), (0, 0));
    world.server.operator().redeliver(run).unwrap();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!((world.hooks.count("startRun"), world.claude.captured("turn").len()), (2, 1));
}

/// An expired token is accepted and renewed, inside and outside a start.
#[test]
fn an_expired_token_is_renewed_for_real() {
    let (world, run) = one_event(|world, run| {
        let operator = world.server.operator();
        operator.redeliver(run).unwrap();
        operator.expire_tokens(run).unwrap();
    });
    world.ends_as(run, RunState::Completed, None);
    assert!(world.hooks.count("renewInvocationToken") >= 1);
    assert_eq!(world.claude.captured("turn").len(), 1);
}

#[test]
fn inbox_survives_restart() {
    let mut world = World::new();
    let gate = world.hooks.hold_next("getRunContext");
    let (thread, run) = world.asks("Hello");
    assert!(gate.reached(DEADLINE));
    answered(&world, "ackEvents", 1);
    world.stop_runner().unwrap();
    world.hooks.clear();
    assert_eq!(world.hooks.count("startRun"), 0);
    world.start_runner();
    world.ends_as(run, RunState::Completed, None);
    assert_eq!((world.hooks.count("startRun"), world.claude.captured("turn").len()), (1, 1));
    assert_eq!(world.answer_texts(thread), ["an answer"]);
}

/// What the operator allows counts when a run starts, also one that was accepted when more was allowed.
#[test]
fn a_run_accepted_before_a_restart_is_held_to_the_configuration_of_now() {
    type Change = fn(&mut Setup);
    let personal = Setup {
        billing: BillingMode::Personal,
        runner: vec!["allow_personal = true".into()],
        ..Setup::default()
    };
    let chat = Setup { runner_class: ToolClass::Chat, server_class: ToolClass::Chat, ..Setup::default() };
    let rows: [(Setup, Change, &str); 2] = [
        (personal, |setup| setup.runner.clear(), "billing_mode_mismatch"),
        (chat, |setup| setup.runner_class = ToolClass::Scoped, "tool_class_mismatch"),
    ];
    for (setup, change, reason) in rows {
        let mut world = World::with(setup);
        let gate = world.hooks.hold_next("getRunContext");
        let (_, run) = world.asks("Hello");
        assert!(gate.reached(DEADLINE));
        answered(&world, "ackEvents", 1);
        world.stop_runner().unwrap();
        world.hooks.clear();
        world.change_setup(change);
        world.start_runner();
        refused_before_start(&world, run, reason, reason);
        assert!(world.claude.captured("auth").is_empty(), "{reason}");
    }
}

/// R-22: an old event is not worked on, and the person is told.
#[test]
fn r_22_an_old_event_is_refused_with_a_sentence() {
    let mut world = World::without_runner(Setup::default());
    let (thread, run) = world.asks("Hello");
    world.change_setup(|setup| setup.adapter.push(r#"max_event_age = "1ms""#.into()));
    world.start_runner();
    world.ends_as(run, RunState::Failed, Some("event_too_old"));
    nothing_started(&world, "too old");
    let texts = world.answer_texts(thread);
    assert!(texts.len() == 1 && texts[0].contains("waited too long"), "{texts:?}");
}

/// R-29: what the server says to a start, and what follows.
#[test]
fn r_29_refused_starts() {
    let rows: [(&str, u16, Option<&str>); 8] = [
        ("already_started", 409, None),
        ("agent_invocation_denied", 403, None),
        ("not_found", 404, None),
        ("run_unknown", 404, None),
        ("billing_mode_mismatch", 409, Some("billing_mode_mismatch")),
        ("tool_class_mismatch", 409, Some("tool_class_mismatch")),
        ("validation_failed", 400, Some("adapter_error")),
        ("invocation_token_invalid", 403, Some("invalid_invocation_token")),
    ];
    for (code, status, reason) in rows {
        let world = World::new();
        let mut problem = Problem::new(status, code);
        if code == "invocation_token_invalid" {
            problem = problem.because("invalid");
        }
        world.hooks.always("startRun", Fault::Refuse(problem, None));
        let (_, run) = world.asks("Hello");
        match reason {
            Some(reason) => {
                world.ends_as(run, RunState::Failed, Some(reason));
            }
            None => {
                let closed = || {
                    ["started_elsewhere", "invocation_denied", "server_ended"]
                        .iter()
                        .any(|known| logs::has_code(run, known))
                        .then_some(())
                };
                crate::support::wait::eventually("the entry is closed", closed);
                assert_eq!(world.hooks.count("finishRun"), 0, "{code}");
                world.server.operator().end_run(run, RunState::Failed, Some("adapter_error")).unwrap();
            }
        }
        assert!(world.claude.captured("turn").is_empty(), "{code}");
    }
}
