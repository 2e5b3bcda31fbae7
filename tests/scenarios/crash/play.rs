//! What happens in a sweep's runs, and what must be true after them.

use std::path::Path;

use claude_code_runner::sdk::wire::person::RunDocument;
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
}

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
        Acted { thread, titles }
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
            Play::FilesOut => json!([
                {"do": (1..=3).map(|n| json!({"write": {"path": format!("{{{{tmpdir}}}}/f{n}.txt"), "content": format!("file {n}")}})).collect::<Vec<_>>()},
                {"text": "an answer\nATTACH: {{tmpdir}}/f1.txt\nATTACH: {{tmpdir}}/f2.txt\nATTACH: {{tmpdir}}/f3.txt"},
            ]),
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
            self.check_run(world, acted.thread, run, visit);
            nothing_lives(&world.state(), run.run_id, visit);
        }
        assert!(titles(world) - acted.titles <= 1, "{visit}: the title");
    }

    fn check_run(self, world: &World, thread: Uuid, run: &RunDocument, visit: &str) {
        let messages = world.server.operator().messages(thread).unwrap();
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
                let files = if self == Play::FilesOut { 3 } else { 0 };
                assert_eq!(answers[0].attachments.len(), files, "{visit}: files");
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
