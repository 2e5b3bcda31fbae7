//! Tests of the upload of a set against the fake server, each operation spoilt in turn.

use sha2::{Digest, Sha256};

use super::fake::{Disk, Server, Spoil, no};
use super::*;
use crate::attachments::outcome::{Reason, Refusal};
use crate::attachments::world::{World, candidate};
use crate::sdk::bound::HoldReason;
use crate::sdk::error::TransportError;
use crate::sdk::wire::file::{UploadMode, UploadPhase};
use crate::sdk::wire::problem::Problem;
use crate::sys::digest::hex;

/// The files of the usual set: three parts, one part, two parts.
const CONTENTS: [&str; 3] = ["0123456789", "abc", "ABCDEFGH"];

/// A staged set of [`CONTENTS`].
struct Set {
    _world: World,
    staging: Staging,
    record: AttachmentSetRecord,
}

fn set() -> Set {
    let world = World::new();
    let candidates = CONTENTS.iter().enumerate().map(|(at, content)| {
        world.file(&format!("projects/website/{at}.txt"), content);
        candidate(&world, &format!("{at}.txt"))
    });
    let candidates = candidates.collect();
    let staging = Staging::new(&world.at("state"), Uuid::nil(), 1);
    let staged = staging.stage(candidates).unwrap();
    Set { _world: world, staging, record: AttachmentSetRecord::staged(Uuid::nil(), 1, staged) }
}

/// One run of the upload over what is on the disk; the result, and what is on the disk then.
fn upload(server: &Server, set: &Set, record: &AttachmentSetRecord) -> (Delivery, AttachmentSetRecord) {
    upload_until(server, set, record, &|| false)
}

fn upload_until(
    server: &Server,
    set: &Set,
    record: &AttachmentSetRecord,
    halt: &dyn Fn() -> bool,
) -> (Delivery, AttachmentSetRecord) {
    let mut disk = Disk { fate: &server.fate, stored: record.clone() };
    let mut working = record.clone();
    let mut means = Means { uploads: server, staging: &set.staging, disk: &mut disk, halt };
    let delivery = upload_set(&mut working, &mut means);
    (delivery, disk.stored)
}

/// The set is on the server once, byte for byte, in its order.
fn assert_whole(server: &Server, delivery: &Delivery, what: &str) {
    let Delivery::Uploaded(ids) = delivery else { panic!("{what}: {delivery:?}") };
    let sessions = server.sessions.borrow();
    assert_eq!(sessions.len(), CONTENTS.len(), "{what}: sessions");
    for (id, content) in ids.iter().zip(CONTENTS) {
        let (_, session) = sessions.iter().find(|(own, _)| own == id).unwrap();
        assert_eq!(session.bytes(), content.as_bytes(), "{what}");
        assert_eq!(session.sha256, hex(&Sha256::digest(content)), "{what}");
        assert_eq!(session.state, UploadPhase::Completed, "{what}");
    }
}

#[test]
fn a_set_is_uploaded_in_order() {
    let (server, set) = (Server::default(), set());
    let (delivery, stored) = upload(&server, &set, &set.record);
    assert_whole(&server, &delivery, "plain");
    let expected = [
        "create", "part", "part", "part", "complete", "create", "part", "complete", "create", "part", "part",
        "complete",
    ];
    assert_eq!(*server.log.borrow(), expected);
    let names: Vec<String> =
        server.sessions.borrow().iter().map(|(_, session)| session.name.clone()).collect();
    assert_eq!(names, ["0.txt", "1.txt", "2.txt"]);
    let (again, _) = upload(&server, &set, &stored);
    assert_eq!(again, delivery);
    assert_eq!(server.log.borrow().len(), expected.len());
}

/// C6-01 and C6-11: the runner dies before or after each operation in turn; the next one goes on and ends with each
/// file exactly once on the server.
#[test]
fn c6_11_a_death_at_any_operation_is_resumed_once() {
    let set = set();
    for spoil in [Spoil::DiesBefore, Spoil::DiesAfter] {
        for number in 1.. {
            let server = Server::default();
            server.fate.spoilt.set(Some((number, spoil)));
            let (first, stored) = upload(&server, &set, &set.record);
            let what = format!("{spoil:?} {number}");
            if !server.fate.dead.get() {
                assert_whole(&server, &first, &what);
                break;
            }
            assert!(!matches!(first, Delivery::Uploaded(_)), "{what}");
            let known = server.keys.borrow().len();
            let keys = stored.files.iter().filter(|file| file.create_key.is_some()).count();
            assert!(known <= keys, "{what}: a key was sent that is not stored");
            let begun =
                server.sessions.borrow().iter().filter(|(_, session)| !session.parts.is_empty()).count();
            let ids = stored.files.iter().filter(|file| file.file_id.is_some()).count();
            assert!(begun <= ids, "{what}: bytes were sent before their id was stored");
            server.fate.dead.set(false);
            server.fate.spoilt.set(None);
            let (second, _) = upload(&server, &set, &stored);
            assert_whole(&server, &second, &what);
            assert!(server.sessions.borrow().iter().all(|(_, session)| session.completions <= 2), "{what}");
        }
    }
}

/// One operation fails for good, for each operation in turn: all files or none, nothing starts after the failure, and
/// only the failing file's session is aborted.
#[test]
fn all_or_none_when_any_operation_fails() {
    let set = set();
    for spoil in [Spoil::Fails, Spoil::AnswerLost] {
        for number in 1.. {
            let server = Server::default();
            server.fate.spoilt.set(Some((number, spoil)));
            let (delivery, _) = upload(&server, &set, &set.record);
            let what = format!("{spoil:?} {number}");
            let Delivery::Failed(outcomes) = &delivery else {
                assert_whole(&server, &delivery, &what);
                assert!(server.fate.count.get() < number, "{what}");
                break;
            };
            assert_eq!(outcomes.len(), CONTENTS.len(), "{what}");
            let own = outcomes.iter().filter(|outcome| outcome.reason != Reason::SetNotSent).count();
            assert_eq!(own, 1, "{what}: exactly one file has a reason of its own");
            let failed = outcomes.iter().position(|outcome| outcome.reason == Reason::UploadFailed).unwrap();
            assert!(
                server.sessions.borrow().len() <= failed + 1,
                "{what}: a file was started after the failure"
            );
            assert!(server.count("abort") <= 1, "{what}");
            // Only a session whose creation was never heard of cannot be aborted; it expires.
            let open = server.states().iter().filter(|state| **state == UploadPhase::Open).count();
            assert_eq!(open, server.states().len() - server.heard(), "{what}");
        }
    }
}

#[test]
fn c6_01_a_lost_answer_is_asked_for_again_with_the_same_key() {
    let (server, set) = (Server::default(), set());
    // The record is stored first, then the session is made and its answer lost.
    server.fate.spoilt.set(Some((2, Spoil::DiesAfter)));
    let (_, stored) = upload(&server, &set, &set.record);
    assert_eq!(server.states(), [UploadPhase::Open]);
    assert!(stored.files[0].create_key.is_some() && stored.files[0].file_id.is_none());
    server.fate.dead.set(false);
    let (second, _) = upload(&server, &set, &stored);
    assert_whole(&server, &second, "again");
    assert_eq!((server.keys.borrow().len(), server.count("create")), (3, 4));
    assert_eq!(server.log.borrow()[..3], ["create", "create", "get"]);
}

fn refused(name: &str, code: &str, reason: Option<&str>) -> Outcome {
    let refusal = Refusal { code: code.to_owned(), reason: reason.map(str::to_owned) };
    Outcome { name: name.to_owned(), reason: Reason::UploadRefused, refusal: Some(refusal) }
}

#[test]
fn all_or_none_upload_failure_attaches_none() {
    let (server, set) = (Server::default(), set());
    let quota = Problem::new(409, "conflict").because("quota_exceeded");
    server.scripted.borrow_mut().push(("create", 1, no(quota)));
    let (delivery, stored) = upload(&server, &set, &set.record);
    let expected = vec![
        Outcome::of("0.txt", Reason::SetNotSent),
        refused("1.txt", "conflict", Some("quota_exceeded")),
        Outcome::of("2.txt", Reason::SetNotSent),
    ];
    assert_eq!(delivery, Delivery::Failed(expected));
    assert_eq!(server.states(), [UploadPhase::Completed]);
    assert_eq!(server.count("abort"), 0);
    assert_eq!(upload(&server, &set, &stored).0, delivery);
    assert_eq!(server.count("create"), 2);
}

#[test]
fn the_open_session_of_the_failing_file_is_aborted() {
    let (server, set) = (Server::default(), set());
    server.scripted.borrow_mut().push(("part", 5, RunError::Transport(TransportError::Timeout)));
    let (delivery, _) = upload(&server, &set, &set.record);
    let Delivery::Failed(outcomes) = delivery else { panic!("{delivery:?}") };
    assert_eq!(outcomes[2], Outcome::of("2.txt", Reason::UploadFailed));
    assert_eq!(server.states(), [UploadPhase::Completed, UploadPhase::Completed, UploadPhase::Aborted]);
}

#[test]
fn c6_03_the_servers_word_counts_on_resume() {
    for believed in [0, 1, 2, 3] {
        let (server, set) = (Server::default(), set());
        server.scripted.borrow_mut().push(("part", 2, RunError::ShutDown));
        let (first, mut stored) = upload(&server, &set, &set.record);
        assert_eq!(first, Delivery::Interrupted);
        stored.files[0].etags =
            (1..=believed).map(|number| (number, "a mark of its own".to_owned())).collect();
        // The server has lost the second of the two parts that were sent.
        server.sessions.borrow_mut()[0].1.parts.remove(&2);
        server.log.borrow_mut().clear();
        let (second, _) = upload(&server, &set, &stored);
        assert_whole(&server, &second, "resumed");
        assert_eq!(server.log.borrow()[..4], ["get", "part", "part", "complete"], "{believed} believed");
    }
}

/// A conflict is no answer to bytes that are the planned ones (the contract has no offsets: a part is whole or not
/// there): the file is refused and its session given up.
#[test]
fn c6_03_a_conflict_about_a_part_ends_the_set() {
    let (server, set) = (Server::default(), set());
    let conflict = Problem::new(409, "conflict").because("part_conflict");
    server.scripted.borrow_mut().push(("part", 1, no(conflict)));
    let (delivery, _) = upload(&server, &set, &set.record);
    let Delivery::Failed(outcomes) = delivery else { panic!("{delivery:?}") };
    assert_eq!(outcomes[0], refused("0.txt", "conflict", Some("part_conflict")));
    assert_eq!(*server.log.borrow(), ["create", "part", "part", "abort"]);
}

#[test]
fn c6_03_more_than_was_sent_starts_the_file_anew() {
    type Change = fn(&mut super::fake::Session);
    let rows: [(&str, Change); 4] = [
        ("a part that is too long", |session| {
            session.parts.insert(2, b"45678".to_vec());
        }),
        ("a part that was never planned", |session| {
            session.parts.insert(7, b"x".to_vec());
        }),
        ("given up by the server", |session| session.state = UploadPhase::Expired),
        ("aborted", |session| session.state = UploadPhase::Aborted),
    ];
    for (what, change) in rows {
        let (server, set) = (Server::default(), set());
        server.scripted.borrow_mut().push(("part", 1, RunError::ShutDown));
        let (_, stored) = upload(&server, &set, &set.record);
        change(&mut server.sessions.borrow_mut()[0].1);
        let (second, _) = upload(&server, &set, &stored);
        assert_ne!(server.states()[0], UploadPhase::Completed, "{what}");
        server.sessions.borrow_mut().remove(0);
        assert_whole(&server, &second, what);
    }
}

#[test]
fn c6_05_refused_credentials_hold_the_set_and_an_ended_run_ends_it() {
    let rows: Vec<(&str, RunError, Delivery)> = vec![
        ("held", RunError::Hold(HoldReason::Unauthenticated), Delivery::Held),
        ("held for the run", RunError::Hold(HoldReason::TokenRefused), Delivery::Held),
        ("ended", RunError::Ended, Delivery::RunEnded),
        ("stopped", RunError::ShutDown, Delivery::Interrupted),
    ];
    for (what, fault, expected) in rows {
        let (server, set) = (Server::default(), set());
        server.scripted.borrow_mut().push(("part", 2, fault));
        let (delivery, stored) = upload(&server, &set, &set.record);
        assert_eq!(delivery, expected, "{what}");
        assert_eq!(server.log.borrow().len(), 4, "{what}: no request after it");
        assert!(stored.outcomes.is_empty(), "{what}");
        let (second, _) = upload(&server, &set, &stored);
        assert_whole(&server, &second, what);
    }
}

#[test]
fn stop_during_upload_sends_nothing() {
    let (server, set) = (Server::default(), set());
    let halt = || server.count("part") == 2;
    let (delivery, stored) = upload_until(&server, &set, &set.record, &halt);
    assert_eq!(delivery, Delivery::Interrupted);
    assert_eq!(*server.log.borrow(), ["create", "part", "part"]);
    abort_open(&stored, &server);
    assert_eq!(server.states(), [UploadPhase::Aborted]);
}

#[test]
fn c8_07_a_missing_or_cut_copy_fails_the_set() {
    for (what, change) in [
        ("missing", (|path: &std::path::Path| std::fs::remove_file(path).unwrap()) as fn(&std::path::Path)),
        ("cut", |path| std::fs::write(path, "ab").unwrap()),
    ] {
        let (server, set) = (Server::default(), set());
        let copies = set._world.at("state/outgoing").join(Uuid::nil().to_string()).join("1");
        change(&copies.join("2"));
        let (delivery, _) = upload(&server, &set, &set.record);
        let Delivery::Failed(outcomes) = delivery else { panic!("{what}") };
        assert_eq!(outcomes[1].reason, Reason::UploadFailed, "{what}");
        assert_eq!(server.states(), [UploadPhase::Completed], "{what}");
    }
}

#[test]
fn presigned_uploads_are_not_made() {
    let (server, set) = (Server::default(), set());
    server.mode.set(Some(UploadMode::Presigned));
    let (delivery, _) = upload(&server, &set, &set.record);
    let Delivery::Failed(outcomes) = delivery else { panic!("{delivery:?}") };
    assert_eq!(outcomes[0].reason, Reason::UploadFailed);
    assert_eq!(server.states(), [UploadPhase::Aborted]);
    assert_eq!(server.count("part"), 0);
}

#[test]
fn c5_19_no_type_is_declared() {
    let (server, set) = (Server::default(), set());
    upload(&server, &set, &set.record);
    let body = UploadCreate { name: "a".to_owned(), size_bytes: 1, sha256: String::new() };
    let members = serde_json::to_value(body).unwrap();
    let names: Vec<&String> = members.as_object().unwrap().keys().collect();
    assert_eq!(names, ["name", "sha256", "size_bytes"]);
}
