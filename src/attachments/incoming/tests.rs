//! Tests of incoming files: what is stored, what is refused, what stays behind.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::attachments::world::{CANARY, World};
use crate::sdk::bound::HoldReason;

/// A server that gives `bytes` in small pieces and then ends in its own way.
struct Source {
    bytes: Vec<u8>,
    /// Fails after so many bytes.
    broken_after: Option<(usize, RunError)>,
    asked: Cell<u32>,
}

impl Source {
    fn of(bytes: impl AsRef<[u8]>) -> Source {
        Source { bytes: bytes.as_ref().to_vec(), broken_after: None, asked: Cell::new(0) }
    }

    fn broken(bytes: &str, after: usize, fault: RunError) -> Source {
        Source { broken_after: Some((after, fault)), ..Source::of(bytes) }
    }
}

impl Fetch for Source {
    fn fetch(
        &self,
        _file_id: Uuid,
        limit: u64,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, RunError> {
        self.asked.set(self.asked.get() + 1);
        let mut sent = 0;
        for piece in self.bytes.chunks(2) {
            match &self.broken_after {
                Some((after, fault)) if sent >= *after => return Err(fault.clone()),
                _ => {}
            }
            sink.write_all(piece).map_err(|_| RunError::Transport(TransportError::Broken))?;
            sent += piece.len();
            progress(sent as u64);
            if sent as u64 > limit {
                return Err(RunError::Transport(TransportError::TooLong));
            }
        }
        match &self.broken_after {
            Some((_, fault)) if self.bytes.is_empty() => Err(fault.clone()),
            _ => Ok(sent as u64),
        }
    }
}

const LIMIT: u64 = 100;

fn attachment(name: &str, content: impl AsRef<[u8]>) -> RunContextAttachment {
    RunContextAttachment {
        file_id: Uuid::now_v7(),
        name: name.to_owned(),
        mime_type: "text/html\r\nX: 1".to_owned(),
        size_bytes: content.as_ref().len() as u64,
        sha256: hex(&Sha256::digest(content)),
        scan_status: ScanStatus::Clean,
        transcript: None,
    }
}

fn inbox(world: &World) -> Inbox {
    Inbox::new(&world.at("state"), Uuid::nil())
}

fn store(world: &World, file: &RunContextAttachment, source: &Source) -> Result<Stored, Interrupt> {
    inbox(world).store(file, LIMIT, source, &mut |_| {})
}

/// Every file below the inbox of the thread.
fn files(world: &World) -> Vec<PathBuf> {
    let Ok(dirs) = std::fs::read_dir(inbox(world).path()) else { return Vec::new() };
    dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect()
}

#[test]
fn a_file_is_stored_private_under_its_safe_name() {
    let world = World::new();
    let file = attachment("../or\u{64}ers.zip", "bytes");
    let mut told = Vec::new();
    let stored =
        inbox(&world).store(&file, LIMIT, &Source::of("bytes"), &mut |total| told.push(total)).unwrap();
    let path = inbox(&world).path().join(file.file_id.to_string()).join("_orders.zip");
    assert_eq!(stored, Stored::Local(path.clone()));
    assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
    assert_eq!(told, [2, 4, 5]);
    assert_eq!(files(&world), std::slice::from_ref(&path));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&inbox(&world).path()), 0o700);
}

#[test]
fn c5_15_a_file_without_bytes_is_stored() {
    let world = World::new();
    let stored = store(&world, &attachment("empty.txt", ""), &Source::of("")).unwrap();
    let Stored::Local(path) = stored else { panic!("{stored:?}") };
    assert_eq!(path.metadata().unwrap().len(), 0);
}

#[test]
fn every_fault_has_its_code_and_leaves_nothing() {
    let problem = |status, code: &str| RunError::Problem(Box::new(Problem::new(status, code)));
    let at_once = |fault| Source::broken("good", 0, fault);
    let scanned = |status| RunContextAttachment { scan_status: status, ..attachment("a", "good") };
    let rows: Vec<(&str, RunContextAttachment, Source, Unavailable)> = vec![
        ("not scanned", scanned(ScanStatus::Pending), Source::of("good"), Unavailable::FileNotReady),
        ("blocked", scanned(ScanStatus::Blocked), Source::of("good"), Unavailable::FileBlocked),
        ("scan failed", scanned(ScanStatus::Failed), Source::of("good"), Unavailable::FileBlocked),
        ("too large", attachment("a", [0; 101]), Source::of([0; 101]), Unavailable::TooLarge),
        ("shorter", attachment("a", "good"), Source::of("goo"), Unavailable::ChecksumMismatch),
        ("longer", attachment("a", "good"), Source::of("good and more"), Unavailable::ChecksumMismatch),
        ("other bytes", attachment("a", "good"), Source::of("evil"), Unavailable::ChecksumMismatch),
        (
            "cut",
            attachment("a", "good"),
            Source::broken("good", 2, RunError::Transport(TransportError::Broken)),
            Unavailable::TransferFailed,
        ),
        (
            "silent",
            attachment("a", "good"),
            Source::broken("good", 2, RunError::Transport(TransportError::Timeout)),
            Unavailable::TransferFailed,
        ),
        ("missing", attachment("a", "good"), at_once(problem(404, "not_found")), Unavailable::NotFound),
        (
            "not ready",
            attachment("a", "good"),
            at_once(problem(409, "file_not_ready")),
            Unavailable::FileNotReady,
        ),
        (
            "blocked since",
            attachment("a", "good"),
            at_once(problem(409, "file_blocked")),
            Unavailable::FileBlocked,
        ),
        ("refused as too large", attachment("a", "good"), at_once(problem(413, "")), Unavailable::TooLarge),
        (
            "switched off",
            attachment("a", "good"),
            at_once(problem(501, "not_enabled")),
            Unavailable::NotEnabled,
        ),
        (
            "something else",
            attachment("a", "good"),
            at_once(problem(500, "internal")),
            Unavailable::TransferFailed,
        ),
    ];
    for (what, file, source, expected) in rows {
        let world = World::new();
        assert_eq!(store(&world, &file, &source), Ok(Stored::Unavailable(expected)), "{what}");
        assert_eq!(files(&world), Vec::<PathBuf>::new(), "{what}");
    }
    let mut codes: Vec<&str> = UNAVAILABLE.iter().map(|code| code.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), UNAVAILABLE.len());
}

#[test]
fn only_what_the_scan_let_through_is_asked_for() {
    let world = World::new();
    let source = Source::of("good");
    for (status, asked) in
        [(ScanStatus::Pending, 0), (ScanStatus::Blocked, 0), (ScanStatus::Skipped, 1), (ScanStatus::Clean, 2)]
    {
        let file = RunContextAttachment { scan_status: status, ..attachment("a", "good") };
        store(&world, &file, &source).unwrap();
        assert_eq!(source.asked.get(), asked, "{status:?}");
    }
}

#[test]
fn a_stop_ends_the_download_without_a_partial_file() {
    for (fault, expected) in [
        (RunError::ShutDown, Interrupt::ShutDown),
        (RunError::Ended, Interrupt::Ended),
        (RunError::Hold(HoldReason::Unauthenticated), Interrupt::Hold),
    ] {
        let world = World::new();
        let source = Source::broken("good", 2, fault);
        assert_eq!(store(&world, &attachment("a", "good"), &source), Err(expected));
        assert_eq!(files(&world), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_stored_file_is_used_and_never_overwritten() {
    let world = World::new();
    let file = attachment("data.csv", "good");
    let source = Source::of("good");
    let first = store(&world, &file, &source).unwrap();
    assert_eq!(store(&world, &file, &source).unwrap(), first);
    assert_eq!(source.asked.get(), 1);
    let Stored::Local(path) = &first else { panic!("{first:?}") };
    std::fs::write(path, "edited by a turn").unwrap();
    let second = store(&world, &file, &source).unwrap();
    assert_eq!(second, Stored::Local(path.with_file_name("2-data.csv")));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "edited by a turn");
    assert_eq!(store(&world, &file, &source).unwrap(), second);
    for number in ["2", "3", "4"] {
        std::fs::write(path.with_file_name(format!("{number}-data.csv")), "edited").unwrap();
    }
    assert_eq!(store(&world, &file, &source), Ok(Stored::Unavailable(Unavailable::TransferFailed)));
}

#[test]
fn what_a_dead_runner_left_is_removed() {
    let world = World::new();
    let file = attachment("a", "good");
    let dir = inbox(&world).path().join(file.file_id.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(".part-of-an-earlier-try"), "go").unwrap();
    store(&world, &file, &Source::of("good")).unwrap();
    assert_eq!(files(&world), [dir.join("a")]);
}

#[test]
fn c5_09_names_equal_after_cutting_do_not_collide() {
    let world = World::new();
    let long = "a".repeat(300);
    for content in ["one", "two"] {
        let stored =
            store(&world, &attachment(&format!("{long}{content}"), content), &Source::of(content)).unwrap();
        let Stored::Local(path) = stored else { panic!("{stored:?}") };
        assert_eq!(std::fs::read_to_string(path).unwrap(), content);
    }
    assert_eq!(files(&world).len(), 2);
}

#[test]
fn c5_11_nothing_is_written_through_a_planted_link() {
    let file = attachment("data.csv", "good");
    let thread = Uuid::nil().to_string();
    let id = file.file_id.to_string();
    let rows = [
        ("the directory of all inboxes", "state/files".to_owned(), "home", "data.csv"),
        ("the inbox", format!("state/files/{thread}"), "home", "data.csv"),
        ("the inbox, dangling", format!("state/files/{thread}"), "home/new", "data.csv"),
        ("the inbox, to another one", format!("state/files/{thread}"), "state/files/other", "data.csv"),
        ("the directory of the file", format!("state/files/{thread}/{id}"), "home", "data.csv"),
        ("the file", format!("state/files/{thread}/{id}/data.csv"), "home/profile", "2-data.csv"),
        ("the file, dangling", format!("state/files/{thread}/{id}/data.csv"), "home/new", "2-data.csv"),
    ];
    for (what, link, target, name) in rows {
        let world = World::new();
        world.file("home/profile", CANARY);
        let _ = std::fs::remove_dir_all(world.at(&link));
        world.link(world.at(target), &link);
        let expected = world.at(&format!("state/files/{thread}/{id}/{name}"));
        assert_eq!(store(&world, &file, &Source::of("good")), Ok(Stored::Local(expected.clone())), "{what}");
        assert_eq!(expected.canonicalize().unwrap(), expected, "{what}");
        assert_eq!(std::fs::read_to_string(world.at("home/profile")).unwrap(), CANARY, "{what}");
        assert_eq!(std::fs::read_dir(world.at("home")).unwrap().count(), 2, "{what}");
        assert_eq!(std::fs::read_dir(world.at("state/files")).map_or(0, Iterator::count).min(1), 1, "{what}");
    }
}

#[test]
fn the_inbox_exists_before_any_file() {
    let world = World::new();
    inbox(&world).create().unwrap();
    inbox(&world).create().unwrap();
    assert!(inbox(&world).path().is_dir());
}

/// It is given to the turn as a directory of its own (`--add-dir`): where a link leads is not.
#[test]
fn c5_11_an_inbox_is_never_what_a_planted_link_points_to() {
    let world = World::new();
    let path = inbox(&world).path();
    world.link(world.at("home"), path.strip_prefix(world.at("")).unwrap().to_str().unwrap());
    inbox(&world).create().unwrap();
    assert!(path.symlink_metadata().unwrap().is_dir());
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, "in the way").unwrap();
    inbox(&world).create().unwrap();
    assert!(path.symlink_metadata().unwrap().is_dir());
}

#[test]
fn a_stored_file_that_is_used_again_is_young() {
    let world = World::new();
    let file = attachment("data.csv", "good");
    store(&world, &file, &Source::of("good")).unwrap();
    let dir = inbox(&world).path().join(file.file_id.to_string());
    for old in [dir.clone(), dir.join("data.csv"), inbox(&world).path()] {
        File::open(old).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let begun = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    store(&world, &file, &Source::of("good")).unwrap();
    assert!(dir.metadata().unwrap().modified().unwrap() > begun);
    inbox(&world).create().unwrap();
    assert!(inbox(&world).path().metadata().unwrap().modified().unwrap() > begun);
}
