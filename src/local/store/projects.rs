//! Projects: one forum each, its binding and its permissions.

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Id, Json, Tx};
use crate::sdk::wire::channel::{
    AgentChannelConfig, ChannelBehavior, ChannelKind, ProjectBinding, ProjectRunnerConfig,
};

/// One project.
#[derive(Clone, Debug)]
pub struct ProjectRow {
    /// The forum.
    pub channel_id: Uuid,
    /// The binding.
    pub workspace_ref: String,
    /// Display name.
    pub name: String,
    /// Grows with every change.
    pub settings_version: i64,
    /// IN-8; false until the person turns it on.
    pub workspace_write: bool,
    /// R-1a.
    pub trust_project_settings: bool,
    /// Counts changes of the two above; starts at 1.
    pub grant_revision: i64,
    /// What only an operator sets.
    pub behavior: Behavior,
}

/// Settings of a forum beside its permissions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Behavior {
    /// Prompt of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Model of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
}

impl ProjectRow {
    /// As the agent sees the forum.
    pub fn config(&self, space_id: Uuid) -> AgentChannelConfig {
        let runner_config = ProjectRunnerConfig {
            model: self.behavior.model.clone(),
            allowed_tools: self.behavior.allowed_tools.clone(),
            workspace_write: Some(self.workspace_write),
            grant_revision: Some(self.grant_revision),
            trust_project_settings: Some(self.trust_project_settings),
        };
        let binding =
            ProjectBinding { workspace_ref: self.workspace_ref.clone(), runner_config: Some(runner_config) };
        AgentChannelConfig {
            channel_id: self.channel_id,
            space_id,
            kind: ChannelKind::Forum,
            name: self.name.clone(),
            settings_version: self.settings_version,
            behavior: ChannelBehavior {
                prompt: self.behavior.prompt.clone(),
                skills: None,
                project_binding: Some(binding),
            },
        }
    }
}

const COLUMNS: &str = "channel_id, workspace_ref, name, settings_version, workspace_write, \
                       trust_project_settings, grant_revision, behavior";

fn read(row: &Row<'_>) -> rusqlite::Result<ProjectRow> {
    Ok(ProjectRow {
        channel_id: row.get::<_, Id>(0)?.0,
        workspace_ref: row.get(1)?,
        name: row.get(2)?,
        settings_version: row.get(3)?,
        workspace_write: row.get(4)?,
        trust_project_settings: row.get(5)?,
        grant_revision: row.get(6)?,
        behavior: row.get::<_, Json<Behavior>>(7)?.0,
    })
}

/// Serves exactly the projects named by `refs`, each with a forum made when it has none.
pub fn serve(tx: &Tx<'_>, refs: &[&str]) -> rusqlite::Result<()> {
    tx.execute("UPDATE projects SET served = 0", [])?;
    for name in refs {
        tx.execute(
            "INSERT INTO projects VALUES (?1, ?2, ?2, 1, 1, 0, 0, 1, '{}') \
             ON CONFLICT (workspace_ref) DO UPDATE SET served = 1",
            params![Id(Uuid::now_v7()), name],
        )?;
    }
    Ok(())
}

/// The served projects, in the order in which they were first given.
pub fn served(tx: &Tx<'_>) -> rusqlite::Result<Vec<ProjectRow>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE served = 1 ORDER BY channel_id");
    tx.prepare(&sql)?.query_map([], read)?.collect()
}

/// The served project of a forum.
pub fn get(tx: &Tx<'_>, channel_id: Uuid) -> rusqlite::Result<Option<ProjectRow>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE served = 1 AND channel_id = ?1");
    tx.query_row(&sql, [Id(channel_id)], read).optional()
}

/// Keeps the changeable members of `row`.
pub fn update(tx: &Tx<'_>, row: &ProjectRow) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE projects SET settings_version = ?2, workspace_write = ?3, trust_project_settings = ?4, \
         grant_revision = ?5, behavior = ?6 WHERE channel_id = ?1",
        params![
            Id(row.channel_id),
            row.settings_version,
            row.workspace_write,
            row.trust_project_settings,
            row.grant_revision,
            Json(&row.behavior)
        ],
    )?;
    Ok(())
}

/// Serves a project no longer, until the next start gives it again.
pub fn stop_serving(tx: &Tx<'_>, channel_id: Uuid) -> rusqlite::Result<()> {
    tx.execute("UPDATE projects SET served = 0 WHERE channel_id = ?1", [Id(channel_id)])?;
    Ok(())
}
