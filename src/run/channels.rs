//! The cache of served channels and their bindings, shared by the main thread and the run threads.
//!
//! The main thread fills it; a run thread reads it in `prepare` and again before it stages an answer's files
//! (IN-9), and puts in what it loaded because an event named a newer version.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::sdk::wire::channel::{AgentChannelConfig, ChannelKind, ProjectBinding};

/// Channels by id.
#[derive(Default)]
pub struct ChannelCache(Mutex<BTreeMap<Uuid, AgentChannelConfig>>);

impl ChannelCache {
    /// Replaces everything.
    pub fn load(&self, channels: Vec<AgentChannelConfig>) {
        *self.lock() = channels.into_iter().map(|channel| (channel.channel_id, channel)).collect();
    }

    /// Replaces one channel, or forgets it (`None`: the server does not know it any more). A version older
    /// than the one held changes nothing.
    pub fn put(&self, channel_id: Uuid, channel: Option<AgentChannelConfig>) {
        let mut held = self.lock();
        match channel {
            None => {
                held.remove(&channel_id);
            }
            Some(new) => {
                let newer =
                    held.get(&channel_id).is_none_or(|old| old.settings_version <= new.settings_version);
                if newer {
                    held.insert(channel_id, new);
                }
            }
        }
    }

    /// One channel.
    pub fn get(&self, channel_id: Uuid) -> Option<AgentChannelConfig> {
        self.lock().get(&channel_id).cloned()
    }

    /// Every forum with a binding.
    pub fn bound(&self) -> Vec<(Uuid, ProjectBinding)> {
        let held = self.lock();
        held.values().filter_map(|channel| Some((channel.channel_id, binding(channel)?.clone()))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, AgentChannelConfig>> {
        // A panic of the other thread leaves a whole map behind: each change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The project binding of a channel; only forums have one.
pub fn binding(channel: &AgentChannelConfig) -> Option<&ProjectBinding> {
    match channel.kind {
        ChannelKind::Forum => channel.behavior.project_binding.as_ref(),
        ChannelKind::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::wire::channel::ChannelBehavior;

    fn channel(kind: ChannelKind, version: i64) -> AgentChannelConfig {
        let binding = ProjectBinding { workspace_ref: "website".into(), runner_config: None };
        AgentChannelConfig {
            channel_id: Uuid::from_u128(1),
            space_id: Uuid::from_u128(2),
            kind,
            name: "Projekt-A".into(),
            settings_version: version,
            behavior: ChannelBehavior { project_binding: Some(binding), ..ChannelBehavior::default() },
        }
    }

    #[test]
    fn only_forums_have_a_binding() {
        assert!(binding(&channel(ChannelKind::Forum, 1)).is_some());
        assert!(binding(&channel(ChannelKind::Text, 1)).is_none());
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let cache = ChannelCache::default();
        let id = Uuid::from_u128(1);
        cache.put(id, Some(channel(ChannelKind::Forum, 5)));
        cache.put(id, Some(channel(ChannelKind::Forum, 4)));
        assert_eq!(cache.get(id).map(|found| found.settings_version), Some(5));
        cache.put(id, None);
        assert!(cache.get(id).is_none() && cache.bound().is_empty());
    }
}
