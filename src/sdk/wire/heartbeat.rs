//! The heartbeat: what the agent is and can do.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::{BillingMode, ToolClass};
use super::time::{Time, millis};

/// Body of `sendHeartbeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Whether the agent works.
    pub state: AgentState,
    /// Version of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Modes that can be proven here; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_modes_supported: Option<Vec<BillingMode>>,
    /// The configured class.
    pub reported_tool_class: ToolClass,
    /// The closed set of details.
    pub details: HeartbeatDetails,
    /// One row per bound forum.
    pub project_readiness: Vec<ProjectReadiness>,
}

/// Whether an agent works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// As it should.
    Online,
    /// With the named restrictions.
    Degraded,
    /// It takes nothing new.
    Stopping,
}

/// Details of a heartbeat; a closed set of members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatDetails {
    /// What the adapter can do.
    pub capabilities: Capabilities,
    /// Runs with a live turn.
    pub active_runs: u64,
    /// Why the state is `degraded`.
    pub degraded_reasons: Vec<String>,
    /// The adapter.
    pub adapter: AdapterInfo,
    /// The runtime.
    pub runtime: RuntimeInfo,
    /// [`super::PROTOCOL_VERSION`].
    pub protocol_version: String,
}

/// What an adapter can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Proposes titles.
    pub title: bool,
    /// Builds components.
    pub components: bool,
    /// Transcribes voice.
    pub voice_input: bool,
    /// Sends files.
    pub files_out: bool,
    /// Takes messages while a turn works.
    pub followups: bool,
}

/// Name and version of the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterInfo {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Name of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeInfo {
    /// Name.
    pub name: String,
}

/// Whether a bound forum's project can be worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectReadiness {
    /// The forum.
    pub channel_id: Uuid,
    /// Directory present, Git working tree, rights fit.
    pub ready: bool,
}

/// Answer of `sendHeartbeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAck {
    /// The server's clock.
    pub server_time: Time,
    /// How often the server wants one.
    #[serde(default, deserialize_with = "millis", skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval_ms: Option<u64>,
}
