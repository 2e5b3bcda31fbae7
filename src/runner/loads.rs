//! Which channels are being loaded, so that a flood of changes of one channel costs two requests and not one each.
//!
//! It sends nothing itself.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

/// The loads that have been asked for and not yet answered.
#[derive(Debug, Default)]
pub struct ChannelLoads {
    /// Whether the channel changed again since its load was asked for.
    open: HashMap<Uuid, bool>,
    /// Channels whose last load failed.
    failed: HashSet<Uuid>,
}

impl ChannelLoads {
    /// Notes a change of channel `id`. Whether it has to be loaded now; otherwise the open load is followed by another.
    pub fn changed(&mut self, id: Uuid) -> bool {
        self.failed.remove(&id);
        let is_first = !self.open.contains_key(&id);
        self.open.insert(id, !is_first);
        is_first
    }

    /// Notes that the load of channel `id` was answered, or failed. Whether it has to be loaded once more, because
    /// a change came while it was under way: the answer may be older than that change.
    pub fn answered(&mut self, id: Uuid) -> bool {
        let again = self.open.remove(&id) == Some(true);
        again && self.changed(id)
    }

    /// Notes that the load of channel `id` failed, unless another one is under way.
    pub fn failed(&mut self, id: Uuid) {
        if !self.open.contains_key(&id) {
            self.failed.insert(id);
        }
    }

    /// The channels that have to be loaded once more because their load failed.
    pub fn again(&mut self) -> Vec<Uuid> {
        let failed = std::mem::take(&mut self.failed);
        failed.into_iter().filter(|id| self.changed(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_load_is_made_again_unless_another_one_is_under_way() {
        let one = Uuid::from_u128(1);
        let mut loads = ChannelLoads::default();
        assert!(loads.changed(one) && !loads.answered(one));
        loads.failed(one);
        assert_eq!(loads.again(), [one]);
        assert!(loads.again().is_empty() && !loads.changed(one), "it is under way");
        assert!(loads.answered(one));
        loads.failed(one);
        assert!(loads.again().is_empty(), "the next one is");
    }

    #[test]
    fn changes_of_one_channel_are_loaded_together_and_none_is_missed() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut loads = ChannelLoads::default();
        assert!(loads.changed(one));
        assert!(!loads.changed(one));
        assert!(!loads.changed(one));
        assert!(loads.changed(other), "channels do not wait for each other");
        assert!(loads.answered(one), "a change came meanwhile");
        assert!(!loads.answered(one), "nothing came since");
        assert!(!loads.answered(other));
        assert!(loads.changed(one), "the next change is loaded at once");
    }
}
