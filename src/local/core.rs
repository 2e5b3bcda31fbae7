//! What every connection shares: the data, the keys, the clocks. Holds state, decides nothing.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::blobs::Blobs;
use super::dpop;
use super::fail::Fail;
use super::hooks::Hooks;
use super::lock;
use super::notifier::Notifier;
use super::secrets::Sessions;
use super::settings::Settings;
use super::store::identity::InstanceRow;
use super::store::{Store, Tx};
use super::tokens::ServerKey;
use crate::sdk::wire::heartbeat::{AgentState, Heartbeat};

/// The shared state of one server.
pub struct Core {
    /// The database.
    pub store: Store,
    /// The bytes of files.
    pub blobs: Blobs,
    /// Wakes long polls.
    pub notifier: Notifier,
    /// Asked before and after each operation.
    pub hooks: Hooks,
    /// Ids made on first use.
    pub instance: InstanceRow,
    /// Where the server listens.
    pub address: SocketAddr,
    /// What authorises the person, new at every start.
    pub person_secret: String,
    /// Sessions of the page.
    pub sessions: Sessions,
    /// Published signing keys, the newest last.
    pub keys: Mutex<Vec<ServerKey>>,
    /// The newest poll of each agent and consumer.
    pub polls: Mutex<HashMap<(Uuid, String), u64>>,
    /// Proofs of possession that were used.
    pub proofs: dpop::Used,
    /// Held while a file gets or loses its place among the whole ones.
    pub keeping: Mutex<()>,
    /// The runner as it last showed itself.
    pub runner: Mutex<RunnerSeen>,
    settings: Mutex<Settings>,
    in_progress: Mutex<HashSet<(Uuid, Uuid)>>,
    stopping: AtomicBool,
}

/// The runner as it last showed itself.
pub struct RunnerSeen {
    /// The last heartbeat and when it came.
    pub heartbeat: Option<(Heartbeat, Instant)>,
    /// When the agent last asked for anything; the start of the server before that.
    pub last: Instant,
}

/// What a core is made of.
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The bytes of files.
    pub blobs: Blobs,
    /// Asked before and after each operation.
    pub hooks: Hooks,
    /// Ids made on first use.
    pub instance: InstanceRow,
    /// Where the server listens.
    pub address: SocketAddr,
    /// What authorises the person.
    pub person_secret: String,
    /// Published signing keys.
    pub keys: Vec<ServerKey>,
    /// Limits and times.
    pub settings: Settings,
}

impl Core {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Core {
        Core {
            store: parts.store,
            blobs: parts.blobs,
            notifier: Notifier::default(),
            hooks: parts.hooks,
            instance: parts.instance,
            address: parts.address,
            person_secret: parts.person_secret,
            sessions: Sessions::default(),
            keys: Mutex::new(parts.keys),
            polls: Mutex::default(),
            proofs: dpop::Used::default(),
            keeping: Mutex::default(),
            runner: Mutex::new(RunnerSeen { heartbeat: None, last: Instant::now() }),
            settings: Mutex::new(parts.settings),
            in_progress: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// The present limits and times.
    pub fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    /// Changes the limits and times.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut lock(&self.settings));
    }

    /// Changes the data in one transaction and wakes everybody who waits for changes.
    pub fn write<T>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T, Fail>) -> Result<T, Fail> {
        let done = self.store.write(work)?;
        self.notifier.notify();
        Ok(done)
    }

    /// Whether the server is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends every wait.
    pub fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.hooks.release_all();
        self.notifier.notify();
    }

    /// The agent has asked for something.
    pub fn saw_agent(&self) {
        lock(&self.runner).last = Instant::now();
    }

    /// How long the agent has been silent.
    pub fn silence(&self) -> Duration {
        lock(&self.runner).last.elapsed()
    }

    /// Whether the runner last said that a project is ready, and said it lately.
    pub fn is_ready(&self, channel_id: Uuid) -> bool {
        let believed = self.settings().heartbeat_interval * 3;
        lock(&self.runner).heartbeat.as_ref().is_some_and(|(heartbeat, at)| {
            let ready =
                heartbeat.project_readiness.iter().any(|row| row.channel_id == channel_id && row.ready);
            ready && at.elapsed() <= believed && heartbeat.state != AgentState::Stopping
        })
    }

    /// Takes an idempotency key; `None` while another request with it is at work.
    pub fn take_key(&self, principal: Uuid, key: Uuid) -> Option<KeyTaken<'_>> {
        let taken = lock(&self.in_progress).insert((principal, key));
        taken.then_some(KeyTaken { core: self, entry: (principal, key) })
    }
}

/// An idempotency key at work; free again when dropped.
pub struct KeyTaken<'a> {
    core: &'a Core,
    entry: (Uuid, Uuid),
}

impl Drop for KeyTaken<'_> {
    fn drop(&mut self) {
        lock(&self.core.in_progress).remove(&self.entry);
    }
}
