//! Plays a turn: reads lines, prints records, does the scenario's work.
//!
//! The order of records is that of the recordings: lifecycle, init, the echo with the first answer, steps, the
//! result, lifecycle. Lines that arrive while a tool works join its turn; others get a turn of their own.

mod idle;
mod turn;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender};
use serde_json::{Value, json};

use super::args::TurnCall;
use super::capture::Capture;
use super::events::{self, Event};
use super::scenario::{Background, Scenario};
use super::session::{Counts, Session};
use super::shapes::Ids;
use super::template::Values;
use super::{auth, shapes};

/// Exit code after SIGTERM, as the real CLI gives it.
const TERMINATED: u8 = 143;

/// Begins the complaint about a line that is no JSON.
const COMPLAINT: &str = "Error parsing streaming input line";

/// The system prompt asks for a title when it holds this.
const TITLE_REQUEST: &str = "`TITLE: `";

/// Why playing stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// The process ends with this code.
    Exit(u8),
    /// The turn was interrupted; whether the process stays.
    Interrupted { stays: bool },
}

/// The surroundings of the process.
#[derive(Clone, Debug, Default)]
struct Stage {
    /// Directory of the scenario file.
    here: PathBuf,
    cwd: PathBuf,
    config_dir: PathBuf,
    /// This program, to make sessions for shells.
    helper: Option<PathBuf>,
    title_wanted: bool,
    key_source: String,
    /// Number of this call among the `-p` calls, from 1.
    nth: usize,
}

/// One user line.
#[derive(Clone, Debug)]
struct UserLine {
    uuid: String,
    content: Value,
}

/// A process that plays.
struct Player<'a, W> {
    out: W,
    ids: Ids,
    call: &'a TurnCall,
    stage: Stage,
    scenario: Scenario,
    capture: &'a Capture,
    events: Receiver<Event>,
    sender: Sender<Event>,
    values: Values,
    session: Session,
    /// Lines of this process, by id.
    known: BTreeSet<String>,
    queue: VecDeque<UserLine>,
    /// Background tasks that run, and the ids of those that ended.
    tasks: Vec<Background>,
    ended: VecDeque<String>,
    /// Usage of this process.
    used: BTreeMap<String, Counts>,
    results: usize,
    lines: usize,
    eof: bool,
    last_error: bool,
    in_turn: bool,
    /// The shell a step waits for.
    child: Option<i32>,
}

/// Runs `-p` and gives the exit code.
pub(super) fn run(
    program: &Path,
    call: &TurnCall,
    scenario: Scenario,
    capture: &Capture,
    arguments: &[String],
) -> u8 {
    let prompt = match call.system_prompt_file.as_ref().map(|path| (path, std::fs::read_to_string(path))) {
        Some((path, Err(_))) => {
            let _ = writeln!(std::io::stderr(), "Error: Append system prompt file not found: {path}");
            return 1;
        }
        Some((_, Ok(text))) => Some(text),
        None => None,
    };
    let nth = capture.call("turn", arguments, prompt.as_deref());
    let (sender, events) = crossbeam_channel::unbounded();
    if events::watch_signals(sender.clone()).is_err() {
        return 1;
    }
    let stage = Stage {
        here: program.parent().map(Path::to_path_buf).unwrap_or_default(),
        cwd: std::env::current_dir().unwrap_or_default(),
        config_dir: auth::config_dir(),
        helper: std::env::current_exe().ok(),
        title_wanted: prompt.is_some_and(|text| text.contains(TITLE_REQUEST)),
        key_source: if auth::has_key() { "ANTHROPIC_API_KEY".to_owned() } else { "none".to_owned() },
        nth,
    };
    let limit = scenario.max_stdin_line;
    let lines = sender.clone();
    let mut player = Player::new(std::io::stdout(), call, stage, scenario, capture, (sender, events));
    player.values.set("tmpdir", std::env::var("TMPDIR").unwrap_or_else(|_| "/tmp".to_owned()));
    if let Some(code) = player.refused_session() {
        return code;
    }
    events::read_lines(std::io::stdin(), limit, lines);
    let code = player.play();
    capture.add(&json!({"kind": "end", "pid": std::process::id(), "code": code}));
    code
}

impl<'a, W: Write> Player<'a, W> {
    fn new(
        out: W,
        call: &'a TurnCall,
        stage: Stage,
        scenario: Scenario,
        capture: &'a Capture,
        channel: (Sender<Event>, Receiver<Event>),
    ) -> Self {
        let session_id = scenario.other_session.clone().unwrap_or_else(|| call.session.clone());
        let (session, _) = Session::open(&stage.config_dir, &session_id);
        let mut values = Values::default();
        values.set("session", &session_id);
        values.set("model", &call.model);
        values.set("cwd", stage.cwd.to_string_lossy());
        values.set("here", stage.here.to_string_lossy());
        values.set("add_dir", call.add_dir.clone().unwrap_or_default());
        Player {
            out,
            ids: Ids { session: session_id, model: call.model.clone() },
            call,
            stage,
            scenario,
            capture,
            sender: channel.0,
            events: channel.1,
            values,
            session,
            known: BTreeSet::new(),
            queue: VecDeque::new(),
            tasks: Vec::new(),
            ended: VecDeque::new(),
            used: BTreeMap::new(),
            results: 0,
            lines: 0,
            eof: false,
            last_error: false,
            in_turn: false,
            child: None,
        }
    }

    /// An unknown session to resume, or a known one to create, ends the process before it reads stdin.
    fn refused_session(&mut self) -> Option<u8> {
        let (_, exists) = Session::open(&self.stage.config_dir, &self.call.session);
        let id = &self.call.session;
        if !self.call.resume && exists {
            let _ = writeln!(std::io::stderr(), "Error: Session ID {id} is already in use.");
            return Some(1);
        }
        if self.call.resume && !exists && !self.scenario.any_session {
            let text = format!("No conversation found with session ID: {id}");
            let _ = writeln!(std::io::stderr(), "{text}");
            let members = json!({"subtype": "error_during_execution", "is_error": true, "errors": [text], "num_turns": 0, "stop_reason": null});
            let none = BTreeMap::new();
            let usage = shapes::Usage { shown: &none, turn: &none, with_difference: false };
            let mut record = self.ids.result(0, &usage, &[], members);
            if let Some(members) = record.as_object_mut() {
                members.remove("terminal_reason");
            }
            self.emit(&record);
            return Some(1);
        }
        None
    }

    /// Prints one record at once.
    fn emit(&mut self, record: &Value) {
        self.print(&format!("{record}\n"));
    }

    fn print(&mut self, text: &str) {
        // The real CLI does not end on a closed stdout either; the reader's loss shows in its recording.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    fn path(&self, text: &str) -> PathBuf {
        self.stage.cwd.join(self.values.fill(text))
    }

    fn marker(&self, text: &str) -> PathBuf {
        self.stage.here.join(self.values.fill(text))
    }
}

#[cfg(test)]
mod tests;
