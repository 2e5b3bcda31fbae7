use proptest::prelude::*;
use serde_json::json;

use super::*;

const INTERVAL: Duration = Duration::from_secs(2);
const STEP: &str = "/steps/00000000-0000-0000-0000-000000000001";

fn ops(patch: &RunPatch) -> Vec<(PatchKind, &str, Option<Value>)> {
    patch.ops.iter().map(|op| (op.op, op.path.as_str(), op.value.clone())).collect()
}

#[test]
fn paths_of_the_run_document() {
    let long = format!("/metrics/{}", "a".repeat(METRIC_NAME_MAX + 1));
    let rows = [
        ("/model", true),
        ("/grant_revision", true),
        ("/status_line", true),
        ("/last_text_excerpt", true),
        (STEP, true),
        ("/metrics/tokens_in", true),
        ("", false),
        ("/", false),
        ("model", false),
        ("/model/x", false),
        ("/other", false),
        ("/steps/", false),
        ("/steps/1", false),
        ("/steps/00000000-0000-0000-0000-00000000000A", false),
        ("/steps/00000000000000000000000000000001", false),
        ("/steps/00000000-0000-0000-0000-000000000001/title", false),
        ("/metrics/", false),
        ("/metrics/a/b", false),
        ("/metrics/A", false),
        ("/metrics/a~1b", false),
        (&long, false),
    ];
    let mut patcher = RunPatcher::new(1, INTERVAL);
    for (path, good) in rows {
        assert_eq!(is_document_path(path), good, "{path}");
        assert_eq!(patcher.set(path, json!(1)).is_ok(), good, "{path}");
        assert_eq!(patcher.remove(path).is_ok(), good, "{path}");
    }
}

#[test]
fn faulty_operations_change_nothing() {
    let op = |kind, path: &str, value| PatchOp { op: kind, path: path.into(), value };
    let rows = [
        (op(PatchKind::Add, "/model", None), PatchFault::Shape),
        (op(PatchKind::Remove, "/model", Some(json!(1))), PatchFault::Shape),
        (op(PatchKind::Replace, "/model", Some(Value::Null)), PatchFault::Null),
        (op(PatchKind::Add, STEP, Some(json!({"detail": [{"a": null}]}))), PatchFault::Null),
        (op(PatchKind::Add, "/secret", Some(json!(1))), PatchFault::Path),
    ];
    let mut patcher = RunPatcher::new(1, INTERVAL);
    for (op, fault) in rows {
        assert_eq!(patcher.apply(&op), Err(fault));
        assert!(!fault.code().is_empty() && !fault.to_string().is_empty());
    }
    assert!(patcher.is_settled());
    patcher.apply(&op(PatchKind::Replace, "/model", Some(json!("one")))).unwrap();
    patcher.apply(&op(PatchKind::Remove, "/status_line", None)).unwrap();
    let patch = patcher.due(Instant::now()).unwrap();
    let expected =
        [(PatchKind::Add, "/model", Some(json!("one"))), (PatchKind::Remove, "/status_line", None)];
    assert_eq!(ops(&patch), expected);
}

#[test]
fn the_last_write_of_a_path_wins_in_the_order_of_the_first() {
    let now = Instant::now();
    let mut patcher = RunPatcher::new(7, INTERVAL);
    patcher.set("/model", json!("one")).unwrap();
    patcher.set("/status_line", json!("queued")).unwrap();
    patcher.set(STEP, json!({"title": "a"})).unwrap();
    patcher.set("/model", json!("two")).unwrap();
    patcher.remove("/status_line").unwrap();
    let patch = patcher.due(now).unwrap();
    assert_eq!(patch.base_version, 7);
    let expected = [
        (PatchKind::Add, "/model", Some(json!("two"))),
        (PatchKind::Remove, "/status_line", None),
        (PatchKind::Add, STEP, Some(json!({"title": "a"}))),
    ];
    assert_eq!(ops(&patch), expected);
}

#[test]
fn patches_are_throttled() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut patcher = RunPatcher::new(1, INTERVAL);
    assert_eq!((patcher.next_due(start), patcher.due(start)), (None, None));
    patcher.set("/model", json!("one")).unwrap();
    assert_eq!(patcher.next_due(start), Some(start));
    assert!(patcher.due(start).is_some());
    patcher.set("/status_line", json!("x")).unwrap();
    assert_eq!((patcher.next_due(at(9)), patcher.due(at(9))), (None, None), "one at a time");
    assert_eq!(patcher.flush(at(9)), None);
    patcher.sent(2);
    assert_eq!(patcher.next_due(at(1)), Some(at(2)));
    assert_eq!(patcher.due(at(1)), None);
    assert_eq!(patcher.due(at(2)).unwrap().base_version, 2);
    patcher.failed();
    assert_eq!(patcher.due(at(3)), None, "a failed attempt counts too");
    assert!(patcher.flush(at(3)).is_some(), "the end of a run does not wait");
    patcher.conflict(9);
    assert_eq!(patcher.due(at(4)), None);
    assert_eq!(patcher.due(at(5)).unwrap().base_version, 9);
    patcher.sent(10);
    assert!(patcher.is_settled());
}

#[test]
fn nothing_is_sent_when_nothing_changed() {
    let now = Instant::now();
    let mut patcher = RunPatcher::new(1, Duration::ZERO);
    patcher.set("/model", json!("one")).unwrap();
    patcher.due(now).unwrap();
    patcher.set("/model", json!("one")).unwrap();
    patcher.sent(2);
    patcher.set("/model", json!("one")).unwrap();
    assert_eq!(patcher.due(now), None);
    patcher.set("/model", json!("two")).unwrap();
    assert!(patcher.due(now).is_some());
    patcher.set("/model", json!("three")).unwrap();
    patcher.set("/model", json!("two")).unwrap();
    patcher.sent(3);
    assert!(patcher.is_settled(), "there and back again");
    patcher.remove("/model").unwrap();
    assert_eq!(ops(&patcher.due(now).unwrap()), [(PatchKind::Remove, "/model", None)]);
}

#[test]
fn a_conflict_and_a_failure_keep_the_operations_under_newer_writes() {
    let now = Instant::now();
    for conflict in [true, false] {
        let mut patcher = RunPatcher::new(1, Duration::ZERO);
        patcher.set("/model", json!("one")).unwrap();
        patcher.set("/status_line", json!("a")).unwrap();
        patcher.due(now).unwrap();
        patcher.set("/last_text_excerpt", json!("text")).unwrap();
        patcher.set("/status_line", json!("b")).unwrap();
        if conflict {
            patcher.conflict(5)
        } else {
            patcher.failed()
        }
        let patch = patcher.due(now).unwrap();
        assert_eq!(patch.base_version, if conflict { 5 } else { 1 });
        let expected = [
            (PatchKind::Add, "/model", Some(json!("one"))),
            (PatchKind::Add, "/status_line", Some(json!("b"))),
            (PatchKind::Add, "/last_text_excerpt", Some(json!("text"))),
        ];
        assert_eq!(ops(&patch), expected);
    }
}

#[test]
fn a_patch_is_bounded() {
    let now = Instant::now();
    let mut patcher = RunPatcher::new(1, Duration::ZERO);
    for number in 0..MAX_OPS_PER_PATCH + 1 {
        patcher.set(&format!("/metrics/m{number}"), json!(number)).unwrap();
    }
    assert_eq!(patcher.due(now).unwrap().ops.len(), MAX_OPS_PER_PATCH);
    patcher.sent(2);
    assert_eq!(patcher.due(now).unwrap().ops.len(), 1);
}

#[test]
fn an_interval_beyond_all_clocks_does_not_panic() {
    let now = Instant::now();
    let mut patcher = RunPatcher::new(1, Duration::MAX);
    patcher.set("/model", json!("one")).unwrap();
    assert!(patcher.due(now).is_some());
    patcher.failed();
    assert_eq!((patcher.next_due(now), patcher.due(now)), (None, None));
    patcher.sent(2);
    patcher.conflict(3);
    patcher.failed();
}

/// A server with its run document, and the wire between it and the patcher.
#[derive(Default)]
struct Server {
    version: i64,
    document: BTreeMap<String, Value>,
    /// Sent by the patcher, not yet there.
    on_its_way: Option<RunPatch>,
}

impl Server {
    fn take(&mut self, patch: &RunPatch) -> bool {
        if patch.base_version != self.version {
            return false;
        }
        for op in &patch.ops {
            match &op.value {
                Some(value) => drop(self.document.insert(op.path.clone(), value.clone())),
                None => drop(self.document.remove(&op.path)),
            }
        }
        self.version += 1;
        true
    }

    /// The patch arrives and is answered, or the answer is lost.
    fn arrive(&mut self, patcher: &mut RunPatcher, answer_lost: bool) {
        let Some(patch) = self.on_its_way.take() else { return };
        match (self.take(&patch), answer_lost) {
            (_, true) => patcher.failed(),
            (true, false) => patcher.sent(self.version),
            (false, false) => patcher.conflict(self.version),
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    Set(usize, u8),
    Remove(usize),
    Send,
    Arrive,
    AnswerLost,
    NeverArrives,
    /// Somebody else wrote something that this side does not care for.
    ForeignWrite,
}

const PATHS: [&str; 4] = ["/model", "/status_line", STEP, "/metrics/tokens_in"];

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => (0..PATHS.len(), 0_u8..3).prop_map(|(path, value)| Action::Set(path, value)),
        2 => (0..PATHS.len()).prop_map(Action::Remove),
        4 => Just(Action::Send),
        2 => Just(Action::Arrive),
        1 => Just(Action::AnswerLost),
        1 => Just(Action::NeverArrives),
        1 => Just(Action::ForeignWrite),
    ];
    proptest::collection::vec(action, 0..80)
}

proptest! {
    #[test]
    fn the_document_ends_as_the_last_writes_say(actions in actions()) {
        let now = Instant::now();
        let mut patcher = RunPatcher::new(0, Duration::ZERO);
        let mut server = Server::default();
        let mut last: BTreeMap<&str, Value> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Set(path, value) => {
                    patcher.set(PATHS[path], json!(value)).unwrap();
                    last.insert(PATHS[path], json!(value));
                }
                Action::Remove(path) => {
                    patcher.remove(PATHS[path]).unwrap();
                    last.remove(PATHS[path]);
                }
                Action::Send => server.on_its_way = patcher.due(now).or(server.on_its_way.take()),
                Action::Arrive => server.arrive(&mut patcher, false),
                Action::AnswerLost => server.arrive(&mut patcher, true),
                Action::NeverArrives => {
                    server.on_its_way = None;
                    patcher.failed();
                }
                Action::ForeignWrite => server.version += 1,
            }
        }
        for _ in 0..4 {
            server.arrive(&mut patcher, false);
            server.on_its_way = patcher.due(now);
        }
        prop_assert!(patcher.is_settled());
        let held: BTreeMap<&str, Value> =
            server.document.iter().map(|(path, value)| (path.as_str(), value.clone())).collect();
        prop_assert_eq!(held, last);
    }
}
