//! Tests of the record: its form, its damage, its states.

use super::*;
use crate::attachments::world::World;

fn staged(position: u32, name: &str) -> Staged {
    Staged { position, name: name.to_owned(), size_bytes: 3, sha256: "ab".repeat(32) }
}

fn set() -> AttachmentSetRecord {
    AttachmentSetRecord::staged(Uuid::nil(), 2, vec![staged(1, "a"), staged(2, "b")])
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

#[test]
fn record_roundtrip() {
    let world = World::new();
    let session = Uuid::nil();
    let place = path(&world.at("state"), session, Uuid::nil(), 2);
    assert!(place.ends_with(format!("sessions/{session}/{session}.attach-2.json")));
    let mut file = RecordFile::new(world.at("state/record.json"), write);
    assert_eq!(file.load(), Ok(None));
    let mut record = set();
    record.files[0] = FileRecord {
        state: FileState::Created,
        create_key: Some(Uuid::now_v7()),
        complete_key: Some(Uuid::now_v7()),
        file_id: Some(Uuid::now_v7()),
        plan: Some(Plan {
            part_size_bytes: 2,
            parts: vec![UploadPart { part_number: 1, headers: Vec::new() }],
        }),
        etags: BTreeMap::from([(1, "etag".to_owned())]),
        ..record.files[0].clone()
    };
    record.client_msg_id = Some(Uuid::now_v7());
    record.fail(1, Reason::UploadRefused, Some(Refusal { code: "conflict".to_owned(), reason: None }));
    file.save(&record).unwrap();
    assert_eq!(file.load(), Ok(Some(record)));
    file.remove().unwrap();
    file.remove().unwrap();
    assert_eq!(file.load(), Ok(None));
}

#[test]
fn a_damaged_record_is_said_to_be_one() {
    let world = World::new();
    let good = serde_json::to_string(&set()).unwrap();
    let rows = [
        ("empty", String::new()),
        ("cut", good[..good.len() / 2].to_owned()),
        ("another version", good.replace("\"version\":1", "\"version\":2")),
        ("another shape", "[]".to_owned()),
        ("no text", "\u{0}".repeat(40)),
    ];
    for (what, text) in rows {
        let path = world.file("state/record.json", text);
        assert_eq!(RecordFile::new(path, write).load(), Err(Unreadable), "{what}");
    }
    let directory = RecordFile::new(world.at("state/sessions"), write);
    assert_eq!(directory.load(), Err(Unreadable));
}

#[test]
fn a_set_is_uploaded_only_as_a_whole() {
    let mut record = set();
    assert_eq!(record.uploaded(), None);
    let ids = [Uuid::now_v7(), Uuid::now_v7()];
    for (file, id) in record.files.iter_mut().zip(ids) {
        file.file_id = Some(id);
    }
    assert_eq!(record.uploaded(), None);
    record.files[0].state = FileState::Completed;
    assert_eq!(record.uploaded(), None);
    record.files[1].state = FileState::Completed;
    assert_eq!(record.uploaded(), Some(ids.to_vec()));
    record.not_attached(&Problem::new(403, "feature_disabled"));
    assert_eq!(record.uploaded(), None);
    assert!(record.outcomes.iter().all(|outcome| outcome.reason == Reason::NotAttached));
    assert_eq!(AttachmentSetRecord::refused(Uuid::nil(), 1, Vec::new()).uploaded(), None);
}

#[test]
fn one_failure_takes_the_set_with_it() {
    let mut record = set();
    record.fail(2, Reason::UploadFailed, None);
    let reasons: Vec<Reason> = record.outcomes.iter().map(|outcome| outcome.reason).collect();
    assert_eq!(reasons, [Reason::SetNotSent, Reason::UploadFailed]);
}
