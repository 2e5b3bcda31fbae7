//! Events of the gateway and their payloads.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::message::RunContextMessage;
use super::raw::RawJson;
use super::run::{AgentSession, BillingMode, ToolClass};
use super::time::{Time, millis};

/// Answer of `pollEvents`.
///
/// Each event stays a raw text here, so that one malformed event cannot hide the good ones beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PollAnswer {
    /// Events in ascending `seq`.
    pub events: Vec<RawJson>,
    /// How often the server wants a heartbeat.
    #[serde(default, deserialize_with = "millis", skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval_ms: Option<u64>,
    /// Events were lost: every open run must be asked for its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<bool>,
}

/// One event, its payload still raw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Position, strictly growing per agent.
    pub seq: i64,
    /// Identity of the event.
    pub event_id: Uuid,
    /// One of [`kind`] or a type this version does not know.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened.
    pub occurred_at: Time,
    /// The payload of its type.
    pub payload: RawJson,
}

/// The event types this runner knows.
pub mod kind {
    #![allow(missing_docs)] // each name is its own documentation: the type it holds
    pub const AGENT_INVOCATION: &str = "agent.invocation";
    pub const AGENT_FOLLOWUP: &str = "agent.followup";
    pub const AGENT_CONFIG_CHANGED: &str = "agent.config_changed";
    pub const RUN_CANCEL_REQUESTED: &str = "run.cancel_requested";
    pub const INTERACTION_CREATED: &str = "interaction.created";
    pub const COMMAND_INVOKED: &str = "command.invoked";
}

/// Body of `ackEvents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckEvents {
    /// The consumer that handled them.
    pub consumer: String,
    /// The handled positions.
    pub seqs: Vec<i64>,
}

/// Payload of `agent.invocation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentInvocation {
    /// The run to work on.
    pub run_id: Uuid,
    /// The thread that asked.
    pub thread_id: Uuid,
    /// The channel of the thread.
    pub channel_id: Uuid,
    /// What triggered the run.
    pub trigger_kind: TriggerKind,
    /// The message that triggered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_message_id: Option<Uuid>,
    /// The person the run acts for.
    pub triggered_by: Principal,
    /// Who pays, as the payload says; the token's claim decides.
    pub billing_mode: BillingMode,
    /// The tool class the server allows.
    pub tool_class: ToolClass,
    /// Version of the channel's settings when the event was made.
    pub settings_version: i64,
    /// The signed invocation token.
    pub invocation_token: String,
    /// The thread's session, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<AgentSession>,
}

/// What triggers a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TriggerKind {
    /// A message in a thread; the only kind this runner serves.
    Message,
    /// A registered command.
    Command,
    /// A component of a message.
    Component,
    /// A kind this version does not know.
    #[serde(other)]
    Other,
}

/// A person or an agent, by id and display name (untrusted text).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Identity.
    pub principal_id: Uuid,
    /// What the person chose to be called.
    pub display_name: String,
}

/// Payload of `run.cancel_requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunCancelRequested {
    /// The run to stop.
    pub run_id: Uuid,
    /// Why; repeated in `finishRun`.
    pub reason: String,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<Principal>,
}

/// Payload of `agent.followup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentFollowup {
    /// The run that works in the thread.
    pub run_id: Uuid,
    /// Identity of the follow-up.
    pub followup_id: Uuid,
    /// The thread.
    pub thread_id: Uuid,
    /// What the person wrote.
    pub message: RunContextMessage,
}

/// Payload of `agent.config_changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentConfigChanged {
    /// The channel to load again.
    pub channel_id: Uuid,
    /// Its new version.
    pub settings_version: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::PollAnswer;

    #[test]
    fn an_odd_interval_hides_no_event() {
        let rows: [(Value, Option<u64>); 8] = [
            (json!(30_000), Some(30_000)),
            (json!(3e4), Some(30_000)),
            (json!(1.5), Some(1)),
            (json!(-1), Some(0)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(1e300), Some(u64::MAX)),
            (json!("soon"), None),
            (json!(null), None),
        ];
        for (interval, read) in rows {
            let answer = json!({"events": [{}], "heartbeat_interval_ms": interval});
            let answer: PollAnswer = serde_json::from_value(answer).unwrap();
            assert_eq!((answer.events.len(), answer.heartbeat_interval_ms), (1, read), "{interval}");
        }
    }
}
