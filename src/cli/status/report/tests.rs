//! State directories as a runner leaves them.

use super::*;
use crate::runner::status::{Facts, Phase};
use crate::sys::private::TempDir;

fn status(phase: Phase, next_by: i64) -> Status {
    let at = Time::from_millis(0);
    Status {
        facts: Facts {
            status_version: STATUS_VERSION,
            version: "1".into(),
            pid: 7,
            started_at: at,
            phase,
            runtime_version: None,
            degraded_reasons: Vec::new(),
            slots: 2,
            parked: 0,
            runs: Vec::new(),
        },
        written_at: at,
        next_by: Time::from_millis(next_by),
        last_contact_at: None,
    }
}

#[test]
fn a_runner_is_judged_by_its_lock_and_its_own_sign() {
    let now = Time::from_millis(10 * LATE_MS);
    let on_time = now.as_millis();
    let rows = [
        (false, None, State::NotRunning),
        (false, Some(status(Phase::Serving, on_time)), State::NotRunning),
        (true, None, State::Unknown),
        (true, Some(status(Phase::Serving, on_time - LATE_MS - 1)), State::Stuck),
        (true, Some(status(Phase::Serving, on_time - LATE_MS)), State::Serving),
        (true, Some(status(Phase::Connecting, on_time)), State::Connecting),
        (true, Some(status(Phase::Draining, on_time)), State::Draining),
        (true, Some(status(Phase::Stopping, on_time)), State::Stopping),
    ];
    for (running, shown, expected) in rows {
        assert_eq!(judge(running, shown.as_ref(), now), expected, "{running} {shown:?}");
    }
}

#[test]
fn the_silence_of_a_runner_whose_disk_is_full_is_no_proof() {
    let rows = [
        (State::Stuck, Some(NO_ROOM - 1), (State::Unknown, Some("disk_full"))),
        (State::Stuck, Some(NO_ROOM), (State::Stuck, None)),
        (State::Stuck, None, (State::Stuck, None)),
        (State::Serving, Some(0), (State::Serving, None)),
        (State::NotRunning, Some(0), (State::NotRunning, None)),
    ];
    for (judged, free, expected) in rows {
        assert_eq!(doubted(judged, free), expected, "{judged:?} {free:?}");
    }
}

#[test]
fn an_empty_a_damaged_and_a_newer_directory_are_told_without_changing_them() {
    let home = TempDir::new().unwrap();
    let state = StateDir::new(home.path());
    let names = || std::fs::read_dir(home.path()).unwrap().count();
    let report = gather(&state).unwrap();
    assert_eq!((report.state, report.running, report.waiting_fault), (State::NotRunning, false, None));
    assert!(report.runner.is_none() && report.waiting.is_none() && names() == 0);
    std::fs::create_dir(state.turns()).unwrap();
    let damaged = record::path_of(&state.turns(), Uuid::nil());
    for path in [state.status(), damaged.clone(), state.inbox()] {
        std::fs::write(path, "{\"nonsense\": ").unwrap();
    }
    let report = gather(&state).unwrap();
    assert!(report.runner.is_none() && report.runs.is_empty() && report.waiting_fault.is_some());
    assert_eq!(report.runner_fault, Some("damaged"));
    assert!(damaged.exists(), "only the runner sets a damaged record aside");
    let mut newer = status(Phase::Serving, 0);
    newer.facts.status_version = STATUS_VERSION + 1;
    std::fs::write(state.status(), serde_json::to_vec(&newer).unwrap()).unwrap();
    let report = gather(&state).unwrap();
    assert!(report.runner.is_none());
    assert_eq!(report.runner_fault, Some("other_version"));
    let never = gather(&StateDir::new(&home.join("missing"))).unwrap();
    assert_eq!((never.state, never.disk), (State::NotRunning, Disk::default()));
}

#[test]
fn a_status_file_that_cannot_be_read_is_told_from_one_that_is_not_there() {
    let home = TempDir::new().unwrap();
    let path = StateDir::new(home.path()).status();
    assert_eq!(read(&path), Ok(None));
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(read(&path), Err("not_a_file"));
    std::fs::remove_file(&path).unwrap();
    let good = serde_json::to_vec(&status(Phase::Serving, 0)).unwrap();
    let long =
        [good.clone(), vec![b' '; usize::try_from(STATUS_SIZE_LIMIT).unwrap()], b"x".to_vec()].concat();
    let rows: [(&[u8], Option<&str>); 6] = [
        (b"", Some("damaged")),
        (b"{}", Some("damaged")),
        (b"\xff", Some("damaged")),
        (&good[..good.len() / 2], Some("damaged")),
        (&long, Some("damaged")),
        (&good, None),
    ];
    for (bytes, fault) in rows {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&path).err(), fault);
    }
}

#[test]
fn a_time_ahead_of_the_clock_is_no_negative_age() {
    assert_eq!(seconds(Time::from_millis(5_000), Time::from_millis(1_000)), 0);
    assert_eq!(seconds(Time::from_millis(1_000), Time::from_millis(5_999)), 4);
}
