//! Somebody swaps the file, its directory and the project for links while it is checked and staged (R-21, C5-01).
//!
//! A short run belongs to the tests; `ATTACHMENT_RACE_ROUNDS` makes it as long as one likes (`scripts/bench race`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{RenameFlags, renameat2};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::attachments::candidate::{Rules, check};
use crate::attachments::policy::Patterns;
use crate::attachments::world::{CANARY, PATTERNS, World};

/// Rounds of the short run.
const ROUNDS: u64 = 400;

/// Pause between two exchanges, spent awake: about half of the rounds find every own file in its place.
const PAUSE: Duration = Duration::from_micros(300);

/// What the announced file holds.
const OWN: &str = "fine";

/// Two names of one directory, which stays the same wherever it is moved.
struct Pair {
    dir: File,
    own: &'static str,
    foreign: &'static str,
}

/// Exchanges the two names of one pair after the other and back until told to stop, and counts the exchanges. One
/// thread for all of them, so that two processors are enough for both sides.
fn swap(pairs: &[Pair], stop: &AtomicBool, swaps: &AtomicU64) {
    for pair in pairs.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..2 {
            renameat2(&pair.dir, pair.own, &pair.dir, pair.foreign, RenameFlags::RENAME_EXCHANGE).unwrap();
            swaps.fetch_add(1, Ordering::Relaxed);
        }
        let since = Instant::now();
        while since.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
    }
}

/// A foreign file, directory and project beside the own ones, each behind a link.
fn pairs(world: &World) -> [Pair; 3] {
    world.file("projects/website/out/a.txt", OWN);
    world.file("home/private/a.txt", CANARY);
    world.file("home/project/out/a.txt", CANARY);
    world.link(world.at("home/private/a.txt"), "projects/website/out/link");
    world.link(world.at("home/private"), "projects/website/dir");
    world.link(world.at("home/project"), "projects/linked");
    let rows = [
        ("projects/website/out", "a.txt", "link"),
        ("projects/website", "out", "dir"),
        ("projects", "website", "linked"),
    ];
    rows.map(|(dir, own, foreign)| Pair { dir: File::open(world.at(dir)).unwrap(), own, foreign })
}

/// One check and staging; the code of its end.
fn round(world: &World, staging: &Staging, denied: &Patterns) -> &'static str {
    let roots = world.roots();
    let rules = Rules { roots: &roots, denied, limits: None, mask: &|text| text.to_owned() };
    let candidate = match check("out/a.txt", &rules) {
        Ok(candidate) => candidate,
        Err(refused) => return refused.reason.code(),
    };
    match staging.stage(vec![candidate]) {
        Err(outcomes) => outcomes[0].reason.code(),
        Ok(staged) => {
            let copy = std::io::read_to_string(staging.open(1, staged[0].size_bytes).unwrap()).unwrap();
            assert_eq!(copy, OWN, "foreign bytes were staged");
            assert_eq!(staged[0].sha256, hex(&Sha256::digest(OWN)));
            "staged"
        }
    }
}

#[test]
fn no_foreign_byte_is_staged_in_a_race() {
    let rounds =
        std::env::var("ATTACHMENT_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let world = World::new();
    let pairs = pairs(&world);
    let staging = Staging::new(&world.at("state"), Uuid::nil(), 1);
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let denied = Patterns::new(PATTERNS);
    let begun = Instant::now();
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&pairs, &stop, &swaps));
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..rounds {
                *ends.entry(round(&world, &staging, &denied)).or_default() += 1;
            }
        }));
        stop.store(true, Ordering::Relaxed);
        run.unwrap();
    });
    let swaps = swaps.load(Ordering::Relaxed);
    println!("race: {rounds} rounds, {swaps} swaps, {:.1} s, {ends:?}", begun.elapsed().as_secs_f64());
    let told: u64 = ends.values().sum();
    assert_eq!(told, rounds);
    assert!(swaps > 0 && Path::new(&world.at("home/private/a.txt")).exists());
}
