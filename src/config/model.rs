//! The checked configuration: fields named like the keys, values in their own types.
//!
//! Must not know the file it came from. What reached these types has passed every check.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;
use uuid::Uuid;

use super::secret::SecretRef;
use super::turn_env::TurnEnvValue;
use crate::sdk::wire::run::ToolClass;

/// The whole configuration. What each field means stands in [`super::keys::KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Section `runner`.
    pub runner: RunnerConfig,
    /// Section `adapter`.
    pub adapter: AdapterConfig,
    /// Section `agent`.
    pub agent: AgentConfig,
    /// Section `sdk`.
    pub sdk: SdkConfig,
    /// Section `log`.
    pub log: LogConfig,
}

/// Section `runner`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerConfig {
    /// Base URL without a trailing slash.
    pub server_url: String,
    /// Expected issuer.
    pub instance_id: Uuid,
    /// Agent token.
    pub agent_token_ref: SecretRef,
    /// DPoP key.
    pub dpop_key_ref: Option<SecretRef>,
    /// Consumer name.
    pub consumer: String,
    /// Where the projects live; from [`super::load`] an existing directory.
    pub projects_root: PathBuf,
    /// The runner's own files; from [`super::load`] an existing private directory.
    pub state_dir: PathBuf,
    /// Program name or absolute path.
    pub claude_bin: String,
    /// Model without a binding's.
    pub default_model: String,
    /// Configured class.
    pub tool_class: ToolClass,
    /// Rules of class scoped.
    pub scoped_allowed_tools: Vec<String>,
    /// Tools a read-only binding takes away.
    pub write_tools: Vec<String>,
    /// Key of mode organization.
    pub anthropic_api_key_ref: Option<SecretRef>,
    /// Mode personal allowed.
    pub allow_personal: bool,
    /// Pass SSH_AUTH_SOCK.
    pub forward_ssh_agent: bool,
    /// Extra variables of a turn.
    pub turn_env: BTreeMap<String, TurnEnvValue>,
    /// Turns at once, at least one.
    pub max_parallel_runs: u32,
    /// Longest wait for locks.
    pub session_lock_wait: Duration,
    /// Stdin stays open after a result.
    pub followup_grace: Duration,
    /// SIGINT to SIGTERM.
    pub stop_grace: Duration,
    /// SIGTERM to SIGKILL.
    pub kill_grace: Duration,
    /// Wait for background work.
    pub background_wait: Duration,
    /// Longest turn.
    pub turn_time_limit: Duration,
    /// Longest silence of a turn.
    pub turn_silence_limit: Duration,
    /// Decimal text of the budget.
    pub max_budget_usd: Option<String>,
    /// Workspace refs whose settings may load.
    pub trusted_projects: Vec<String>,
    /// Longest stream line in bytes.
    pub stream_line_limit: u64,
    /// Limit of a CLI probe.
    pub cli_probe_timeout: Duration,
    /// How often to look.
    pub poll_interval: Duration,
    /// Age of what is swept.
    pub stream_log_retention: Duration,
    /// Names out of [`super::ROOT_NAMES`].
    pub attach_allowed_roots: Vec<String>,
    /// Patterns, the mandatory ones included.
    pub attach_denied_patterns: Vec<String>,
}

/// Section `adapter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterConfig {
    /// Clock leeway.
    pub invocation_token_leeway: Duration,
    /// Between two JWKS loads.
    pub jwks_refresh_min_interval: Duration,
    /// Oldest event that runs.
    pub max_event_age: Duration,
    /// Between two heartbeats.
    pub heartbeat_interval: Duration,
}

/// Section `agent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Between two patches of a run.
    pub run_update_min_interval: Duration,
}

/// Section `sdk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdkConfig {
    /// One attempt of one request.
    pub http_timeout: Duration,
    /// Proxy address.
    pub proxy: Option<String>,
    /// Attempts in all, at least one.
    pub retry_max_attempts: u32,
    /// Cap of one backoff.
    pub retry_max_delay: Duration,
    /// How long a poll is held.
    pub poll_wait: Duration,
    /// Additional roots.
    pub ca_file: Option<PathBuf>,
}

/// Section `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Form of a line.
    pub format: LogFormat,
    /// Least severe level that is written.
    pub level: LevelFilter,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}
