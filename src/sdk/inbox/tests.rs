use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::sdk::store::tests::Place;
use crate::sdk::store::{Store, StoreError};
use crate::sdk::wire::event::{AgentFollowup, AgentInvocation};
use crate::sdk::wire::run::{BillingEvidence, BillingMode, FollowupState, RunStart, RunStarted, ToolClass};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn event(seq: i64) -> EventRef {
    EventRef { seq, event_id: id(1000 + seq as u128), occurred_at: Time::now() }
}

fn invocation(run: u128, token: &str) -> AgentInvocation {
    serde_json::from_value(serde_json::json!({
        "run_id": id(run), "thread_id": id(2), "channel_id": id(3), "trigger_kind": "message",
        "triggered_by": {"principal_id": id(4), "display_name": "Alex"},
        "billing_mode": "organization", "tool_class": "scoped", "settings_version": 1,
        "invocation_token": token,
    }))
    .unwrap()
}

fn new_entry(run: u128, seq: i64, jti: &str) -> NewEntry {
    let exp = Time::now().as_seconds() + 600;
    NewEntry {
        event: event(seq),
        invocation: invocation(run, &format!("token of {jti}")),
        jti: jti.into(),
        exp,
    }
}

fn followup(number: u128, run: u128) -> AgentFollowup {
    serde_json::from_value(serde_json::json!({
        "run_id": id(run), "followup_id": id(number), "thread_id": id(2),
        "message": {
            "message_id": id(7), "seq": 9, "author": {"principal_id": id(4), "display_name": "Alex"},
            "role": "person", "trust": "trigger", "origin": "chat", "kind": "text",
            "created_at": "2026-01-02T03:04:05.678Z", "content_md": "and this too",
        },
    }))
    .unwrap()
}

fn run_start(model: &str) -> RunStart {
    RunStart {
        billing_mode_used: BillingMode::Organization,
        tool_class_used: ToolClass::Scoped,
        external_session_ref: id(8).to_string(),
        model: model.into(),
        billing_evidence: BillingEvidence {
            provider: "anthropic".into(),
            key_type: "api_key".into(),
            method: "claude_auth_status".into(),
        },
    }
}

fn run_started(run: u128) -> RunStarted {
    serde_json::from_value(serde_json::json!({
        "run": {"run_id": id(run), "state": "running", "version": 1},
        "agent_session": {"external_session_ref": id(8), "started": false, "version": 1},
    }))
    .unwrap()
}

fn accept(store: &mut Store, run: u128, seq: i64, jti: &str) -> Acceptance {
    store.accept(&new_entry(run, seq, jti)).unwrap()
}

fn state(store: &Store, run: u128) -> EntryState {
    store.entry(id(run)).unwrap().unwrap().state
}

#[test]
fn inbox_acceptance_table() {
    let place = Place::new();
    let mut store = place.open();
    let rows = [
        ("a new run", 1, 10, "a", Acceptance::New, "token of a"),
        ("the same event again", 1, 10, "a", Acceptance::Repeated, "token of a"),
        ("its jti in another event", 1, 11, "a", Acceptance::Repeated, "token of a"),
        ("a redelivery with a new jti", 1, 12, "b", Acceptance::NewerToken, "token of b"),
        ("the first jti once more", 1, 13, "a", Acceptance::Repeated, "token of b"),
        (
            "an older event, left unacknowledged, with a jti of its own",
            1,
            9,
            "c",
            Acceptance::Repeated,
            "token of b",
        ),
        ("a jti of another run", 2, 14, "b", Acceptance::ForeignJti, "token of b"),
        ("another run", 2, 15, "d", Acceptance::New, "token of b"),
    ];
    for (name, run, seq, jti, expected, token) in rows {
        assert_eq!(accept(&mut store, run, seq, jti), expected, "{name}");
        assert_eq!(store.newest_token(id(1)).unwrap().as_deref(), Some(token), "{name}");
        assert!(store.event_handled(event(seq).event_id).unwrap(), "{name}");
    }
    let open: Vec<Uuid> = store.open_entries().unwrap().iter().map(|entry| entry.run_id).collect();
    assert_eq!(open, [id(1), id(2)]);
}

#[test]
fn inbox_survives_restart() {
    let place = Place::new();
    {
        let mut store = place.open();
        accept(&mut store, 1, 10, "a");
        store.begin_start(id(1), id(50), &run_start("one")).unwrap();
        store.store_stop(&event(11), id(1), "user_stop").unwrap();
    }
    let entry = place.open().entry(id(1)).unwrap().unwrap();
    assert_eq!(entry.state, EntryState::Starting);
    assert_eq!(entry.start, Some(StoredStart { key: id(50), body: run_start("one") }));
    assert_eq!(entry.stop, Some(Stop { reason: "user_stop".into() }));
    assert_eq!((entry.token.as_str(), entry.token_jti.as_str()), ("token of a", "a"));
    assert_eq!(entry.invocation, invocation(1, "token of a"));
    assert_eq!(entry.event.seq, 10);
}

#[test]
fn acceptance_is_one_transaction() {
    let place = Place::new();
    let mut store = place.open();
    for table in ["jtis", "handled_events"] {
        let trigger = format!(
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.{table} BEGIN SELECT RAISE(ABORT, 'no'); END"
        );
        store.reader().execute_batch(&trigger).unwrap();
        assert!(store.accept(&new_entry(1, 10, "a")).is_err(), "{table}");
        store.reader().execute_batch("DROP TRIGGER refuse").unwrap();
        assert!(store.entry(id(1)).unwrap().is_none(), "{table}");
        assert!(!store.event_handled(event(10).event_id).unwrap(), "{table}");
    }
    assert_eq!(accept(&mut store, 1, 10, "a"), Acceptance::New);
}

#[test]
fn a_stored_start_is_repeated_unchanged_until_it_was_refused() {
    let place = Place::new();
    let mut store = place.open();
    let error = store.begin_start(id(1), id(50), &run_start("one")).unwrap_err();
    assert_eq!(error, StoreError::Unknown);
    accept(&mut store, 1, 10, "a");
    assert_eq!(store.mark_started(id(1), &run_started(1)), Err(StoreError::State), "no start was stored");
    let first = store.begin_start(id(1), id(50), &run_start("one")).unwrap();
    assert_eq!(store.begin_start(id(1), id(51), &run_start("two")).unwrap(), first);
    store.abandon_start(id(1)).unwrap();
    assert_eq!(state(&store, 1), EntryState::Accepted);
    let second = store.begin_start(id(1), id(52), &run_start("two")).unwrap();
    assert_eq!(second, StoredStart { key: id(52), body: run_start("two") });
    store.mark_started(id(1), &run_started(1)).unwrap();
    store.mark_started(id(1), &run_started(1)).unwrap();
    store.abandon_start(id(1)).unwrap();
    assert_eq!(state(&store, 1), EntryState::Started, "what has started stays so");
    let error = store.begin_start(id(1), id(53), &run_start("three")).unwrap_err();
    assert_eq!(error, StoreError::State);
    assert_eq!(store.entry(id(1)).unwrap().unwrap().started, Some(run_started(1)));
}

#[test]
fn a_closed_entry_starts_nothing_and_holds_no_token() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    store.close(id(1)).unwrap();
    store.close(id(1)).unwrap();
    store.close(id(99)).unwrap();
    assert_eq!(accept(&mut store, 1, 10, "a"), Acceptance::Repeated);
    assert_eq!(accept(&mut store, 1, 11, "b"), Acceptance::Closed);
    assert_eq!(accept(&mut store, 1, 11, "b"), Acceptance::Repeated);
    assert_eq!(accept(&mut store, 2, 12, "b"), Acceptance::ForeignJti);
    store.replace_token(id(1), "late", "c", 1).unwrap();
    assert_eq!(store.newest_token(id(1)).unwrap(), None);
    let entry = store.entry(id(1)).unwrap().unwrap();
    assert_eq!((entry.state, entry.token.as_str()), (EntryState::Closed, ""));
    assert!(store.open_entries().unwrap().is_empty());
    drop(store);
    let bytes = std::fs::read(place.path()).unwrap();
    let found = bytes.windows(8).any(|window| window == b"token of");
    assert!(!found, "no copy of a token is left in the file");
}

#[test]
fn a_renewed_token_replaces_the_stored_one() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    store.replace_token(id(1), "renewed", "r", 5).unwrap();
    let entry = store.entry(id(1)).unwrap().unwrap();
    assert_eq!((entry.token.as_str(), entry.token_jti.as_str(), entry.token_exp), ("renewed", "r", 5));
    assert_eq!(entry.invocation.invocation_token, "renewed");
    assert_eq!(accept(&mut store, 2, 11, "r"), Acceptance::ForeignJti);
}

#[test]
fn a_stop_is_stored_also_for_a_run_that_comes_later() {
    let place = Place::new();
    let mut store = place.open();
    assert!(!store.store_stop(&event(9), id(1), "owner_stop").unwrap());
    accept(&mut store, 1, 10, "a");
    assert!(store.store_stop(&event(11), id(1), "user_stop").unwrap());
    let stop = Some(Stop { reason: "owner_stop".into() });
    assert_eq!(store.stop_of(id(1)).unwrap(), stop, "the first reason stays");
    assert_eq!(store.entry(id(1)).unwrap().unwrap().stop, stop);
    store.close(id(1)).unwrap();
    assert!(!store.store_stop(&event(12), id(1), "user_stop").unwrap());
    assert_eq!(store.stop_of(id(2)).unwrap(), None);
    for seq in [9, 11, 12] {
        assert!(store.event_handled(event(seq).event_id).unwrap());
    }
}

#[test]
fn r_05_a_followup_ends_in_exactly_one_final_state() {
    use FollowupState::{Absorbed, Answered, Delivered, Refused};
    type Steps<'a> = &'a [(FollowupState, bool)];
    let rows: [(&str, Steps<'_>, Option<FollowupState>, bool); 5] = [
        ("nobody took it", &[], None, true),
        ("delivered is not the end", &[(Delivered, true)], Some(Delivered), true),
        ("answered", &[(Delivered, true), (Answered, true)], Some(Answered), false),
        ("no second end", &[(Absorbed, true), (Refused, false)], Some(Absorbed), false),
        ("refused at once", &[(Refused, true), (Delivered, false)], Some(Refused), false),
    ];
    for (name, steps, last, open) in rows {
        let place = Place::new();
        let mut store = place.open();
        assert!(store.store_followup(&event(20), &followup(60, 1)).unwrap(), "{name}");
        assert!(!store.store_followup(&event(21), &followup(60, 1)).unwrap(), "{name}: a repeat");
        for (state, changed) in steps {
            assert_eq!(store.settle_followup(id(60), *state).unwrap(), *changed, "{name}");
        }
        let stored = StoredFollowup { followup: followup(60, 1), seq: 20, state: last };
        assert_eq!(store.followup(id(60)).unwrap(), Some(stored.clone()), "{name}");
        let expected = if open { vec![stored] } else { vec![] };
        assert_eq!(store.open_followups(id(1)).unwrap(), expected, "{name}");
        assert_eq!(store.runs_with_open_followups().unwrap().len(), usize::from(open), "{name}");
    }
    let place = Place::new();
    assert_eq!(place.open().settle_followup(id(60), Refused), Err(StoreError::Unknown));
}

#[test]
fn followups_keep_their_order() {
    let place = Place::new();
    let mut store = place.open();
    for (seq, number, run) in [(20, 63, 1), (21, 61, 1), (22, 62, 2)] {
        store.store_followup(&event(seq), &followup(number, run)).unwrap();
    }
    let ids: Vec<Uuid> =
        store.open_followups(id(1)).unwrap().iter().map(|open| open.followup.followup_id).collect();
    assert_eq!(ids, [id(63), id(61)]);
    assert_eq!(store.runs_with_open_followups().unwrap(), [id(1), id(2)]);
}

#[test]
fn r_30_a_refusal_never_ends_an_accepted_run() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    assert!(!store.store_refusal(&event(11), id(1), "invalid_invocation_token").unwrap());
    assert!(store.pending_refusals().unwrap().is_empty());
    assert!(store.store_refusal(&event(12), id(2), "invalid_invocation_token").unwrap());
    assert!(store.store_refusal(&event(13), id(2), "tool_class_mismatch").unwrap());
    let refusal = Refusal { run_id: id(2), reason: "invalid_invocation_token".into() };
    assert_eq!(place.open().pending_refusals().unwrap(), [refusal], "durable, the first reason");
    assert_eq!(accept(&mut store, 2, 14, "b"), Acceptance::Repeated, "a refused run stays refused");
    store.settle_refusal(id(2)).unwrap();
    assert!(store.pending_refusals().unwrap().is_empty());
    assert_eq!(accept(&mut store, 2, 15, "c"), Acceptance::Repeated);
}

#[test]
fn c7_01_a_handled_event_is_known_after_a_restart() {
    let place = Place::new();
    place.open().mark_event_handled(&event(30)).unwrap();
    let mut store = place.open();
    assert!(store.event_handled(event(30).event_id).unwrap());
    store.mark_event_handled(&event(30)).unwrap();
    assert!(!store.event_handled(event(31).event_id).unwrap());
}

#[test]
fn r_30_memory_lasts_until_exp_plus_the_window() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    accept(&mut store, 2, 11, "b");
    store.close(id(2)).unwrap();
    store.store_stop(&event(12), id(3), "user_stop").unwrap();
    store.store_stop(&event(13), id(1), "user_stop").unwrap();
    store.store_followup(&event(14), &followup(60, 3)).unwrap();
    store.store_refusal(&event(15), id(4), "runtime_error").unwrap();
    let later = |seconds: i64| Time::from_millis(Time::now().as_millis() + seconds * 1000);
    let day = DAY.as_secs() as i64;

    store.forget_older(later(day - 5), DAY).unwrap();
    assert!(store.stop_of(id(3)).unwrap().is_some(), "inside the window");
    store.forget_older(later(day + 500), DAY).unwrap();
    assert!(store.stop_of(id(3)).unwrap().is_none(), "the run never came");
    assert!(!store.event_handled(event(12).event_id).unwrap());
    assert_eq!(accept(&mut store, 2, 20, "b"), Acceptance::Repeated, "exp is 600 s after acceptance");
    store.forget_older(later(day + 700), DAY).unwrap();
    assert!(store.entry(id(2)).unwrap().is_none());
    assert_eq!(state(&store, 1), EntryState::Accepted, "open work is never forgotten");
    assert!(store.stop_of(id(1)).unwrap().is_some());
    assert_eq!(store.open_followups(id(3)).unwrap().len(), 1);
    assert_eq!(store.pending_refusals().unwrap().len(), 1);
    assert_eq!(accept(&mut store, 1, 10, "a"), Acceptance::Repeated, "the event's position is known");
    store.forget_older(Time::from_millis(i64::MAX), Duration::MAX).unwrap();
    store.forget_older(Time::from_millis(i64::MIN), DAY).unwrap();
}

/// The memory of used tokens does not depend on a clock that only goes forward.
#[test]
fn c7_09_a_replay_is_known_after_the_clock_was_set_back() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    store.close(id(1)).unwrap();
    let shifted = |hours: i64| Time::from_millis(Time::now().as_millis() + hours * 3_600_000);
    for hours in [-1, 1, -48] {
        store.forget_older(shifted(hours), DAY).unwrap();
        assert_eq!(accept(&mut store, 1, 20, "a"), Acceptance::Repeated, "{hours} h");
        assert_eq!(accept(&mut store, 2, 21, "a"), Acceptance::ForeignJti, "{hours} h");
    }
}

#[test]
fn a_row_that_cannot_be_read_hides_no_other() {
    let place = Place::new();
    let mut store = place.open();
    accept(&mut store, 1, 10, "a");
    accept(&mut store, 2, 11, "b");
    store.reader().execute("UPDATE entries SET invocation = '{' WHERE seq = 10", []).unwrap();
    assert_eq!(store.entry(id(1)).unwrap_err(), StoreError::Row);
    let open: Vec<Uuid> = store.open_entries().unwrap().iter().map(|entry| entry.run_id).collect();
    assert_eq!(open, [id(2)]);
}
