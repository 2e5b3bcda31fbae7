//! listProjects, setProjectGrant: the person's view of the projects.

use serde_json::json;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::store::projects::{self, ProjectRow};
use crate::local::store::{Tx, changes};
use crate::local::{problems, views};
use crate::sdk::wire::event::{AgentConfigChanged, kind};
use crate::sdk::wire::person::{ChangeKind, ProjectGrantPut, Projects};

/// `listProjects`
pub fn list_projects(core: &Core, _: &Request) -> Result<Answer, Fail> {
    let rows = core.store.read(|tx| Ok(projects::served(tx)?))?;
    Ok(Answer::json(200, &Projects { projects: rows.iter().map(|row| views::project(core, row)).collect() }))
}

/// `setProjectGrant`: what changes nothing counts nothing up and sends nothing.
pub fn set_project_grant(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: ProjectGrantPut = request.json()?;
    let wanted = request.if_match()?;
    let row = core.write(|tx| {
        let mut row = projects::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        if row.grant_revision != wanted {
            return Err(problems::version(json!(views::project(core, &row))));
        }
        let write = body.workspace_write.unwrap_or(row.workspace_write);
        let trust = body.trust_project_settings.unwrap_or(row.trust_project_settings);
        if (write, trust) != (row.workspace_write, row.trust_project_settings) {
            row.workspace_write = write;
            row.trust_project_settings = trust;
            row.grant_revision += 1;
            changed(tx, core, &mut row)?;
        }
        Ok(row)
    })?;
    Ok(Answer::json(200, &views::project(core, &row)).etag(row.grant_revision))
}

/// Keeps a changed binding and tells agent and person.
pub fn changed(tx: &Tx<'_>, core: &Core, row: &mut ProjectRow) -> Result<(), Fail> {
    row.settings_version += 1;
    projects::update(tx, row)?;
    let event = AgentConfigChanged { channel_id: row.channel_id, settings_version: row.settings_version };
    flow::send(tx, core, kind::AGENT_CONFIG_CHANGED, &json!(event))?;
    Ok(changes::note(tx, ChangeKind::Project, &[("channel_id", row.channel_id)])?)
}
