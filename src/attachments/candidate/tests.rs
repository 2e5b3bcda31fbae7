//! Tests of the checks by the rules they come from; the attack table is in `attacks`.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::attachments::policy::{Places, ROOT_NAMES};
use crate::attachments::world::{CANARY, PATTERNS, World};
use crate::sdk::wire::run::ToolClass;
use crate::sys::beneath::Dir;

fn plain(text: &str) -> String {
    text.to_owned()
}

fn answer(world: &World, path: &str) -> Result<PathBuf, Reason> {
    check_with(&world.roots(), path)
}

fn check_with(roots: &Roots, path: &str) -> Result<PathBuf, Reason> {
    let denied = Patterns::new(PATTERNS);
    let checked = check(path, &rules(roots, &denied, None));
    checked.map(|candidate| candidate.real_path).map_err(|refused| refused.reason)
}

fn rules<'a>(roots: &'a Roots, denied: &'a Patterns, limits: Option<InstanceLimits>) -> Rules<'a> {
    Rules { roots, denied, limits, mask: &plain }
}

fn refused(world: &World, path: &str, reason: Reason) {
    assert_eq!(answer(world, path), Err(reason), "{path}");
}

#[test]
fn check_candidate_roots() {
    let world = World::new();
    for path in [
        "projects/website/a",
        "state/files/thread/file/a",
        "state/tmp/run/a",
        "projects/other/x",
        "projects/x",
        "state/files/other/x",
        "state/tmp/other/x",
        "state/sessions/ref/x",
        "state/inbox.sqlite3",
    ] {
        world.file(path, "x");
    }
    let text = |path: &str| world.at(path).to_str().unwrap().to_owned();
    for path in ["projects/website/a", "state/files/thread/file/a", "state/tmp/run/a"] {
        assert_eq!(answer(&world, &text(path)), Ok(world.at(path)), "{path}");
    }
    for path in [
        "projects/other/x",
        "projects/x",
        "projects",
        "state/files/other/x",
        "state/tmp/other/x",
        "state/sessions/ref/x",
        "state/inbox.sqlite3",
        "projects/website/../other/x",
    ] {
        refused(&world, &text(path), Reason::OutsideAllowedRoots);
    }
    refused(&world, "none", Reason::NotFound);
    refused(&world, "~/a", Reason::NotFound);
}

#[test]
fn symlink_escape_rejected() {
    let world = World::new();
    world.file("home/canary.txt", CANARY);
    world.file("home/a.txt", CANARY);
    world.file("projects/other/x", CANARY);
    world.file("state/sessions/ref/run.input.jsonl", CANARY);
    world.file("projects/website/real.txt", "fine");
    world.link("../../home/canary.txt", "projects/website/relative");
    world.link(world.at("home/canary.txt"), "projects/website/absolute");
    world.link(world.at("home"), "projects/website/docs");
    world.link(world.at("projects/other/x"), "projects/website/other");
    world.link(world.at("state/sessions/ref/run.input.jsonl"), "projects/website/prompt");
    world.link("absolute", "projects/website/chain");
    world.link("loop", "projects/website/loop");
    world.link("real.txt", "projects/website/inside");
    for path in ["relative", "absolute", "docs/a.txt", "other", "prompt", "chain"] {
        refused(&world, path, Reason::OutsideAllowedRoots);
    }
    refused(&world, "loop", Reason::NotFound);
    assert_eq!(answer(&world, "inside"), Ok(world.at("projects/website/real.txt")));
}

/// An example of each mandatory pattern (M3-12, R-33), other cases of letters, and a file below a denied directory.
const SECRETS: [&str; 27] = [
    ".env",
    ".env.local",
    "server.pem",
    "tls.key",
    "id_ed25519",
    ".netrc",
    ".ssh/config",
    ".claude/settings.json",
    ".config/tool/hosts.yml",
    ".aws/credentials",
    ".azure/profile.json",
    ".gnupg/pubring.kbx",
    ".git/config",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".docker/config.json",
    ".kube/config",
    "store.p12",
    "store.pfx",
    "store.jks",
    "store.kdbx",
    "prod.tfstate.backup",
    "credentials.json",
    "case/.ENV",
    "case/Server.PEM",
    "a/.ssh/b/c",
];

#[test]
fn secret_patterns_rejected() {
    let world = World::new();
    for path in SECRETS {
        world.file(&format!("projects/website/{path}"), CANARY);
        refused(&world, path, Reason::DeniedPattern);
    }
    world.file("projects/website/README.md", "fine");
    world.link(".env", "projects/website/notes.txt");
    world.link("README.md", "projects/website/id_rsa");
    refused(&world, "notes.txt", Reason::DeniedPattern);
    refused(&world, "id_rsa", Reason::DeniedPattern);
    for pattern in PATTERNS {
        let own = Patterns::new(&[*pattern]);
        assert!(SECRETS.iter().any(|path| own.deny(Path::new(path), path)), "{pattern} has no example");
    }
}

#[test]
fn the_components_of_a_root_are_not_tested() {
    let world = World::new();
    world.file("x/.config/website/README.md", "fine");
    let (working_dir, projects_root) = (world.at("x/.config/website"), world.at("x/.config"));
    let project = Some(Dir::open(&working_dir).unwrap().id().unwrap());
    let places =
        Places { working_dir: &working_dir, projects_root: &projects_root, project, ..world.places() };
    let roots = Roots::open(&places, &ROOT_NAMES, ToolClass::Host).unwrap();
    assert!(check_with(&roots, "README.md").is_ok());
}

#[test]
fn a_state_directory_inside_a_project_stays_closed() {
    let world = World::new();
    world.file("state/inbox.sqlite3", CANARY);
    world.file("state/tmp/run/a", "fine");
    let (working_dir, projects_root) = (world.at(""), world.at("projects/other"));
    let project = Some(Dir::open(&working_dir).unwrap().id().unwrap());
    let places =
        Places { working_dir: &working_dir, projects_root: &projects_root, project, ..world.places() };
    let roots = Roots::open(&places, &ROOT_NAMES, ToolClass::Host).unwrap();
    assert_eq!(check_with(&roots, "state/inbox.sqlite3"), Err(Reason::OutsideAllowedRoots));
    let projects_root = world.at("none");
    let places = Places { projects_root: &projects_root, ..places };
    let roots = Roots::open(&places, &ROOT_NAMES, ToolClass::Host).unwrap();
    assert_eq!(roots.names().len(), 3);
    assert_eq!(check_with(&roots, "state/inbox.sqlite3"), Err(Reason::OutsideAllowedRoots));
    assert!(check_with(&roots, "state/tmp/run/a").is_ok());
    world.file("state-2/a", "fine");
    assert!(check_with(&roots, "state-2/a").is_ok());
}

#[test]
fn c5_05_views_of_the_kernel_whatever_the_roots_say() {
    let world = World::new();
    world.link("/proc/self/environ", "projects/website/out/e.txt");
    for path in [
        "/proc/self/environ",
        "/proc/self/cwd/x",
        "/proc/thread-self/fd/3",
        "/dev/fd/3",
        "/dev/stdin",
        "out/e.txt",
    ] {
        refused(&world, path, Reason::OutsideAllowedRoots);
    }
}

#[test]
fn regular_file_and_hard_link() {
    let world = World::new();
    let _socket = UnixListener::bind(world.at("projects/website/socket")).unwrap();
    nix::unistd::mkfifo(&world.at("projects/website/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    world.file("home/outside", CANARY);
    std::fs::hard_link(world.at("home/outside"), world.at("projects/website/hard")).unwrap();
    world.file("projects/website/empty", "");
    for path in ["out", "socket", "pipe"] {
        refused(&world, path, Reason::NotARegularFile);
    }
    refused(&world, "hard", Reason::HardLink);
    refused(&world, "empty", Reason::EmptyFile);
}

/// A file with several names has a code of its own, which the README explains: make a copy.
#[test]
fn c5_03_an_honest_second_name_is_not_called_missing() {
    let world = World::new();
    world.file("projects/website/out/app.zip", "zip");
    std::fs::hard_link(world.at("projects/website/out/app.zip"), world.at("projects/website/b.zip")).unwrap();
    refused(&world, "out/app.zip", Reason::HardLink);
    std::fs::copy(world.at("projects/website/out/app.zip"), world.at("projects/website/copy.zip")).unwrap();
    assert!(answer(&world, "copy.zip").is_ok());
}

#[test]
fn c5_07_one_file_in_another_normal_form_is_taken_and_two_are_not() {
    let world = World::new();
    world.file("projects/website/re\u{301}sume\u{301}.pdf", "pdf");
    assert!(answer(&world, "r\u{e9}sum\u{e9}.pdf").is_ok());
    world.file("projects/website/r\u{e9}sum\u{e9}.pdf", "pdf");
    refused(&world, "r\u{e9}sum\u{e9}.pdf", Reason::NotFound);
    refused(&world, "re\u{301}sume\u{301}.pdf", Reason::NotFound);
}

fn limits(files: u64, bytes: u64) -> InstanceLimits {
    InstanceLimits {
        message_max_attachments: files,
        message_max_content_bytes: 10_000,
        file_max_upload_bytes: bytes,
        file_name_max_bytes: 255,
    }
}

/// What became of a set: the number of files, or the reasons.
fn set(world: &World, paths: &[&str], limits: Option<InstanceLimits>) -> Result<usize, Vec<Reason>> {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    check_set(&paths, &rules(&roots, &denied, limits))
        .map(|files| files.len())
        .map_err(|outcomes| outcomes.iter().map(|outcome| outcome.reason).collect())
}

/// What is announced, what the server allows, what becomes of it.
type SetRow = (&'static str, Vec<&'static str>, Option<InstanceLimits>, Result<usize, Vec<Reason>>);

#[test]
fn check_set_all_or_none() {
    use Reason::*;
    let world = World::new();
    for name in ["a", "b", "c", "d", ".env"] {
        world.file(&format!("projects/website/{name}"), "four");
    }
    world.file("projects/website/large", "larger");
    world.link("a", "projects/website/again");
    let hard = world.file("projects/website/hard-1", "four");
    std::fs::hard_link(hard, world.at("projects/website/hard-2")).unwrap();
    let fine = Some(limits(3, 4));
    let rows: Vec<SetRow> = vec![
        ("nothing wrong", vec!["a", "b", "c"], fine, Ok(3)),
        ("one denied", vec!["a", ".env", "b"], fine, Err(vec![SetNotSent, DeniedPattern, SetNotSent])),
        ("too many", vec!["a", "b", "c", "d"], fine, Err(vec![TooMany; 4])),
        (
            "too many, one denied",
            vec!["a", "b", "c", "d", ".env"],
            fine,
            Err(vec![TooMany, TooMany, TooMany, TooMany, DeniedPattern]),
        ),
        (
            "too many with the denied one",
            vec!["a", "b", "c", ".env"],
            fine,
            Err(vec![TooMany, TooMany, TooMany, DeniedPattern]),
        ),
        ("two names of one file", vec!["hard-1", "hard-2", "./hard-1"], fine, Err(vec![HardLink; 2])),
        ("one too large", vec!["a", "large", "b"], fine, Err(vec![SetNotSent, TooLarge, SetNotSent])),
        ("the same file three times", vec!["a", "again", "./a", "b", "c"], fine, Ok(3)),
        ("the same denied file twice", vec![".env", "./.env"], fine, Err(vec![DeniedPattern])),
        ("no limits", vec!["a", "b"], None, Err(vec![LimitsUnavailable; 2])),
        ("no limits, one missing", vec!["a", "none"], None, Err(vec![LimitsUnavailable, NotFound])),
        ("a line without a path", vec!["", "a"], fine, Err(vec![NotFound, SetNotSent])),
        ("no files allowed", vec!["a"], Some(limits(0, 4)), Err(vec![TooMany])),
        ("nothing announced", vec![], fine, Ok(0)),
    ];
    for (what, paths, limits, expected) in rows {
        assert_eq!(set(&world, &paths, limits), expected, "{what}");
    }
}

#[test]
fn c5_15_an_empty_file_is_refused_alone_and_among_others() {
    let world = World::new();
    world.file("projects/website/empty.txt", "");
    world.file("projects/website/a", "a");
    world.file("projects/website/b", "b");
    let limits = Some(limits(3, 4));
    assert_eq!(set(&world, &["empty.txt"], limits), Err(vec![Reason::EmptyFile]));
    let reasons = vec![Reason::SetNotSent, Reason::EmptyFile, Reason::SetNotSent];
    assert_eq!(set(&world, &["a", "empty.txt", "b"], limits), Err(reasons));
}

#[test]
fn a_flood_of_lines_holds_few_files_open() {
    let world = World::new();
    let names: Vec<String> = (0..300).map(|number| format!("f{number}")).collect();
    for name in &names {
        world.file(&format!("projects/website/{name}"), "x");
    }
    let roots = world.roots();
    let denied = Patterns::new(PATTERNS);
    let files = check_each(&names, &rules(&roots, &denied, None), 4);
    assert_eq!(files.iter().filter(|file| matches!(file.result, Ok(Some(_)))).count(), 4);
    assert_eq!(files.len(), names.len());
}

#[test]
fn a_secret_never_becomes_a_name() {
    let world = World::new();
    world.file("projects/website/report-s3cret.txt", "x");
    let mask = |text: &str| text.replace("s3cret", "[redacted]");
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    let rules = Rules { mask: &mask, ..rules(&roots, &denied, None) };
    let candidate = check("report-s3cret.txt", &rules).unwrap();
    assert_eq!(candidate.name, "report-[redacted].txt");
}

#[test]
fn c5_01_a_swapped_directory_never_leads_outside() {
    let world = World::new();
    world.file("projects/website/out/a.txt", "INSIDE");
    world.file("home/private/a.txt", CANARY);
    world.link(world.at("home/private"), "projects/website/evil");
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    let stop = AtomicBool::new(false);
    let mut read = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (out, evil) = (world.at("projects/website/out"), world.at("projects/website/evil"));
            let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                let here = nix::fcntl::AT_FDCWD;
                nix::fcntl::renameat2(here, &out, here, &evil, flags).unwrap();
            }
        });
        for _ in 0..1000 {
            if let Ok(candidate) = check("out/a.txt", &rules(&roots, &denied, None)) {
                read.push(std::io::read_to_string(&candidate.file).ok());
            }
        }
        // Nothing is asserted before this: a panic would leave the other thread waiting.
        stop.store(true, Ordering::Relaxed);
    });
    assert!(read.iter().all(|text| text.as_deref() == Some("INSIDE")));
}

/// The same without chance: the directory is swapped right between the decision and the open.
#[test]
fn c5_01_a_directory_swapped_after_the_decision_is_not_opened() {
    let world = World::new();
    world.file("projects/website/out/a.txt", "INSIDE");
    world.file("home/private/a.txt", CANARY);
    let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
    let resolved = real_path("out/a.txt", &rules(&roots, &denied, None)).unwrap();
    let below = roots.find(&resolved).unwrap();
    std::fs::rename(world.at("projects/website/out"), world.at("projects/website/moved")).unwrap();
    world.link(world.at("home/private"), "projects/website/out");
    assert_eq!(open(&below).map(|_| ()), Err(Reason::NotFound));
}
