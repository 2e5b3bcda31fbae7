//! Tests of the private copies: their bytes, their modes, and files that change meanwhile.

use std::os::unix::fs::PermissionsExt;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::attachments::world::{CANARY, World, candidate};

fn staging(world: &World) -> Staging {
    Staging::new(&world.at("state"), Uuid::nil(), 1)
}

fn dir(world: &World) -> PathBuf {
    world.at("state/outgoing").join(Uuid::nil().to_string()).join("1")
}

fn reasons(result: Result<Vec<Staged>, Vec<Outcome>>) -> Vec<Reason> {
    result.unwrap_err().iter().map(|outcome| outcome.reason).collect()
}

#[test]
fn stage_files_copy() {
    let world = World::new();
    let path = world.file("projects/website/a.txt", "abc");
    world.file("projects/website/b.txt", "second");
    let staged = staging(&world).stage(vec![candidate(&world, "a.txt"), candidate(&world, "b.txt")]).unwrap();
    let first = Staged {
        position: 1,
        name: "a.txt".to_owned(),
        size_bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned(),
    };
    assert_eq!(staged[0], first);
    std::fs::write(&path, "changed afterwards").unwrap();
    assert_eq!(std::io::read_to_string(staging(&world).open(1, 3).unwrap()).unwrap(), "abc");
    assert!(staging(&world).open(1, 4).is_err());
    assert!(staging(&world).open(3, 3).is_err());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let place = dir(&world);
    assert_eq!(mode(&place.join("1")), 0o600);
    for level in place.ancestors().take(3) {
        assert_eq!(mode(level), 0o700, "{}", level.display());
    }
    staging(&world).remove().unwrap();
    assert!(!place.exists());
    staging(&world).remove().unwrap();
}

/// What somebody does to the checked file before it is copied.
type Change = fn(&World);

#[test]
fn stage_files_detects_swap() {
    let rows: [(&str, Change); 7] = [
        ("replaced by a link to a file outside", |world| {
            std::fs::remove_file(world.at("projects/website/a.txt")).unwrap();
            world.link(world.at("home/private"), "projects/website/a.txt");
        }),
        ("replaced by another file", |world| {
            world.file("projects/website/new", "abc");
            std::fs::rename(world.at("projects/website/new"), world.at("projects/website/a.txt")).unwrap();
        }),
        ("grown", |world| {
            world.file("projects/website/a.txt", "abcd");
        }),
        ("cut", |world| {
            world.file("projects/website/a.txt", "");
        }),
        ("removed", |world| std::fs::remove_file(world.at("projects/website/a.txt")).unwrap()),
        ("a second name", |world| {
            std::fs::hard_link(world.at("projects/website/a.txt"), world.at("home/a")).unwrap();
        }),
        ("another time", |world| {
            let file = File::options().write(true).open(world.at("projects/website/a.txt")).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }),
    ];
    for (what, change) in rows {
        let world = World::new();
        world.file("home/private", CANARY);
        world.file("projects/website/a.txt", "abc");
        world.file("projects/website/b.txt", "b");
        let candidates = vec![candidate(&world, "b.txt"), candidate(&world, "a.txt")];
        change(&world);
        let expected = [Reason::SetNotSent, Reason::ChangedDuringCheck];
        assert_eq!(reasons(staging(&world).stage(candidates)), expected, "{what}");
        assert!(!dir(&world).exists(), "{what}");
    }
}

/// A checked file to which something happens while it is copied: between its first and its second piece.
struct Meanwhile<'a> {
    file: File,
    reads: usize,
    change: &'a dyn Fn(),
}

impl Read for Meanwhile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads == 2 {
            (self.change)();
        }
        let end = buffer.len().min(512);
        self.file.read(&mut buffer[..end])
    }
}

impl AsFd for Meanwhile<'_> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Length of the file that changes while it is copied, bytes.
const LOG_BYTES: usize = 2048;

#[test]
fn c5_13_a_file_that_changes_while_it_is_copied_is_refused() {
    let write = |world: &World, at: u64| {
        use std::os::unix::fs::FileExt;
        let file = File::options().write(true).open(world.at("projects/website/log.txt")).unwrap();
        file.write_all_at(b"another", at).unwrap();
    };
    let rows: [(&str, &dyn Fn(&World)); 6] = [
        ("grown", &|world| write(world, LOG_BYTES as u64)),
        ("written behind the copy", &|world| write(world, 0)),
        ("written before the copy", &|world| write(world, 2000)),
        ("cut", &|world| drop(File::create(world.at("projects/website/log.txt")).unwrap())),
        ("replaced by its new version", &|world| {
            world.file("projects/website/new", "new");
            std::fs::rename(world.at("projects/website/new"), world.at("projects/website/log.txt")).unwrap();
        }),
        ("removed", &|world| std::fs::remove_file(world.at("projects/website/log.txt")).unwrap()),
    ];
    for (what, change) in rows {
        let world = World::new();
        world.file("projects/website/log.txt", [b'x'; LOG_BYTES]);
        let Candidate { facts, file, .. } = candidate(&world, "log.txt");
        let mut source = Meanwhile { file, reads: 0, change: &|| change(&world) };
        let mut copy = Vec::new();
        let fault = copy_unchanged(&mut source, &facts, &mut copy).unwrap_err();
        assert!(matches!(fault, Fault::Changed), "{what}: {fault:?}");
        assert!(copy.len() <= LOG_BYTES + 1, "{what}: a growing file costs no more than one byte");
    }
}

/// A program writes on and on: whatever the moment, a copy that is made is the file as it was checked.
#[test]
fn c5_13_length_and_hash_belong_to_the_copy_whatever_is_written() {
    let world = World::new();
    let path = world.file("projects/website/log.txt", [b'x'; LOG_BYTES]);
    for round in 0..50 {
        let candidate = candidate(&world, "log.txt");
        let size = candidate.facts.size;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = File::options().append(true).open(&path).unwrap();
                log.write_all(&[b'y'; 1024]).unwrap();
            });
            match staging(&world).stage(vec![candidate]) {
                Ok(staged) => {
                    let mut copy = Vec::new();
                    staging(&world).open(1, size).unwrap().read_to_end(&mut copy).unwrap();
                    assert_eq!((staged[0].size_bytes, copy.len() as u64), (size, size), "{round}");
                    assert_eq!(staged[0].sha256, hex(&Sha256::digest(&copy)), "{round}");
                }
                Err(outcomes) => assert_eq!(outcomes[0].reason, Reason::ChangedDuringCheck, "{round}"),
            }
        });
    }
}

#[test]
fn leftovers_and_planted_links_do_no_harm() {
    let world = World::new();
    world.file("projects/website/a.txt", "abc");
    world.file("home/private", CANARY);
    let place = dir(&world);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("1"), "left by an earlier try").unwrap();
    std::os::unix::fs::symlink(world.at("home/private"), place.join("2")).unwrap();
    let staged = staging(&world).stage(vec![candidate(&world, "a.txt")]).unwrap();
    assert_eq!(staged.len(), 1);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(world.at("home/private")).unwrap(), CANARY);

    std::fs::remove_dir_all(world.at("state/outgoing")).unwrap();
    world.link(world.at("home"), "state/outgoing");
    let failed = reasons(staging(&world).stage(vec![candidate(&world, "a.txt")]));
    assert_eq!(failed, [Reason::UploadFailed]);
    assert_eq!(std::fs::read_dir(world.at("home")).unwrap().count(), 2);
}

#[test]
fn the_copies_of_a_run_go_with_it() {
    let world = World::new();
    world.file("projects/website/a.txt", "abc");
    remove_run(&world.at("state"), Uuid::nil()).unwrap();
    for answer in [1, 2] {
        let staging = Staging::new(&world.at("state"), Uuid::nil(), answer);
        staging.stage(vec![candidate(&world, "a.txt")]).unwrap();
    }
    remove_run(&world.at("state"), Uuid::nil()).unwrap();
    assert_eq!(std::fs::read_dir(world.at("state/outgoing")).unwrap().count(), 0);
    remove_run(&world.at("state"), Uuid::nil()).unwrap();
}
