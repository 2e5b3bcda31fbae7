//! The heartbeat's body: what the runner is, what it can do, which projects are ready.
//!
//! Built anew for every heartbeat from the configuration, the channel cache and the file system.

use uuid::Uuid;

use crate::claude::version::Probed;
use crate::config::Config;
use crate::run::Shared;
use crate::run::workspace::NotReady;
use crate::sdk::wire::PROTOCOL_VERSION;
use crate::sdk::wire::channel::ProjectBinding;
use crate::sdk::wire::heartbeat::{
    AdapterInfo, AgentState, Capabilities, Heartbeat, HeartbeatDetails, ProjectReadiness, RuntimeInfo,
};
use crate::sdk::wire::run::{BillingMode, ToolClass};
use crate::sys::process;

/// Name of this adapter in heartbeats (M2-34 note 1).
pub const ADAPTER_NAME: &str = "claude-code-runner";

/// Name of the runtime in heartbeats.
pub const RUNTIME_NAME: &str = "claude-code";

/// Degraded reason: another runner took over the long poll.
pub const GATEWAY_SUPERSEDED: &str = "gateway_superseded";

/// Degraded reason: class host as root.
pub const HOST_AS_ROOT: &str = "host_as_root";

/// What of the main thread's state goes into a heartbeat.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Runs with a live turn.
    pub active_runs: u64,
    /// The runner takes nothing new.
    pub stopping: bool,
    /// Another runner polls.
    pub superseded: bool,
}

/// The heartbeat of this moment (M2-34 note 15).
pub fn heartbeat(shared: &Shared, probed: Option<Probed>, snapshot: Snapshot) -> Heartbeat {
    let config = &shared.config;
    let degraded_reasons = degraded(config, probed, snapshot);
    let state = match (snapshot.stopping, degraded_reasons.is_empty()) {
        (true, _) => AgentState::Stopping,
        (false, true) => AgentState::Online,
        (false, false) => AgentState::Degraded,
    };
    Heartbeat {
        state,
        runtime_version: probed.and_then(|probed| probed.version).map(|version| version.to_string()),
        billing_modes_supported: billing_modes(config),
        reported_tool_class: config.runner.tool_class,
        details: HeartbeatDetails {
            capabilities: CAPABILITIES,
            active_runs: snapshot.active_runs,
            degraded_reasons,
            adapter: AdapterInfo { name: ADAPTER_NAME.into(), version: env!("CARGO_PKG_VERSION").into() },
            runtime: RuntimeInfo { name: RUNTIME_NAME.into() },
            protocol_version: PROTOCOL_VERSION.into(),
        },
        project_readiness: readiness(shared),
    }
}

/// What this adapter can do, the same in every heartbeat (D-M3-12-10, turn-paths).
pub const CAPABILITIES: Capabilities =
    Capabilities { title: true, components: false, voice_input: false, files_out: true, followups: true };

/// Whether the project of `binding` is ready under the configured class.
///
/// # Errors
/// What is missing.
pub fn project_readiness(shared: &Shared, binding: &ProjectBinding) -> Result<(), NotReady> {
    let class = shared.config.runner.tool_class;
    if class == ToolClass::Host && process::effective_uid() == 0 {
        return Err(NotReady::HostAsRoot);
    }
    let granted = binding.runner_config.as_ref().and_then(|config| config.workspace_write);
    let writes = granted.unwrap_or(class != ToolClass::Chat);
    shared.workspaces.readiness(&binding.workspace_ref, writes).map(|_| ())
}

fn readiness(shared: &Shared) -> Vec<ProjectReadiness> {
    let row = |(channel_id, binding): (Uuid, ProjectBinding)| {
        let found = project_readiness(shared, &binding);
        if let Err(fault) = found {
            log::debug!("code=project_not_ready channel={channel_id} cause={}", fault.code());
        }
        ProjectReadiness { channel_id, ready: found.is_ok() }
    };
    shared.channels.bound().into_iter().map(row).collect()
}

fn billing_modes(config: &Config) -> Option<Vec<BillingMode>> {
    let mut modes = Vec::new();
    if config.runner.anthropic_api_key_ref.is_some() {
        modes.push(BillingMode::Organization);
    }
    if config.runner.allow_personal {
        modes.push(BillingMode::Personal);
    }
    (!modes.is_empty()).then_some(modes)
}

fn degraded(config: &Config, probed: Option<Probed>, snapshot: Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(probed.and_then(|probed| probed.verdict.degraded_reason()));
    if snapshot.superseded {
        reasons.push(GATEWAY_SUPERSEDED);
    }
    if config.runner.tool_class == ToolClass::Host && process::effective_uid() == 0 {
        reasons.push(HOST_AS_ROOT);
    }
    reasons.into_iter().map(str::to_owned).collect()
}
