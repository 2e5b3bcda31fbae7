//! One turn: a process is followed until it has ended and everything it printed is read.
//!
//! [`follow`] is a loop of named steps; each step looks, acts once and never blocks but for the files of a message or
//! an answer, which a cancel ends; every other request is made beside it ([`post`]). The loop sleeps in one `poll` over the stream, the process, its stdin and the
//! wake-up of the run thread.

pub mod ladder;
mod limits;
mod outcome;
pub mod post;
pub mod process;
mod read;
pub mod replay;
mod session;
mod stdin;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::end::{Cause, End};
use super::live_box::LiveBox;
use super::prepare::Prepared;
use super::record::{LineRecord, Purpose};
use super::state_dir::ProcessFiles;
use super::{Command, Run, finish, followup, inbox_files};
use crate::claude::argv::TurnArgs;
use crate::claude::environment::TurnEnv;
use crate::claude::message::Repeats;
use crate::claude::progress::{self, Progress};
use crate::claude::stream::LineReader;
use crate::claude::usage::Usage;
use crate::sdk::context::{Boundary, render_followup};
use crate::sdk::wire::Time;
use crate::sdk::wire::event::AgentFollowup;
use crate::sdk::wire::run::FollowupState;
use crate::sys::notify::FileWatch;
use crate::sys::private;
use crate::sys::wait::{self, Interest};

use process::Live;

/// A turn that is followed.
pub struct Turn {
    /// Number of the process that is read now, from one.
    pub(super) process: u32,
    pub(super) stream: Stream,
    /// The requests that are made beside the turn.
    pub(super) post: post::Post,
    pub(super) progress: Progress,
    pub(super) usage: Usage,
    pub(super) live_box: LiveBox,
    /// What another process of the run would be started with; `None` for an adopted turn.
    pub(super) again: Option<Again>,
    /// The end is decided and the process must go.
    pub(super) decided: Option<End>,
    /// The title of the first answer, proposed once the run has completed.
    pub(super) title: Option<String>,
    pub(super) clock: limits::Clock,
    /// The CLI was asked to make room once.
    pub(super) compacted: bool,
    /// The lines that are sent again once there is room.
    pub(super) to_repeat: Vec<String>,
    /// How the process ended, once it has.
    pub(super) exit: Option<process::Ended>,
    /// Another process was started for a session that the CLI knew otherwise.
    pub(super) restarted: bool,
}

/// The recording of one process.
pub struct Stream {
    file: File,
    reader: LineReader,
    repeats: Repeats,
    /// Tells that the file has grown, where the system can; `runner.poll_interval` is the upper bound.
    watch: Option<FileWatch>,
}

/// What another process of the run is started with.
pub struct Again {
    pub(super) args: TurnArgs,
    pub(super) environment: TurnEnv,
    /// The texts of the first line, to be sent again under a new uuid.
    pub(super) first_texts: Vec<String>,
}

impl Stream {
    /// Opens the recording at `path` from its start.
    pub fn open(path: &Path, line_limit: u64) -> std::io::Result<Stream> {
        let file = File::open(path)?;
        // Without a watch the poll interval is enough.
        let watch = FileWatch::new(path).ok();
        Ok(Stream { file, reader: LineReader::new(line_limit), repeats: Repeats::default(), watch })
    }
}

impl Turn {
    /// A turn whose first process is read from the start.
    pub(super) fn new(run: &Run, stream: Stream, title_wanted: bool, begun: Time) -> Turn {
        let mut live_box = LiveBox::new(run.run_id, title_wanted);
        for (model, tokens) in run.shared.context_windows() {
            live_box.know_context_window(&model, tokens);
        }
        Turn {
            process: 1,
            stream,
            post: post::Post::default(),
            progress: Progress::new(),
            usage: Usage::new(),
            live_box,
            again: None,
            decided: None,
            title: None,
            clock: limits::Clock::begin(begun),
            compacted: false,
            to_repeat: Vec::new(),
            exit: None,
            restarted: false,
        }
    }
}

/// Writes the files of the turn, starts its process and sends it the first line.
///
/// # Errors
/// The end of a run whose process does not come to be.
pub fn begin(run: &mut Run, prepared: Prepared, first: Uuid) -> Result<Turn, End> {
    let files = run.shared.state.process(run.run_id, prepared.args.session.id(), 1);
    let system_prompt = prepared.system_prompt.as_bytes();
    crate::sys::atomic_file::write(&files.system_prompt, system_prompt)
        .map_err(|fault| run.end_of_file(&fault))?;
    // The stream's file exists before the process, so that it can be opened whatever the process does.
    private::open_append(&files.stream).map_err(|fault| run.end_of_file(&fault))?;
    let stream = open_stream(run, &files.stream)?;
    launch(run, &prepared.args, &prepared.environment, &files)?;
    let mut turn = Turn::new(run, stream, prepared.title_wanted, Time::now());
    let first_texts = vec![prepared.prompt.system_part, prepared.prompt.trigger_part];
    turn.again = Some(Again { args: prepared.args, environment: prepared.environment, first_texts });
    turn.progress.sent(&first.to_string(), progress::Purpose::First);
    stdin::send_first(run, &turn, first)?;
    Ok(turn)
}

/// Starts a process of the turn and keeps it in the run.
///
/// # Errors
/// As [`Live::spawn`].
pub(super) fn launch(
    run: &mut Run,
    args: &TurnArgs,
    environment: &TurnEnv,
    files: &ProcessFiles,
) -> Result<(), End> {
    let live = Live::spawn(run, args, environment, files)?;
    run.leftovers_since = Some(live.start_time());
    run.live = Some(live);
    Ok(())
}

/// Opens the recording of a process.
pub(super) fn open_stream(run: &Run, path: &Path) -> Result<Stream, End> {
    Stream::open(path, run.shared.config.runner.stream_line_limit).map_err(|fault| run.end_of_file(&fault))
}

/// Follows the turn to its end.
///
/// # Errors
/// The end of a run that did not end by itself; its process is gone then, unless the runner stops.
pub fn follow(run: &mut Run, mut turn: Turn) -> Result<End, End> {
    let end = match steps(run, &mut turn) {
        Ok(end) => end,
        Err(end) if end.cause == Cause::Detached => return Err(end),
        Err(end) => {
            ladder::end_turn(run, &mut turn)?;
            end
        }
    };
    let end = match post::close(run, &mut turn) {
        Err(other) if finish::takes_its_place(&other, &end) => other,
        Ok(()) | Err(_) => end,
    };
    outcome::settle(run, &mut turn, &end)?;
    Ok(end)
}

fn steps(run: &mut Run, turn: &mut Turn) -> Result<End, End> {
    loop {
        run.check_cancel()?;
        // Tokens are renewed while a turn works.
        run.mask.add(&run.token.newest());
        let grew = read::read(run, turn)?;
        hear(run, turn)?;
        stdin::tend(run, turn)?;
        limits::look(run, turn);
        if let Some(end) = turn.decided.take() {
            return Err(end);
        }
        let next_request = post::tend(run, turn)?;
        if run.document.run_ended() {
            return Err(End::by(Cause::ServerEnded));
        }
        if !grew && let Some(end) = ended(run, turn)? {
            return Ok(end);
        }
        if !grew {
            sleep(run, turn, next_request)?;
        }
    }
}

/// The run's end when the process has ended and nothing of its stream is unread.
fn ended(run: &mut Run, turn: &mut Turn) -> Result<Option<End>, End> {
    let exit = match &run.live {
        None => process::Ended::Unknown,
        Some(live) => match live.ended() {
            Ok(None) => return Ok(None),
            Ok(Some(exit)) => exit,
            Err(fault) => return Err(run.end_of_file(&fault)),
        },
    };
    // What was printed between the last look and the exit.
    if read::read(run, turn)? {
        return Ok(None);
    }
    if replay::next_recording(run, turn)? {
        return Ok(None);
    }
    ladder::clear_away(run);
    read::rest(run, turn);
    outcome::after_exit(run, turn, exit)
}

/// Answers what the main thread says.
fn hear(run: &mut Run, turn: &mut Turn) -> Result<(), End> {
    while let Ok(command) = run.commands.try_recv() {
        match command {
            Command::Followup(message) => take_followup(run, turn, &message)?,
            Command::Slot | Command::Ahead(_) => {}
        }
    }
    Ok(())
}

/// Writes a follow-up to the process, or refuses it when the process cannot take it.
fn take_followup(run: &mut Run, turn: &mut Turn, followup: &AgentFollowup) -> Result<(), End> {
    let id = followup.followup_id;
    // The process has it already, whether it takes more or not: its event came once more.
    let known = run
        .record
        .as_ref()
        .is_some_and(|record| record.get().lines.iter().any(|line| line.purpose == Purpose::Followup(id)));
    if known {
        return Ok(());
    }
    let open = run.live.as_mut().is_some_and(|live| live.stdin().is_some());
    if !open {
        return followup::settle(run, id, FollowupState::Refused);
    }
    let files = inbox_files::fetch(run, &followup.message)?;
    let rendered = render_followup(&followup.message, Boundary::random(), &files);
    let line = LineRecord {
        uuid: Uuid::new_v4(),
        process: turn.process,
        purpose: Purpose::Followup(id),
        replaces: None,
    };
    turn.progress.sent(&line.uuid.to_string(), progress::Purpose::Followup(id.to_string()));
    stdin::send(run, line, &[&rendered.system_part, &rendered.trigger_part])
}

/// Waits for the stream, the process, its stdin, a command, or the next thing that is due.
fn sleep(run: &Run, turn: &Turn, next_request: Option<Duration>) -> Result<(), End> {
    let poll_interval = run.shared.config.runner.poll_interval;
    let timeout = next_request.map_or(poll_interval, |next| next.min(poll_interval));
    let mut fds = vec![(run.wakeup_fd(), Interest::Read)];
    fds.extend(turn.stream.watch.as_ref().map(|watch| (watch.as_fd(), Interest::Read)));
    if let Some(live) = &run.live {
        fds.push((live.as_fd(), Interest::Read));
        fds.extend(live.blocked_stdin().map(|stdin| (stdin, Interest::Write)));
    }
    wait::wait(&fds, timeout).map_err(|fault| run.end_of_file(&fault))?;
    run.wakeup.drain();
    if let Some(watch) = &turn.stream.watch {
        watch.drain();
    }
    Ok(())
}
