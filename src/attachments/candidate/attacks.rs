//! The attack table: one row each, a name, a layout, an announced path, and what the check answers.
//!
//! `{top}` in a path stands for the test's tree. A row is added by writing it; a layout by a line in [`layout`].

use super::*;
use crate::attachments::world::{CANARY, PATTERNS, World};

/// Longest time that one check may take: whatever it names, nothing is waited for.
const AT_MOST: std::time::Duration = std::time::Duration::from_secs(1);

/// A name that no file system takes.
const LONG_NAME: &str = concat!(
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
);

/// Stands for a file that may be sent.
const FINE: &str = "fine";

/// Builds everything that the rows attack, once for all of them.
fn layout(world: &World) {
    let files = [
        "projects/website/README.md",
        "projects/website/out/a.txt",
        "projects/website/out/my report 2026.pdf",
        "projects/website/out/d.pdf",
        "projects/website/out/h i.pdf",
        "projects/website/~/x",
        "projects/website/$HOME",
        "projects/website/file:/x",
        "state/files/thread/file/data.csv",
        "state/tmp/run/summary.txt",
        "projects/website/environment",
        "projects/website/pem",
        "projects/website/identity",
        "projects/website/gitlog",
        "projects/website/a.keys",
        "projects/website/\u{e9}t\u{e9}.txt",
        "projects/website/-rf",
        "projects/website/out/...",
        "projects/website/ leading",
    ];
    let secrets = [
        "home/private.txt",
        "home/.ssh/id_ed25519",
        "projects/other/x",
        "projects/x",
        "state/inbox.sqlite3",
        "state/sessions/ref/run.input.jsonl",
        "state/files/other/file/data.csv",
        "state/files/x",
        "state/tmp/other/x",
        "state/tmp/x",
        "state/outgoing/run/1/1",
        "state/x",
        "x",
        "projects/website/.env",
        "projects/website/.env.local",
        "projects/website/server.pem",
        "projects/website/tls.key",
        "projects/website/id_ed25519",
        "projects/website/.netrc",
        "projects/website/.ssh/config",
        "projects/website/.ssh/a/b/c",
        "projects/website/.claude/settings.json",
        "projects/website/.config/tool/hosts.yml",
        "projects/website/.aws/credentials",
        "projects/website/.azure/profile.json",
        "projects/website/.gnupg/pubring.kbx",
        "projects/website/.git/config",
        "projects/website/.git-credentials",
        "projects/website/.npmrc",
        "projects/website/.pypirc",
        "projects/website/.docker/config.json",
        "projects/website/.kube/config",
        "projects/website/a.p12",
        "projects/website/a.pfx",
        "projects/website/a.jks",
        "projects/website/a.kdbx",
        "projects/website/prod.tfstate",
        "projects/website/prod.tfstate.backup",
        "projects/website/credentials.json",
        "projects/website/sub/.ENV",
        "projects/website/sub/Server.PEM",
        "projects/website/sub/.SSH/x",
        "projects/website/sub/.con\u{fb01}g/x",
        "projects/website/sub/tls.\u{212a}EY",
        "state/tmp/run/.env",
        "state/files/thread/file/id_rsa",
    ];
    for file in files {
        world.file(file, "fine");
    }
    for file in secrets {
        world.file(file, CANARY);
    }
    links(world);
    others(world);
}

/// Links inside the project, most of them out of it.
fn links(world: &World) {
    let rows = [
        ("link.txt", world.at("home/private.txt")),
        ("docs", world.at("home")),
        ("to-other", world.at("projects/other/x")),
        ("to-other-dir", world.at("projects/other")),
        ("to-prompt", world.at("state/sessions/ref/run.input.jsonl")),
        ("to-inbox-of-other", world.at("state/files/other/file")),
        ("to-state", world.at("state")),
        ("to-root", "/".into()),
        ("chain-1", "chain-2".into()),
        ("chain-2", world.at("home/private.txt")),
        ("loop", "loop".into()),
        ("loop-a", "loop-b/x".into()),
        ("loop-b", "loop-a/x".into()),
        ("dangling", world.at("home/none")),
        ("near.txt", "out/a.txt".into()),
        ("near-dir", "out".into()),
        ("up", "..".into()),
        ("notes.txt", ".env".into()),
        ("id_rsa", "README.md".into()),
        ("innocent", ".ssh".into()),
        ("out/e.txt", "/proc/self/environ".into()),
        ("out/cwd", "/proc/self/cwd".into()),
        ("out/stdin", "/dev/stdin".into()),
        ("through-self", world.at("projects/website/docs/private.txt")),
    ];
    for (name, target) in rows {
        world.link(target, &format!("projects/website/{name}"));
    }
    world.link(world.at("home"), "state/tmp/run/home");
    world.link(world.at("home/private.txt"), "state/files/thread/file/evil");
}

/// What is no ordinary file.
fn others(world: &World) {
    std::fs::create_dir(world.at("projects/website/folder.txt")).unwrap();
    nix::unistd::mkfifo(&world.at("projects/website/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::hard_link(world.at("home/private.txt"), world.at("projects/website/hard.txt")).unwrap();
    std::fs::hard_link(world.at("projects/website/.env"), world.at("projects/website/hard-env.txt")).unwrap();
    world.file("projects/website/out/app.zip", "zip");
    std::fs::hard_link(world.at("projects/website/out/app.zip"), world.at("projects/website/app.zip"))
        .unwrap();
    world.file("projects/website/empty.txt", "");
    world.link("pipe", "projects/website/to-pipe");
    world.link("empty.txt", "projects/website/to-empty");
    // Bound below a short name: an address of a socket has at most 108 bytes.
    let socket = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    std::fs::rename(socket, world.at("projects/website/socket")).unwrap();
}

/// Name of the attack, announced path, answer.
const ATTACKS: &[(&str, &str, &str)] = &[
    // What may go.
    ("a file of the project", "README.md", FINE),
    ("a file in a directory", "out/a.txt", FINE),
    ("by its absolute path", "{top}/projects/website/out/a.txt", FINE),
    ("of the thread's inbox", "{top}/state/files/thread/file/data.csv", FINE),
    ("of the temporary directory", "{top}/state/tmp/run/summary.txt", FINE),
    ("a link inside the project", "near.txt", FINE),
    ("a linked directory inside the project", "near-dir/a.txt", FINE),
    ("dots that stay inside", "./out/../out/./a.txt", FINE),
    ("out and back in", "../website/README.md", FINE),
    ("through a link to the parent and back", "up/website/README.md", FINE),
    ("spaces in the name", "out/my report 2026.pdf", FINE),
    ("a space at the start of the name", "{top}/projects/website/ leading", FINE),
    ("a name of dots", "out/...", FINE),
    ("a name like an option", "-rf", FINE),
    ("a composed name", "\u{e9}t\u{e9}.txt", FINE),
    ("its decomposed form", "e\u{301}te\u{301}.txt", FINE),
    ("a name beside .env*", "environment", FINE),
    ("a name beside *.pem", "pem", FINE),
    ("a name beside id_*", "identity", FINE),
    ("a name beside .git", "gitlog", FINE),
    ("a name beside *.key", "a.keys", FINE),
    ("a real directory called tilde", "~/x", FINE),
    ("a real file called like a variable", "$HOME", FINE),
    ("a real path with a colon", "file:///x", FINE),
    // Outside.
    ("a file outside", "{top}/home/private.txt", "outside_allowed_roots"),
    ("a file outside, relative", "../../home/private.txt", "outside_allowed_roots"),
    (
        "more dots than directories",
        "../../../../../../../../../../../../../../../../etc",
        "outside_allowed_roots",
    ),
    ("the other project", "{top}/projects/other/x", "outside_allowed_roots"),
    ("the other project, relative", "../other/x", "outside_allowed_roots"),
    ("the other project, through this one", "{top}/projects/website/../other/x", "outside_allowed_roots"),
    ("the projects root", "{top}/projects", "outside_allowed_roots"),
    ("a file of the projects root", "../x", "outside_allowed_roots"),
    ("the project itself", ".", "outside_allowed_roots"),
    ("the project itself with a slash", "./", "outside_allowed_roots"),
    ("the temporary directory itself", "{top}/state/tmp/run", "outside_allowed_roots"),
    ("the inbox itself", "{top}/state/files/thread/", "outside_allowed_roots"),
    ("another thread's inbox", "{top}/state/files/other/file/data.csv", "outside_allowed_roots"),
    ("another run's directory", "{top}/state/tmp/other/x", "outside_allowed_roots"),
    ("beside the run's directory", "{top}/state/tmp/x", "outside_allowed_roots"),
    ("beside the inbox", "{top}/state/files/x", "outside_allowed_roots"),
    ("the inbox database", "{top}/state/inbox.sqlite3", "outside_allowed_roots"),
    ("a prompt", "{top}/state/sessions/ref/run.input.jsonl", "outside_allowed_roots"),
    ("a staged copy", "{top}/state/outgoing/run/1/1", "outside_allowed_roots"),
    ("the state through the inbox", "{top}/state/files/thread/../../x", "outside_allowed_roots"),
    ("the root of the system", "/", "outside_allowed_roots"),
    ("two slashes at the start", "//", "outside_allowed_roots"),
    // Links.
    ("a link to a file outside", "link.txt", "outside_allowed_roots"),
    ("a linked directory outside", "docs/private.txt", "outside_allowed_roots"),
    ("a link to the other project", "to-other", "outside_allowed_roots"),
    ("a linked directory of the other project", "to-other-dir/x", "outside_allowed_roots"),
    ("a link to a prompt", "to-prompt", "outside_allowed_roots"),
    ("a link to another inbox", "to-inbox-of-other/data.csv", "outside_allowed_roots"),
    ("a link to the state", "to-state/inbox.sqlite3", "outside_allowed_roots"),
    ("a link to the root", "to-root/etc", "outside_allowed_roots"),
    ("a link to the parent", "up/other/x", "outside_allowed_roots"),
    ("a chain of links", "chain-1", "outside_allowed_roots"),
    ("a link through a linked directory", "through-self", "outside_allowed_roots"),
    ("a link in the temporary directory", "{top}/state/tmp/run/home/private.txt", "outside_allowed_roots"),
    ("a link in the inbox", "{top}/state/files/thread/file/evil", "outside_allowed_roots"),
    ("dots behind a link", "docs/../projects/other/x", "outside_allowed_roots"),
    ("a loop", "loop", "not_found"),
    ("a loop of two", "loop-a", "not_found"),
    ("a dangling link", "dangling", "not_found"),
    // Views of the kernel.
    ("the runner's environment", "/proc/self/environ", "outside_allowed_roots"),
    ("the runner's directory", "/proc/self/cwd/README.md", "outside_allowed_roots"),
    ("the runner's root", "/proc/self/root/etc", "outside_allowed_roots"),
    ("a descriptor of the thread", "/proc/thread-self/fd/3", "outside_allowed_roots"),
    ("a descriptor", "/dev/fd/3", "outside_allowed_roots"),
    ("the standard input", "/dev/stdin", "outside_allowed_roots"),
    ("a device", "/dev/zero", "outside_allowed_roots"),
    ("settings of the kernel", "/sys/kernel", "outside_allowed_roots"),
    ("the memory of the runner", "/proc/self/mem", "outside_allowed_roots"),
    ("the program of the runner", "/proc/self/exe", "outside_allowed_roots"),
    (
        "the project through the kernel's view",
        "/proc/self/root/{top}/projects/website/README.md",
        "outside_allowed_roots",
    ),
    ("a random device", "/dev/urandom", "outside_allowed_roots"),
    ("a terminal", "/dev/tty", "outside_allowed_roots"),
    ("a link to the environment", "out/e.txt", "outside_allowed_roots"),
    ("a link to the runner's directory", "out/cwd/README.md", "outside_allowed_roots"),
    ("a link to the standard input", "out/stdin", "outside_allowed_roots"),
    // Names of secrets.
    (".env", ".env", "denied_pattern"),
    (".env.local", ".env.local", "denied_pattern"),
    ("*.pem", "server.pem", "denied_pattern"),
    ("*.key", "tls.key", "denied_pattern"),
    ("id_*", "id_ed25519", "denied_pattern"),
    (".netrc", ".netrc", "denied_pattern"),
    (".ssh", ".ssh/config", "denied_pattern"),
    ("two levels below .ssh", ".ssh/a/b/c", "denied_pattern"),
    (".claude", ".claude/settings.json", "denied_pattern"),
    (".config", ".config/tool/hosts.yml", "denied_pattern"),
    (".aws", ".aws/credentials", "denied_pattern"),
    (".azure", ".azure/profile.json", "denied_pattern"),
    (".gnupg", ".gnupg/pubring.kbx", "denied_pattern"),
    (".git", ".git/config", "denied_pattern"),
    (".git-credentials", ".git-credentials", "denied_pattern"),
    (".npmrc", ".npmrc", "denied_pattern"),
    (".pypirc", ".pypirc", "denied_pattern"),
    (".docker", ".docker/config.json", "denied_pattern"),
    (".kube", ".kube/config", "denied_pattern"),
    ("*.p12", "a.p12", "denied_pattern"),
    ("*.pfx", "a.pfx", "denied_pattern"),
    ("*.jks", "a.jks", "denied_pattern"),
    ("*.kdbx", "a.kdbx", "denied_pattern"),
    ("*.tfstate*", "prod.tfstate", "denied_pattern"),
    ("*.tfstate* with an ending", "prod.tfstate.backup", "denied_pattern"),
    ("credentials*", "credentials.json", "denied_pattern"),
    ("upper case", "sub/.ENV", "denied_pattern"),
    ("mixed case", "sub/Server.PEM", "denied_pattern"),
    ("a directory in upper case", "sub/.SSH/x", "denied_pattern"),
    ("a ligature", "sub/.con\u{fb01}g/x", "denied_pattern"),
    ("the sign of kelvin", "sub/tls.\u{212a}EY", "denied_pattern"),
    ("dots around", "out/../.ssh/../.ssh/config", "denied_pattern"),
    ("a link to a secret", "notes.txt", "denied_pattern"),
    ("a link named like a secret", "id_rsa", "denied_pattern"),
    ("a link to a secret directory", "innocent/config", "denied_pattern"),
    ("in the temporary directory", "{top}/state/tmp/run/.env", "denied_pattern"),
    ("in the inbox", "{top}/state/files/thread/file/id_rsa", "denied_pattern"),
    ("a secret directory itself", ".ssh", "denied_pattern"),
    // What is no ordinary file.
    ("a directory", "out", "not_a_regular_file"),
    ("a directory with a slash", "out/", "not_a_regular_file"),
    ("a directory named like a file", "folder.txt", "not_a_regular_file"),
    ("a fifo", "pipe", "not_a_regular_file"),
    ("a link to a fifo", "to-pipe", "not_a_regular_file"),
    ("a hard link to a file outside", "hard.txt", "hard_link"),
    ("a hard link to a secret", "hard-env.txt", "hard_link"),
    ("two honest names", "out/app.zip", "hard_link"),
    ("no bytes", "empty.txt", "empty_file"),
    ("a link to no bytes", "to-empty", "empty_file"),
    ("a Unix socket", "socket", "not_a_regular_file"),
    ("a link to a directory", "near-dir", "not_a_regular_file"),
    ("a link that names itself through its directory", "near-dir/../near-dir", "not_a_regular_file"),
    // What names nothing.
    ("missing", "none.txt", "not_found"),
    ("missing outside", "{top}/home/none.txt", "not_found"),
    ("no path", "", "not_found"),
    ("the home sign", "~/private.txt", "not_found"),
    ("a variable", "$HOME/private.txt", "not_found"),
    ("a URL", "https://example.com/a.txt", "not_found"),
    ("a file URL", "file://{top}/projects/website/README.md", "not_found"),
    ("quotes", "\"out/a.txt\"", "not_found"),
    ("backticks", "`out/a.txt`", "not_found"),
    ("a Markdown link", "[a](out/a.txt)", "not_found"),
    ("a full stop at the end", "out/d.pdf.", "not_found"),
    ("a percent sign", "out/h%20i.pdf", "not_found"),
    ("a pattern", "out/*.txt", "not_found"),
    ("a carriage return", "out/a\r.txt", "not_found"),
    ("a line feed", "out/a.txt\nout/a.txt", "not_found"),
    ("a zero byte", "out/a.txt\0.png", "not_found"),
    ("an escape", "out/\u{1b}[2Ja.txt", "not_found"),
    ("a separator of lines", "out/a.txt\u{2028}out/a.txt", "not_found"),
    ("a slash behind a file", "README.md/", "not_found"),
    ("below a file", "README.md/x", "not_found"),
    ("dots behind a file", "README.md/../README.md", "not_found"),
    ("backslashes", "out\\a.txt", "not_found"),
    ("another case", "readme.MD", "not_found"),
    ("a name longer than any", LONG_NAME, "not_found"),
    ("a drive letter", "C:\\out\\a.txt", "not_found"),
    ("a shell word", "$(cat out/a.txt)", "not_found"),
    ("a brace list", "out/{a,b}.txt", "not_found"),
    ("an override of direction", "out/\u{202e}txt.a", "not_found"),
    ("a space of no width", "out/a\u{200b}.txt", "not_found"),
    ("two paths", "out/a.txt out/d.pdf", "not_found"),
    ("a tab at the end", "out/a.txt\t", "not_found"),
];

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
            let begun = std::time::Instant::now();
            let answer = answer(&world, path);
            assert!(begun.elapsed() < AT_MOST, "{name}");
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
