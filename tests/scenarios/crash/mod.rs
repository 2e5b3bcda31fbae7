//! The crash sweep: the runner is killed at every durable write and every request of a run, one after the
//! other, and started again; then one answer, one end, one title and one cost have to be there.
//!
//! The places are in the code (`sys::crash`); a first run without a crash lists them. Plainly run, the test
//! takes a fixed sample; `CRASH_SWEEP=all` takes every place (`scripts/crash-sweep`), and a place in it that one.

mod mortal;
mod play;

use std::collections::BTreeMap;

use crate::support::world::World;
use mortal::Mortal;
use play::Play;

/// Cases of the sample for each play.
const SAMPLE: usize = 8;

/// Requests that a timer makes: how often they come is chance, so only their first and last visit count.
const TIMED: [&str; 3] = ["/gateway/events", "/agents/me/heartbeat", "PATCH /api/v1/runs/*"];

#[test]
fn a_crash_anywhere_in_a_plain_run() {
    sweep(Play::Plain);
}

#[test]
fn a_crash_anywhere_in_a_run_with_a_follow_up() {
    sweep(Play::Followup);
}

#[test]
fn a_crash_anywhere_in_a_run_of_a_known_session() {
    sweep(Play::Resumed);
}

#[test]
fn a_crash_anywhere_in_a_run_with_files_that_come_in() {
    sweep(Play::FilesIn);
}

#[test]
fn a_crash_anywhere_in_a_run_with_three_files_that_go_out() {
    sweep(Play::FilesOut);
}

fn sweep(play: Play) {
    let mut world = World::without_runner(play::setup());
    let visits = chosen(visits(&mut world, play));
    println!("{play:?}: {} places", visits.len());
    let mut died = 0;
    for (number, visit) in visits.iter().enumerate() {
        println!("{play:?} {number}: {visit}");
        let mut runner = Mortal::start(&world, Some(visit), None);
        let acted = play.act(&world, number + 1, &mut runner);
        play.check(&world, &acted, visit, &mut runner);
        died += runner.restarts;
        runner.stop();
        play::nothing_is_held(&world, visit);
    }
    println!("{play:?}: {} places, {died} crashes", visits.len());
    assert!(died * 2 > visits.len(), "most places are reached again");
}

/// Every visit of a run without a crash, in order.
fn visits(world: &mut World, play: Play) -> Vec<String> {
    let list = world.dir.join("visits");
    let mut runner = Mortal::start(world, None, Some(&list));
    let acted = play.act(world, 0, &mut runner);
    play.check(world, &acted, "no crash", &mut runner);
    runner.stop();
    std::fs::read_to_string(list).unwrap().lines().map(str::to_owned).collect()
}

/// Without the visits of a timer between their first and last; all of the rest, or a sample.
fn chosen(visits: Vec<String>) -> Vec<String> {
    let place = |visit: &String| visit.rsplit_once('#').unwrap().0.to_owned();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for (at, visit) in visits.iter().enumerate() {
        last.insert(place(visit), at);
    }
    let kept = |at: usize, visit: &String| {
        let timed = TIMED.iter().any(|name| visit.contains(name));
        !timed || visit.ends_with("#1") || last[&place(visit)] == at
    };
    let all: Vec<String> = visits
        .iter()
        .enumerate()
        .filter(|(at, visit)| kept(*at, visit))
        .map(|(_, visit)| visit.clone())
        .collect();
    match std::env::var("CRASH_SWEEP").as_deref() {
        Ok("all") => return all,
        Ok(one) => return vec![one.to_owned()],
        Err(_) => {}
    }
    let step = all.len().div_ceil(SAMPLE).max(1);
    all.into_iter().skip(step / 2).step_by(step).collect()
}
