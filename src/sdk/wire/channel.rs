//! Channels that the agent serves and their project bindings.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Answer of `listServedChannels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServedChannels {
    /// One page of channels.
    pub channels: Vec<AgentChannelConfig>,
    /// Where the next page starts, absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One channel as this agent serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentChannelConfig {
    /// The channel.
    pub channel_id: Uuid,
    /// The space it belongs to.
    pub space_id: Uuid,
    /// Forum or text channel; only forums carry projects.
    pub kind: ChannelKind,
    /// Display name, untrusted text.
    pub name: String,
    /// Grows with every change of `behavior`.
    pub settings_version: i64,
    /// What the space configured for the agent here.
    pub behavior: ChannelBehavior,
}

/// The kinds of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// A channel of threads; the only kind that binds a project.
    Forum,
    /// Any other channel.
    #[serde(other)]
    Text,
}

/// What a space configured for the agent in one channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelBehavior {
    /// Prompt of the channel, added to the runner's own instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Skills; this runtime loads its own and ignores them (M2-34 note 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Value>,
    /// The project of a forum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_binding: Option<ProjectBinding>,
}

/// Which project of the host a forum works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectBinding {
    /// Opaque name, resolved below `runner.projects_root` and nowhere else.
    pub workspace_ref: String,
    /// Settings of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_config: Option<ProjectRunnerConfig>,
}

/// Settings of one binding; every member may only narrow what the operator configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProjectRunnerConfig {
    /// Model instead of `runner.default_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Narrows `runner.scoped_allowed_tools` by equal text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Whether a turn may write in the project (IN-8); absent: the tool class decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_write: Option<bool>,
    /// Counts changes of the permissions above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_revision: Option<i64>,
    /// The binding's half of R-1a.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_project_settings: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::ChannelBehavior;
    use serde_json::json;

    #[test]
    fn skills_are_not_looked_at() {
        for skills in [json!(["review"]), json!([{"name": "review"}]), json!({}), json!(7)] {
            let behavior = json!({"prompt": "Be brief.", "skills": skills});
            let behavior: ChannelBehavior = serde_json::from_value(behavior).unwrap();
            assert_eq!(behavior.prompt.as_deref(), Some("Be brief."));
        }
    }
}
