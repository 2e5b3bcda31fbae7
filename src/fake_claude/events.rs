//! What can happen to a turn from outside: lines, the end of stdin, signals, marker files, ended children.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::Sender;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// One happening.
#[derive(Debug)]
pub(super) enum Event {
    /// A line of stdin, without its line feed.
    Line(Vec<u8>),
    /// stdin ended.
    Eof,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// A wait that a step started is over; its output.
    Done(String),
    /// A background task is over.
    TaskDone(String),
}

/// Sends every line of `input`, then its end. A line longer than `limit` is cut there.
pub(super) fn read_lines(input: impl Read + Send + 'static, limit: Option<usize>, events: Sender<Event>) {
    thread::spawn(move || {
        for line in BufReader::new(input).split(b'\n').map_while(Result::ok) {
            let cut = limit.map_or(line.len(), |limit| limit.min(line.len()));
            if events.send(Event::Line(line[..cut].to_vec())).is_err() {
                return;
            }
        }
        let _ = events.send(Event::Eof);
    });
}

/// Sends SIGINT and SIGTERM.
pub(super) fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGINT { Event::Interrupt } else { Event::Terminate };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Sends `event` as soon as `marker` exists; its directory must exist.
pub(super) fn when_exists(marker: PathBuf, event: Event, events: Sender<Event>) {
    thread::spawn(move || {
        if wait_for(&marker).is_some() {
            let _ = events.send(event);
        }
    });
}

/// Watches before it looks, so that a file made in between is not missed.
fn wait_for(marker: &Path) -> Option<()> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).ok()?;
    watch.add_watch(marker.parent()?, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO).ok()?;
    while !marker.exists() {
        watch.read_events().ok()?;
    }
    Some(())
}
