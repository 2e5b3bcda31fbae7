//! Many short runs with faults at random: descriptors, threads and memory of the runner stay as they are.
//!
//! Plainly run it takes a few; `scripts/soak` takes thousands. The seed is printed and can be given.

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::Problem;
use claude_code_runner::sdk::wire::run::RunState;
use serde_json::json;

use crate::support::runner_process::RunnerProcess;
use crate::support::wait::eventually;
use crate::support::world::{Setup, World};

/// Runs without `SOAK_RUNS`.
const FEW: u64 = 12;

/// Runs at once.
const AT_ONCE: usize = 4;

/// Runs before the first measure: pools and caches are filled by then.
const WARM_UP: u64 = 8;

/// How often the needs are shown on the way.
const PARTS: u64 = 8;

/// What one runner may grow by over all runs: descriptors and threads of runs at work, and a heap that breathes.
const MORE_FDS: usize = 24;
const MORE_THREADS: usize = 12;
const MORE_MEMORY_KIB: usize = 16 * 1024;

/// A small generator (xorshift), so that a seed gives the same faults everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Debug)]
struct Needs {
    fds: usize,
    threads: usize,
    memory_kib: usize,
}

fn needs(runner: &RunnerProcess) -> Needs {
    let process = std::path::Path::new("/proc").join(runner.pid().to_string());
    let entries = |name: &str| std::fs::read_dir(process.join(name)).map_or(0, Iterator::count);
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let memory =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    Needs { fds: entries("fd"), threads: entries("task"), memory_kib: memory.unwrap_or_default() }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn many_short_runs_leave_nothing_behind() {
    let (runs, seed) = (number("SOAK_RUNS", FEW), number("SOAK_SEED", 7).max(1));
    println!("soak: {runs} runs, seed {seed}");
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let setup = Setup {
        runner: vec![
            "max_parallel_runs = 4".into(),
            "stop_grace = \"500ms\"".into(),
            "kill_grace = \"200ms\"".into(),
        ],
        ..Setup::default()
    };
    let world = World::without_runner(setup);
    let mut runner = RunnerProcess::start(&world, None, None);
    let (mut done, mut first) = (0, None);
    while done < runs {
        let asked: Vec<_> = (0..AT_ONCE).map(|_| one(&world, &mut chance)).collect();
        for (thread, run, stopped) in asked {
            let found = world.ends(run);
            let answers = world.answer_texts(thread).len();
            match found.state {
                RunState::Completed => assert_eq!(answers, 1, "seed {seed}, run {done}"),
                RunState::Cancelled => assert!(stopped, "seed {seed}, run {done}"),
                other => panic!("seed {seed}, run {done}: {other:?} {:?}", found.reason),
            }
            done += 1;
        }
        world.hooks.clear();
        if done >= WARM_UP && first.is_none() {
            first = Some(needs(&runner));
        }
        if done % (runs / PARTS).max(1) < AT_ONCE as u64 {
            println!("soak: {:?} after {done} runs", needs(&runner));
        }
    }
    let first = first.unwrap_or_else(|| needs(&runner));
    println!("soak: {first:?} at first, {:?} at last", needs(&runner));
    eventually("descriptors, threads and memory are as before", || {
        let last = needs(&runner);
        let same = last.fds <= first.fds + MORE_FDS
            && last.threads <= first.threads + MORE_THREADS
            && last.memory_kib <= first.memory_kib + MORE_MEMORY_KIB;
        same.then_some(())
    });
    assert!(!runner.has_died() && runner.stop().success());
}

/// One run with a fault or a stop, or neither.
fn one(world: &World, chance: &mut Chance) -> (uuid::Uuid, uuid::Uuid, bool) {
    const OPERATIONS: [&str; 6] =
        ["getRunContext", "startRun", "patchRun", "reportAgentSession", "createMessage", "finishRun"];
    let operation = OPERATIONS[chance.below(6) as usize];
    match chance.below(5) {
        0 => world.hooks.next(operation, Fault::DoneThenCut),
        1 => world.hooks.next(operation, Fault::CutBefore),
        2 => world.hooks.next(operation, Fault::Refuse(Problem::new(503, "unavailable"), Some("0".into()))),
        _ => {}
    }
    let steps = match chance.below(3) {
        0 => json!([{"text": "an answer"}]),
        1 => {
            json!([{"tool": {"name": "Bash", "input": {}, "do": [{"shell": "true"}]}}, {"text": "an answer"}])
        }
        _ => json!([{"text": "part"}, {"text": "an answer"}]),
    };
    world.claude.steps(steps);
    let (thread, run) = world.asks("one");
    let stops = chance.below(8) == 0;
    if stops {
        world.person.stops_if_open(run);
    }
    (thread, run, stops)
}
