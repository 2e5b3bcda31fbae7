//! The tree that the rows attack: what may be sent, what must not leave, links, and what is no ordinary file.

use crate::attachments::world::{CANARY, World};

/// Builds everything that the rows attack, once for all of them.
pub fn layout(world: &World) {
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
