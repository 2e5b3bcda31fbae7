//! Everything that an announced path can try: a table of attacks, a mount, and paths made by chance.
//!
//! A row is added by writing it in `table`; what it needs in the tree by a line in `layout`.

mod layout;
mod table;

use self::layout::layout;
use self::table::{ATTACKS, FINE};
use super::*;
use crate::attachments::world::{CANARY, PATTERNS, World};

/// The reason code, or [`FINE`].
fn answer(world: &World, path: &str) -> &'static str {
    let path = path.replace("{top}", world.at("").to_str().unwrap().trim_end_matches('/'));
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    let rules = Rules { roots: &roots, denied: &denied, limits: None, mask: &|text| text.to_owned() };
    match check(&path, &rules) {
        Ok(candidate) => {
            let text = std::io::read_to_string(&candidate.file).unwrap();
            assert_ne!(text, CANARY, "{path}");
            FINE
        }
        Err(refused) => refused.reason.code(),
    }
}

#[test]
fn every_attack_has_its_answer() {
    let world = World::new();
    layout(&world);
    let wrong: Vec<String> = ATTACKS
        .iter()
        .filter_map(|(name, path, expected)| {
            // Whatever it names, nothing is waited for: a row that waited would never end.
            let answer = answer(&world, path);
            assert_no_directory_is_told(&world, path);
            (answer != *expected).then(|| format!("{name}: {answer} instead of {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ATTACKS.len() >= 150, "{}", ATTACKS.len());
}

/// The notice has the last component at most, whatever was announced.
fn assert_no_directory_is_told(world: &World, path: &str) {
    let top = world.at("").to_str().unwrap().trim_end_matches('/').to_owned();
    let outcome =
        Outcome::of(display_name(&path.replace("{top}", &top), &|text| text.to_owned()), Reason::NotFound);
    let notice = crate::attachments::notice::build(&[outcome], None);
    assert!(!notice.contains('/') && !notice.contains(&top), "{notice}");
    assert_eq!(notice.lines().count(), 2, "{notice}");
}

/// A directory of another place that is mounted into the project: the kernel's own way around a link.
///
/// Mounting needs the right to; without it (an ordinary user, most containers) only the attempt is made.
#[test]
fn a_mounted_directory_is_judged_by_what_it_is() {
    let world = World::new();
    world.file("home/private.txt", CANARY);
    let place = world.at("projects/website/mounted");
    std::fs::create_dir(&place).unwrap();
    let mount = |arguments: &[&std::ffi::OsStr]| {
        let made =
            std::process::Command::new("mount").args(arguments).stderr(std::process::Stdio::null()).status();
        made.is_ok_and(|status| status.success())
    };
    let home = world.at("home");
    if !mount(&["--bind".as_ref(), home.as_os_str(), place.as_os_str()]) {
        eprintln!("mounting is not permitted here");
        return;
    }
    let told =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(&world, "mounted/private.txt")));
    std::process::Command::new("umount").arg("-l").arg(&place).status().unwrap();
    assert_eq!(told.unwrap(), "outside_allowed_roots");
}

/// Pieces that a hostile path is made of.
const PIECES: &[&str] = &[
    "..",
    ".",
    "",
    "out",
    "docs",
    "up",
    "to-root",
    "to-state",
    "to-other-dir",
    "to-inbox-of-other",
    "near-dir",
    "home",
    "projects",
    "website",
    "other",
    "state",
    "files",
    "thread",
    "file",
    "tmp",
    "run",
    "sessions",
    "ref",
    ".ssh",
    ".env",
    "a.txt",
    "x",
    "private.txt",
    "id_ed25519",
    "data.csv",
    "summary.txt",
    "evil",
    "notes.txt",
    "innocent",
    "config",
    "inbox.sqlite3",
    "proc",
    "self",
    "environ",
    "cwd",
    "chain-1",
    "loop",
    "pipe",
    "hard.txt",
    "README.md",
];

/// Whatever is announced: nothing that must not leave is ever opened, and nothing panics or blocks.
#[test]
fn no_path_made_of_these_pieces_leads_out() {
    use proptest::prelude::*;
    let world = World::new();
    layout(&world);
    let piece = prop::sample::select(PIECES);
    let path = (prop::sample::select(&["", "/", "{top}/"][..]), prop::collection::vec(piece, 1..8));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let run = proptest::test_runner::TestRunner::new(config).run(&path, |(start, pieces)| {
        answer(&world, &format!("{start}{}", pieces.join("/")));
        Ok(())
    });
    run.unwrap();
}
