//! The world of these scenarios: small limits, files with canaries, and what must hold after each of them.

use std::path::{Path, PathBuf};

use claude_code_runner::local::hooks::{Captured, Fault};
use claude_code_runner::sdk::wire::person::{Message, Projects, RunDocument};
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::logs;
use crate::support::wait::DEADLINE;
use crate::support::world::{Setup, World};

/// Most files of one message.
pub const MOST_FILES: u64 = 3;
/// Largest file, bytes.
pub const LARGEST: u64 = 4096;
/// Length of every part but the last, bytes.
pub const PART: u64 = 1000;
/// Length of the file that needs three parts, bytes.
pub const REPORT_BYTES: usize = 2500;

/// Text that only an accepted file may carry to the server.
pub const CANARY: &str = "canary-content-of-a-file-0001";
/// Text that must reach nobody.
pub const SECRET: &str = "canary-content-of-a-secret-0002";

/// The usual world with small limits.
pub fn world() -> World {
    with(Setup::default())
}

/// Another world with small limits.
pub fn with(setup: Setup) -> World {
    logs::install();
    let mut world = World::without_runner(setup);
    limit(&world);
    world.start_runner();
    world
}

/// Sets the small limits.
pub fn limit(world: &World) {
    world.server.operator().change_settings(|settings| {
        settings.limits.message_max_attachments = MOST_FILES;
        settings.limits.file_max_upload_bytes = LARGEST;
        settings.part_size_bytes = PART;
    });
}

/// Bytes that begin with the canary, the same ones for one `seed`.
pub fn bytes(seed: u8, length: usize) -> Vec<u8> {
    let tail = (0..length).map(|at| b'a' + (at as u8).wrapping_mul(7).wrapping_add(seed) % 26);
    CANARY.bytes().chain(tail).take(length).collect()
}

/// Writes a file of the project.
pub fn put(world: &World, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = world.project().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Changes the project's permissions and waits until the runner knows.
pub fn grant(world: &World, change: &Value) {
    let acks = world.hooks.count("ackEvents");
    world.person.grants(world.channel(), change);
    assert!(world.hooks.wait_for("ackEvents", usize::try_from(acks).unwrap() + 1, DEADLINE));
}

/// The present `grant_revision` of the project.
pub fn revision(world: &World) -> i64 {
    let projects: Projects = world.person.get("projects");
    let found = projects.projects.iter().find(|project| project.channel_id == world.channel());
    found.unwrap().grant_revision
}

/// Lets every turn answer `text`.
pub fn answers(world: &World, text: &str) {
    world.claude.answers(text);
}

/// Lets every turn work, then answer `text`.
pub fn works(world: &World, work: Value, text: &str) {
    world.claude.steps(json!([{"do": work}, {"text": text}]));
}

/// The requests that an upload is made of, with their ordinals.
pub fn uploads(world: &World) -> Vec<(String, u64)> {
    let wanted = ["createUpload", "uploadPart", "completeUpload", "abortUpload"];
    let all = world.hooks.requests().into_iter().filter(from_agent);
    let named = all.filter(|seen| wanted.contains(&seen.operation.as_str()));
    named.map(|seen| (seen.operation, seen.ordinal)).collect()
}

/// The requests of one operation that the runner made.
pub fn of_agent(world: &World, operation: &str) -> Vec<Captured> {
    world.hooks.requests_of(operation).into_iter().filter(from_agent).collect()
}

fn from_agent(seen: &Captured) -> bool {
    seen.header("Invocation-Token").is_some()
}

/// Does `fault` to the runner's next message.
pub fn answer_is(world: &World, fault: Fault) {
    world.hooks.next("createMessage", fault);
}

/// Waits until the run has completed.
#[track_caller]
pub fn completes(world: &World, run: Uuid) -> RunDocument {
    let end = world.ends(run);
    assert_eq!(end.state, RunState::Completed, "{:?} {:?}", end.reason, logs::of(run));
    end
}

/// The only answer of a thread.
#[track_caller]
pub fn answer(world: &World, thread: Uuid) -> Message {
    let mut answers = world.answers(thread);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

/// The names of a message's files, in their order.
pub fn names(message: &Message) -> Vec<&str> {
    message.attachments.iter().map(|file| file.name.as_str()).collect()
}

/// The bodies of the runner's messages, in order.
pub fn messages(world: &World) -> Vec<Value> {
    of_agent(world, "createMessage").iter().map(|seen| seen.json().unwrap()).collect()
}

/// Where the canaries stand: nowhere but, with `sent`, in the parts of an upload, and nothing stays behind.
#[track_caller]
pub fn nothing_leaked(world: &World, sent: bool) {
    for seen in world.hooks.requests().into_iter().filter(from_agent) {
        assert!(!holds(&seen.body, SECRET), "{}", seen.operation);
        let part = sent && seen.operation == "uploadPart";
        assert!(part || !holds(&seen.body, CANARY), "{}", seen.operation);
    }
    for line in logs::all() {
        assert!(!line.contains(CANARY) && !line.contains(SECRET), "{line}");
    }
    assert_eq!(files_with(&world.state(), CANARY), Vec::<PathBuf>::new());
    assert_eq!(files_with(&world.state(), SECRET), Vec::<PathBuf>::new());
    nothing_left(world);
}

/// No copy and no record of an answer's files is left.
#[track_caller]
pub fn nothing_left(world: &World) {
    crate::support::wait::eventually("copies and records are gone", || {
        let left: Vec<PathBuf> = every_file(&world.state().join("outgoing"));
        let records = every_file(&world.state().join("sessions"));
        let named = |path: &&PathBuf| path.to_string_lossy().contains(".attach-");
        (left.is_empty() && records.iter().find(named).is_none()).then_some(())
    });
}

/// Whether `bytes` holds `text`.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Every file below `dir` that holds `text`, except received ones and what is being sent.
fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let open = [dir.join("files"), dir.join("outgoing"), dir.join("tmp")];
    let closed = every_file(dir).into_iter().filter(|path| !open.iter().any(|dir| path.starts_with(dir)));
    closed.filter(|path| holds(&std::fs::read(path).unwrap_or_default(), text)).collect()
}

/// Every file below `dir`.
pub fn every_file(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { every_file(&path) } else { vec![path] }).collect()
}
