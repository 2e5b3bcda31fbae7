//! What all run threads and the main thread read: configuration, places, channels, the CLI's version.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use uuid::Uuid;

use super::channels::ChannelCache;
use super::mask::Mask;
use super::runtime::Runtime;
use super::state_dir::StateDir;
use super::workspace::Workspaces;
use crate::config::Config;
use crate::sdk::client::{Client, ClientSettings};

/// Most models whose context size is remembered; a host uses a handful.
const WINDOWS_MAX: usize = 64;

/// Read by every thread, changed by none but through its own locks.
pub struct Shared {
    /// The configuration.
    pub config: Config,
    /// The state directory.
    pub state: StateDir,
    /// Where workspace references lead.
    pub workspaces: Workspaces,
    /// The served channels.
    pub channels: ChannelCache,
    /// The CLI.
    pub runtime: Runtime,
    /// The client of which every thread forks its own.
    pub client: Client,
    /// The environment of the runner itself, from which a turn's allow list picks.
    pub environment: Vec<(OsString, OsString)>,
    agent_id: OnceLock<Uuid>,
    windows: Mutex<BTreeMap<String, u64>>,
}

impl Shared {
    /// Puts the parts together.
    pub fn new(
        config: Config,
        workspaces: Workspaces,
        environment: Vec<(OsString, OsString)>,
        client: Client,
    ) -> Shared {
        // From here on the log holds none of them.
        let _ = Mask::of_config(&config);
        let state = StateDir::new(&config.runner.state_dir);
        let runtime = Runtime::new(&config, &environment);
        let channels = ChannelCache::default();
        Shared {
            config,
            state,
            workspaces,
            channels,
            runtime,
            client,
            environment,
            agent_id: OnceLock::new(),
            windows: Mutex::default(),
        }
    }

    /// Keeps who this agent is, once the server has said so. The first one stays.
    pub fn set_agent_id(&self, agent_id: Uuid) {
        self.agent_id.get_or_init(|| agent_id);
    }

    /// Who this agent is, once known.
    pub fn agent_id(&self) -> Option<Uuid> {
        self.agent_id.get().copied()
    }

    /// Keeps the sizes of contexts that a run's results named, tokens by model: only results name them, and the next
    /// run wants to show its share before its first one.
    pub fn keep_context_windows(&self, windows: &[(String, u64)]) {
        let mut kept = self.windows();
        for (model, tokens) in windows {
            if kept.len() < WINDOWS_MAX || kept.contains_key(model) {
                kept.insert(model.clone(), *tokens);
            }
        }
    }

    /// The sizes of contexts that are known, tokens by model.
    pub fn context_windows(&self) -> Vec<(String, u64)> {
        self.windows().iter().map(|(model, tokens)| (model.clone(), *tokens)).collect()
    }

    fn windows(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // A panic of another thread leaves plain values behind, which stay usable.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The settings of the HTTP client in `config`.
pub fn client_settings(config: &Config) -> ClientSettings {
    ClientSettings {
        server_url: config.runner.server_url.clone(),
        token: config.runner.agent_token_ref.clone(),
        dpop_key: config.runner.dpop_key_ref.clone(),
        http_timeout: config.sdk.http_timeout,
        retry_max_attempts: config.sdk.retry_max_attempts,
        retry_max_delay: config.sdk.retry_max_delay,
        proxy: config.sdk.proxy.clone(),
        ca_file: config.sdk.ca_file.clone(),
    }
}

/// How many turns run at once: one where no other mode than personal is possible.
pub fn parallel_limit(config: &Config) -> usize {
    let runner = &config.runner;
    let only_personal = runner.allow_personal && runner.anthropic_api_key_ref.is_none();
    if only_personal { 1 } else { runner.max_parallel_runs as usize }
}
