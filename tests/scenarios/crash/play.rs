//! What happens in a sweep's runs, and what must be true after them.

use std::path::Path;

use claude_code_runner::sdk::wire::person::{Message, RunDocument};
use claude_code_runner::sdk::wire::run::{AgentSession, FollowupState, RunState};
use claude_code_runner::sys::lock::FileLock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::mortal::Mortal;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// What a run is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    Plain,
    Followup,
    Resumed,
    FilesIn,
    FilesOut,
}

/// What was done.
pub struct Acted {
    thread: Uuid,
    /// Requests before it, so that only its own are counted.
    titles: usize,
    /// Upload sessions before it.
    uploads: usize,
}

/// What the turn of [`Play::FilesOut`] makes, in the order of its answer; the second needs three parts.
const FILES: [(&str, &str); 3] = [("f3.txt", "one"), ("f1.txt", "a file of parts"), ("f2.txt", "two")];

/// Length of a part while [`Play::FilesOut`] is played, bytes.
const PART: u64 = 6;

/// Costs of one turn of the stand-in, in millionths: what the first run without a crash has.
fn micros(run: &RunDocument) -> Option<u64> {
    run.costs.as_ref().map(|costs| costs.iter().map(|cost| cost.amount_micros as u64).sum())
}

/// A world with short graces.
pub fn setup() -> Setup {
    Setup { runner: vec!["stop_grace = \"2s\"".into(), "kill_grace = \"500ms\"".into()], ..Setup::default() }
}

impl Play {
    /// Lets a person do it, whatever becomes of the runner meanwhile.
    pub fn act(self, world: &World, number: usize, runner: &mut Mortal) -> Acted {
        world.claude.plays(&self.scenario(number));
        let thread = world.thread();
        let titles = titles(world);
        let uploads = world.server.operator().uploads().unwrap().len();
        if self == Play::FilesOut {
            world.server.operator().change_settings(|settings| settings.part_size_bytes = PART);
        }
        if self == Play::Resumed {
            let session =
                AgentSession { external_session_ref: Uuid::new_v4().to_string(), started: true, version: 1 };
            world.server.operator().set_session(thread, &session).unwrap();
        }
        let files = if self == Play::FilesIn {
            vec![world.person.uploads(world.channel(), "data.csv", b"a;b\n1;2\n")]
        } else {
            Vec::new()
        };
        let run = world.person.says_with(thread, "one", &files).run_id.unwrap();
        if self == Play::Followup {
            follow_up(world, thread, run, number, runner);
        }
        eventually("an end or a crash", || (all_ended(world, thread) || runner.has_died()).then_some(()));
        Acted { thread, titles, uploads }
    }

    fn scenario(self, number: usize) -> Value {
        let steps = match self {
            Play::Plain | Play::Resumed => json!([{"text": "an answer"}]),
            Play::Followup => json!([
                {"tool": {"name": "Bash", "input": {}, "do": [{"mark": format!("reached{number}")}, {"hold": format!("go{number}")}]}},
                {"text": "an answer"},
            ]),
            Play::FilesIn => {
                json!([{"do": [{"find": {"name": "data.csv", "below": "{{add_dir}}", "as": "data"}}]}, {"text": "an answer"}])
            }
            Play::FilesOut => {
                let path = |name: &str| format!("{{{{tmpdir}}}}/{name}");
                let write = FILES.map(|(name, text)| json!({"write": {"path": path(name), "content": text}}));
                let lines = FILES.map(|(name, _)| format!("\nATTACH: {}", path(name))).concat();
                json!([{"do": write}, {"text": format!("an answer{lines}")}])
            }
        };
        json!({"any_session": self == Play::Resumed, "turns": [{"title": "Numbers", "steps": steps}]})
    }

    /// Checks everything that must hold, once every run of the thread has ended.
    pub fn check(self, world: &World, acted: &Acted, visit: &str, runner: &mut Mortal) {
        eventually("every run has ended", || {
            runner.restart_if_dead(world);
            all_ended(world, acted.thread).then_some(())
        });
        // The last steps come after the server knows the end, and they may be the ones to die at.
        eventually("nothing is kept of ended runs", || {
            runner.restart_if_dead(world);
            let empty = |name: &str| std::fs::read_dir(world.state().join(name)).unwrap().next().is_none();
            (empty("turns") && empty("tmp") && empty("outgoing")).then_some(())
        });
        let runs = world.server.operator().runs(acted.thread).unwrap();
        for run in &runs {
            self.check_run(world, acted, run, visit);
            nothing_lives(&world.state(), run.run_id, visit);
        }
        assert!(titles(world) - acted.titles <= 1, "{visit}: the title");
    }

    fn check_run(self, world: &World, acted: &Acted, run: &RunDocument, visit: &str) {
        let messages = world.server.operator().messages(acted.thread).unwrap();
        let answers: Vec<_> = messages
            .iter()
            .filter(|message| {
                message.run_id == Some(run.run_id) && message.author.principal_id == world.server.agent_id()
            })
            .collect();
        match (run.state, run.reason.as_deref()) {
            (RunState::Completed, None) => {
                assert_eq!(answers.len(), 1, "{visit}: one answer");
                assert_eq!(answers[0].content_md, "an answer", "{visit}");
                self.check_files(world, acted, answers[0], visit);
                assert!(micros(run).is_none_or(|micros| micros == COST), "{visit}: {:?}", micros(run));
            }
            // Between the start and the process: nothing happened, and nothing is repeated.
            (RunState::Interrupted, Some("runner_restarted")) => {
                assert!(answers.is_empty(), "{visit}: no answer");
                assert_eq!(run.costs, None, "{visit}");
            }
            // Between the process and its first line: it left without a word.
            (RunState::Failed, Some("runtime_error")) => {
                let sentences: Vec<_> = answers.iter().map(|answer| answer.content_md.as_str()).collect();
                assert!(
                    sentences.len() == 1 && sentences[0].contains("without an answer"),
                    "{visit}: {sentences:?}"
                );
            }
            other => panic!("{visit}: {other:?}"),
        }
        for followup in &run.followups {
            assert!(
                !matches!(followup.state, None | Some(FollowupState::Delivered)),
                "{visit}: {followup:?}"
            );
        }
    }
}

impl Play {
    /// Every file came once, in one session of its own, in the order of the answer.
    fn check_files(self, world: &World, acted: &Acted, answer: &Message, visit: &str) {
        let files: &[(&str, &str)] = if self == Play::FilesOut { &FILES } else { &[] };
        let came = answer.attachments.iter().map(|file| {
            (file.name.clone(), String::from_utf8(world.person.downloads(file.file_id)).unwrap())
        });
        let announced = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        assert_eq!(came.collect::<Vec<_>>(), announced.collect::<Vec<_>>(), "{visit}: files");
        if self == Play::FilesOut {
            let sessions = world.server.operator().uploads().unwrap().split_off(acted.uploads);
            let sessions: Vec<_> =
                sessions.iter().map(|(_, name, phase)| (name.as_str(), phase.as_str())).collect();
            let whole: Vec<_> = files.iter().map(|(name, _)| (*name, "completed")).collect();
            assert_eq!(sessions, whole, "{visit}: one session for each file");
        }
    }
}

/// What a turn of the stand-in costs, in millionths.
const COST: u64 = 6_855;

fn follow_up(world: &World, thread: Uuid, run: Uuid, number: usize, runner: &mut Mortal) {
    let marker = format!("reached{number}");
    eventually("the tool, an end or a crash", || {
        (world.claude.reached(&marker) || runner.has_died()).then_some(())
    });
    runner.restart_if_dead(world);
    world.person.says(thread, "two");
    eventually("a state, an end or a crash", || {
        let found = world.person.run(run);
        let told = found.followups.iter().any(|followup| followup.state.is_some());
        (told || found.followups.is_empty() || found.state.is_final() || runner.has_died()).then_some(())
    });
    world.claude.release(&format!("go{number}"));
}

fn all_ended(world: &World, thread: Uuid) -> bool {
    world.server.operator().runs(thread).unwrap().iter().all(|run| run.state.is_final())
}

/// How often a title was set.
fn titles(world: &World) -> usize {
    world.hooks.requests_of("setThreadTitle").iter().filter(|request| request.status == Some(200)).count()
}

fn nothing_lives(state: &Path, run: Uuid, visit: &str) {
    let entry = format!("TMPDIR={}", state.join("tmp").join(run.to_string()).display());
    let lives = |process: &std::fs::DirEntry| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
    };
    let left: Vec<_> = std::fs::read_dir("/proc").unwrap().flatten().filter(lives).collect();
    assert!(left.is_empty(), "{visit}: {left:?}");
}

/// Every lock is free once the runner has stopped.
pub fn nothing_is_held(world: &World, visit: &str) {
    let mut locks: Vec<_> =
        std::fs::read_dir(world.state().join("locks")).unwrap().flatten().map(|it| it.path()).collect();
    locks.push(world.state().join("runner.lock"));
    for lock in locks {
        eventually(&format!("{visit}: {} is free", lock.display()), || FileLock::try_acquire(&lock).unwrap());
    }
}
