//! How long things take: start to poll, event to process, result to message.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::place::Place;
use super::service::{SOON, Service, arrived};
use super::{Row, Rows, broken, median};
use crate::cli::exit::Failure;
use crate::sys::notify::FileWatch;
use crate::sys::wait::{Interest, wait};

/// How often each is measured.
const TIMES: u64 = 9;

/// Time from start to the first poll, of a fresh state directory, an old one, and one left by `kill -9`.
pub fn starts() -> Rows {
    let mut fresh = Vec::new();
    for _ in 0..TIMES {
        let place = Place::new("{}")?;
        let service = Service::start(&place)?;
        fresh.push(arrived(&place, "pollEvents", 1)?.duration_since(service.started()));
    }
    let place = Place::new("{}")?;
    let mut killed = Vec::new();
    for _ in 0..TIMES {
        let before = place.hooks.count("pollEvents");
        let mut service = Service::start(&place)?;
        killed.push(arrived(&place, "pollEvents", before + 1)?.duration_since(service.started()));
        service.kill();
    }
    Ok(vec![
        Row::new("start to first poll, first start, median", median(fresh), "50 ms"),
        Row::new("start to first poll, after kill -9, median", median(killed), "50 ms"),
    ])
}

/// Time from the event to the process, and from the result line to the message on the wire.
pub fn turns() -> Rows {
    let scenario =
        r#"{"turns": [{"steps": [{"do": [{"mark": "reached"}, {"hold": "go"}]}, {"text": "Seven."}]}]}"#;
    let place = Place::new(scenario)?;
    let service = Service::start(&place)?;
    service.said("serving")?;
    let (mut begun, mut answered) = (Vec::new(), Vec::new());
    for number in 1..=TIMES {
        let run = place.ask()?;
        let event = Instant::now();
        begun.push(service.said("turn_started")?.duration_since(event));
        answered.push(answer(&place, run, number)?);
        arrived(&place, "finishRun", number)?;
    }
    let probe = probe(&place)?;
    let bare = begun.iter().map(|time| time.saturating_sub(probe)).collect();
    Ok(vec![
        Row::new("event to the child's exec, median", median(begun), ""),
        Row::new("  the same without the probe of the stand-in", median(bare), "20 ms"),
        Row::new("result line to createMessage, median", median(answered), "5 ms"),
    ])
}

/// Lets the turn print its result and says how long the message took from there.
fn answer(place: &Place, run: Uuid, number: u64) -> Result<Duration, Failure> {
    let (reached, go) = (place.path("bin/reached"), place.path("bin/go"));
    until(|| reached.exists())?;
    let stream = recording(place, run)?;
    let watch = FileWatch::new(&stream).map_err(broken("no watch"))?;
    fs::write(&go, "").map_err(broken("no marker"))?;
    let result = printed(&stream, &watch)?;
    let message = arrived(place, "createMessage", number)?;
    for marker in [reached, go] {
        fs::remove_file(marker).map_err(broken("no marker"))?;
    }
    Ok(message.saturating_duration_since(result))
}

/// The recording of a run.
fn recording(place: &Place, run: Uuid) -> Result<PathBuf, Failure> {
    let sessions = fs::read_dir(place.path("s/sessions")).map_err(broken("no recording"))?;
    let mut all = sessions.flatten().map(|session| session.path().join(format!("{run}.stream.jsonl")));
    all.find(|path| path.exists()).ok_or_else(|| Failure::new("bench: no recording"))
}

/// When the result line was in the file.
fn printed(stream: &PathBuf, watch: &FileWatch) -> Result<Instant, Failure> {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        let at = Instant::now();
        let text = fs::read(stream).map_err(broken("no recording"))?;
        if text.windows(RESULT.len()).any(|window| window == RESULT) {
            return Ok(at);
        }
        let fd = std::os::fd::AsFd::as_fd(watch);
        wait(&[(fd, Interest::Read)], SOON).map_err(broken("no wait"))?;
        watch.drain();
    }
    Err(Failure::new("bench: the stand-in printed no result"))
}

/// How a result line of the stand-in can be told.
const RESULT: &[u8] = b"\"type\":\"result\"";

/// What the stand-in's own `auth status` takes, the middle of several.
fn probe(place: &Place) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let mut command = Command::new(place.path("bin/claude"));
        command.args(["auth", "status"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map_err(broken("no stand-in"))?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn until(check: impl Fn() -> bool) -> Result<(), Failure> {
    /// Between two looks; nothing of what is measured waits for it.
    const LOOK: Duration = Duration::from_millis(2);
    let end = Instant::now() + SOON;
    while !check() {
        if Instant::now() > end {
            return Err(Failure::new("bench: the stand-in never came to its place"));
        }
        super::rest(LOOK);
    }
    Ok(())
}
