//! The run table: which run threads exist, who has a slot, who waits behind whom.
//!
//! Plain state of the main thread; no clock, no network, no file.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use uuid::Uuid;

use crate::run::Command;
use crate::run::cancel::Cancel;
use crate::sdk::bound::TokenCell;
use crate::sdk::wire::Time;
use crate::sdk::wire::run::BillingMode;
use crate::sys::pipe::Waker;

/// What the main thread holds of one run thread.
pub struct RunHandle {
    /// Ends whatever the thread does.
    pub cancel: Arc<Cancel>,
    /// What the thread is told; wake it afterwards.
    pub commands: Sender<Command>,
    /// Wakes the thread.
    pub waker: Waker,
    /// The run's newest token.
    pub token: TokenCell,
    /// The thread itself, joined when it has ended.
    pub thread: JoinHandle<()>,
    /// When the thread began.
    pub since: Time,
    /// Its turn's process lives.
    pub turn_lives: bool,
    /// What it was last told of the runs ahead of it.
    pub ahead: Option<u64>,
}

impl RunHandle {
    /// Tells the run thread something and wakes it.
    pub fn tell(&self, command: Command) {
        // A thread that has ended reads nothing any more; its end is on its way to the main thread.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

/// The live run threads.
#[derive(Default)]
pub struct RunTable {
    runs: BTreeMap<Uuid, RunHandle>,
}

impl RunTable {
    /// Adds a thread.
    pub fn insert(&mut self, run_id: Uuid, handle: RunHandle) {
        self.runs.insert(run_id, handle);
    }

    /// The thread of a run.
    pub fn get(&self, run_id: Uuid) -> Option<&RunHandle> {
        self.runs.get(&run_id)
    }

    /// The thread of a run, to change what is known of it.
    pub fn get_mut(&mut self, run_id: Uuid) -> Option<&mut RunHandle> {
        self.runs.get_mut(&run_id)
    }

    /// Takes a thread out.
    pub fn remove(&mut self, run_id: Uuid) -> Option<RunHandle> {
        self.runs.remove(&run_id)
    }

    /// Every thread.
    pub fn iter(&self) -> impl Iterator<Item = (&Uuid, &RunHandle)> {
        self.runs.iter()
    }

    /// How many threads there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many turns live, for the heartbeat's `active_runs`.
    pub fn turns(&self) -> u64 {
        self.runs.values().filter(|handle| handle.turn_lives).count() as u64
    }
}

/// Slots for turns, given in the order of acceptance.
pub struct Slots {
    limit: usize,
    held: HashSet<Uuid>,
    /// Every run without a slot, the oldest first, whether it has asked yet or not.
    queue: VecDeque<Uuid>,
    asking: HashSet<Uuid>,
    /// Those of mode personal, and those whose mode is not known.
    personal: HashSet<Uuid>,
}

impl Slots {
    /// `limit` turns at once.
    pub fn new(limit: usize) -> Slots {
        let (held, asking, personal) = Default::default();
        Slots { limit, held, queue: VecDeque::new(), asking, personal }
    }

    /// A run exists and will ask; `mode` says who pays for it, where that is known.
    pub fn enter(&mut self, run_id: Uuid, mode: Option<BillingMode>) {
        if !self.held.contains(&run_id) && !self.queue.contains(&run_id) {
            self.queue.push_back(run_id);
            if mode != Some(BillingMode::Organization) {
                self.personal.insert(run_id);
            }
        }
    }

    /// A run whose turn lives already needs no asking: an adopted one.
    pub fn hold(&mut self, run_id: Uuid) {
        self.forget_waiting(run_id);
        self.held.insert(run_id);
    }

    /// A run has its locks and asks.
    pub fn ask(&mut self, run_id: Uuid) {
        self.enter(run_id, None);
        self.asking.insert(run_id);
    }

    /// A run has ended or gave up.
    pub fn leave(&mut self, run_id: Uuid) {
        self.held.remove(&run_id);
        self.personal.remove(&run_id);
        self.forget_waiting(run_id);
    }

    /// How many turns may live at once.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Gives free slots to those who ask, the oldest first, and names them. Mode personal has one turn at a time,
    /// because parallel turns of one login log each other out.
    pub fn grant(&mut self) -> Vec<Uuid> {
        let mut granted = Vec::new();
        while self.held.len() < self.limit {
            let Some(run_id) = self.queue.iter().copied().find(|run_id| self.may_have(run_id)) else { break };
            self.hold(run_id);
            granted.push(run_id);
        }
        granted
    }

    fn may_have(&self, run_id: &Uuid) -> bool {
        let login_is_free = !self.personal.contains(run_id) || self.held.is_disjoint(&self.personal);
        self.asking.contains(run_id) && login_is_free
    }

    /// Every waiting run with the number of runs ahead of it: those that work and those that came earlier.
    pub fn ahead(&self) -> impl Iterator<Item = (Uuid, u64)> + '_ {
        let working = self.held.len();
        self.queue.iter().enumerate().map(move |(place, run_id)| (*run_id, (working + place) as u64))
    }

    fn forget_waiting(&mut self, run_id: Uuid) {
        self.queue.retain(|waiting| *waiting != run_id);
        self.asking.remove(&run_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn slots_are_given_in_order_to_those_who_ask() {
        let mut slots = Slots::new(2);
        for number in 1..=4 {
            slots.enter(run(number), Some(BillingMode::Organization));
        }
        assert_eq!(slots.grant(), Vec::<Uuid>::new(), "nobody has its locks yet");
        slots.ask(run(3));
        slots.ask(run(2));
        assert_eq!(slots.grant(), [run(2), run(3)]);
        slots.ask(run(1));
        assert_eq!(slots.grant(), Vec::<Uuid>::new(), "never more than the limit");
        assert_eq!(slots.ahead().collect::<Vec<_>>(), [(run(1), 2), (run(4), 3)]);
        slots.leave(run(2));
        assert_eq!(slots.grant(), [run(1)]);
    }

    /// whatever the limit, while turns of an organization's key go on beside.
    #[test]
    fn turns_of_mode_personal_are_given_one_after_the_other() {
        let mut slots = Slots::new(3);
        for number in 1..=4 {
            let mode = if number == 3 { BillingMode::Organization } else { BillingMode::Personal };
            slots.enter(run(number), Some(mode));
            slots.ask(run(number));
        }
        assert_eq!(slots.grant(), [run(1), run(3)]);
        slots.leave(run(3));
        assert_eq!(slots.grant(), Vec::<Uuid>::new());
        slots.leave(run(1));
        assert_eq!(slots.grant(), [run(2)]);
    }

    /// One whose inbox was lost may be of either mode.
    #[test]
    fn a_turn_of_unknown_mode_counts_as_personal() {
        let mut slots = Slots::new(3);
        slots.enter(run(1), None);
        slots.hold(run(1));
        slots.enter(run(2), Some(BillingMode::Personal));
        slots.ask(run(2));
        assert!(slots.grant().is_empty());
    }

    #[test]
    fn an_adopted_turn_holds_a_slot_even_above_the_limit() {
        let mut slots = Slots::new(1);
        slots.hold(run(1));
        slots.hold(run(2));
        slots.ask(run(3));
        assert!(slots.grant().is_empty());
        slots.leave(run(1));
        assert!(slots.grant().is_empty());
        slots.leave(run(2));
        assert_eq!(slots.grant(), [run(3)]);
    }
}
