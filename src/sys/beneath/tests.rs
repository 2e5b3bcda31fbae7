//! Tests of opening below a directory, with the call of the kernel and with the walk side by side.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;

/// A directory of a test that goes away with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let path = std::env::temp_dir().join(format!("beneath-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Place(path.canonicalize().unwrap())
    }

    fn file(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.0.join(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens `relative` both ways and checks that they agree.
fn opens(place: &Place, relative: &str) -> bool {
    let dir = Dir::open(&place.0).unwrap();
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let by_walk = walk_beneath(dir.as_fd(), Path::new(relative), flags, Mode::empty()).and_then(refuse_link);
    let by_call = dir.look(Path::new(relative));
    assert_eq!(by_walk.is_ok(), by_call.is_ok(), "{relative}");
    by_call.is_ok()
}

#[test]
fn nothing_outside_and_no_link_is_opened() {
    let place = Place::new();
    let outside = Place::new();
    place.file("in/a.txt", "a");
    outside.file("b.txt", "b");
    symlink(&outside.0, place.0.join("away")).unwrap();
    symlink("in", place.0.join("near")).unwrap();
    symlink("in/a.txt", place.0.join("link.txt")).unwrap();
    let rows = [
        ("a plain file", "in/a.txt", true),
        ("a directory", "in", true),
        ("a missing file", "in/b.txt", false),
        ("a link to a directory outside", "away/b.txt", false),
        ("a link to a directory inside", "near/a.txt", false),
        ("a link as the last component", "link.txt", false),
        ("out and back in", "in/../../x", false),
        ("an absolute path", "/etc", false),
        ("a file as a directory", "in/a.txt/x", false),
        ("nothing", "", false),
    ];
    for (what, relative, expected) in rows {
        assert_eq!(opens(&place, relative), expected, "{what}");
    }
}

#[test]
fn a_file_is_read_through_its_descriptor() {
    let place = Place::new();
    let path = place.file("a.txt", "first");
    let seen = Dir::open(&place.0).unwrap().look(Path::new("a.txt")).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "second").unwrap();
    let mut text = String::new();
    seen.open_for_reading().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    assert_eq!(seen.facts().unwrap().links, 0);
}

#[test]
fn what_is_not_a_file_is_never_opened_for_reading() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.0.join("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(place.0.join("dir")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.0.join("socket")).unwrap();
    let dir = Dir::open(&place.0).unwrap();
    for (name, kind) in [("pipe", Kind::Other), ("dir", Kind::Directory), ("socket", Kind::Other)] {
        let seen = dir.look(Path::new(name)).unwrap();
        assert_eq!(seen.facts().unwrap().kind, kind, "{name}");
        let error = seen.open_for_reading().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{name}");
    }
}

#[test]
fn files_and_directories_are_private_and_never_replace() {
    let place = Place::new();
    let dir = Dir::open(&place.0).unwrap();
    let inner = dir.make_dir("inner".as_ref()).unwrap();
    inner.create_new("new".as_ref()).unwrap().write_all(b"text").unwrap();
    let mode = |name: &str| place.0.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("inner"), mode("inner/new")), (0o700, 0o600));
    assert!(inner.create_new("new".as_ref()).is_err());
    place.file("inner/taken", "kept");
    assert_eq!(
        inner.rename_new("new".as_ref(), "taken".as_ref()).unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
    assert!(inner.link_and_unlink("new".as_ref(), "taken".as_ref()).is_err());
    inner.rename_new("new".as_ref(), "second".as_ref()).unwrap();
    inner.link_and_unlink("second".as_ref(), "third".as_ref()).unwrap();
    assert_eq!(std::fs::read(place.0.join("inner/third")).unwrap(), b"text");
    assert_eq!(std::fs::read(place.0.join("inner/taken")).unwrap(), b"kept");
    assert_eq!(inner.names().unwrap().count(), 2);
}

#[test]
fn a_planted_link_is_never_written_through() {
    let place = Place::new();
    let outside = Place::new();
    outside.file("profile", "kept");
    symlink(&outside.0, place.0.join("inbox")).unwrap();
    symlink(outside.0.join("profile"), place.0.join("data.csv")).unwrap();
    symlink(outside.0.join("new"), place.0.join("dangling")).unwrap();
    let dir = Dir::open(&place.0).unwrap();
    assert!(dir.make_dir("inbox".as_ref()).is_err());
    assert!(dir.create_new("data.csv".as_ref()).is_err());
    assert!(dir.create_new("dangling".as_ref()).is_err());
    dir.unlink("data.csv".as_ref()).unwrap();
    assert_eq!(std::fs::read_to_string(outside.0.join("profile")).unwrap(), "kept");
    assert!(!outside.0.join("new").exists());
}

#[test]
fn names_with_a_way_in_them_are_no_names() {
    let place = Place::new();
    let dir = Dir::open(&place.0).unwrap();
    for name in ["", ".", "..", "a/b", "a/", "/a"] {
        assert!(dir.create_new(name.as_ref()).is_err(), "{name}");
        assert!(dir.make_dir(name.as_ref()).is_err(), "{name}");
        assert!(dir.unlink(name.as_ref()).is_err(), "{name}");
    }
}

#[test]
fn resolve_is_realpath_with_ancestors() {
    let place = Place::new();
    place.file("in/a.txt", "a");
    symlink("in/../in", place.0.join("near")).unwrap();
    symlink(place.0.join("near/a.txt"), place.0.join("far.txt")).unwrap();
    symlink("loop", place.0.join("loop")).unwrap();
    symlink("/proc/self/environ", place.0.join("environ")).unwrap();
    let rows: [(&str, &str, Result<&str, ResolveError>); 14] = [
        ("a file", "in/a.txt", Ok("in/a.txt")),
        ("through a link", "near/a.txt", Ok("in/a.txt")),
        ("through two links", "far.txt", Ok("in/a.txt")),
        ("with dots", "./in/.././in//a.txt", Ok("in/a.txt")),
        ("a directory with a slash", "in/", Ok("in")),
        ("a file with a slash", "in/a.txt/", Err(ResolveError::NotFound)),
        ("a file with a dot below", "in/a.txt/.", Err(ResolveError::NotFound)),
        ("back out of a file", "in/a.txt/..", Err(ResolveError::NotFound)),
        ("missing", "in/b.txt", Err(ResolveError::NotFound)),
        ("a loop", "loop", Err(ResolveError::NotFound)),
        ("a zero byte", "in/a\0.txt", Err(ResolveError::NotFound)),
        ("a link into the kernel", "environ", Err(ResolveError::Kernel)),
        ("the runner itself", "/proc/self/cwd/x", Err(ResolveError::Kernel)),
        ("settings of the kernel", "/sys/kernel", Err(ResolveError::Kernel)),
    ];
    for (what, path, expected) in rows {
        let resolved = resolve(&place.0, Path::new(path));
        let expected = expected.map(|relative| place.0.join(relative));
        assert_eq!(resolved.map(|found| found.path()), expected, "{what}");
    }
    let resolved = resolve(&place.0, Path::new("far.txt")).unwrap();
    let base = Dir::open(&place.0).unwrap().id().unwrap();
    let (at, _) = resolved.ancestors().find(|(_, id)| *id == base).unwrap();
    assert_eq!(resolved.below(at), Path::new("in/a.txt"));
    assert_eq!(resolve(&place.0, Path::new("/")).unwrap().ancestors().count(), 0);
}

#[test]
fn very_long_paths_end() {
    let place = Place::new();
    let long = "./".repeat(STEPS);
    assert_eq!(resolve(&place.0, Path::new(&long)), Err(ResolveError::NotFound));
    let name = "a".repeat(300);
    assert_eq!(resolve(&place.0, Path::new(&name)), Err(ResolveError::NotFound));
}

/// More steps than a walk takes.
const STEPS: usize = 10_000;

#[test]
fn c5_07_names_in_another_normal_form() {
    let composed = "r\u{e9}sum\u{e9}.pdf";
    let decomposed = "re\u{301}sume\u{301}.pdf";
    let place = Place::new();
    place.file(decomposed, "d");
    let found = resolve(&place.0, Path::new(composed)).unwrap();
    assert_eq!(found.path(), place.0.join(decomposed));
    place.file(composed, "c");
    for name in [composed, decomposed] {
        assert_eq!(resolve(&place.0, Path::new(name)), Err(ResolveError::NotFound), "{name}");
    }
}
