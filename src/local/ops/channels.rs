//! listServedChannels, getServedChannelConfig: the agent's view of the projects.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::problems;
use crate::local::request::{Caller, Request};
use crate::local::store::projects;
use crate::sdk::wire::channel::ServedChannels;

/// Channels of one page; a local server rarely has a second one.
const PAGE: usize = 100;

/// `listServedChannels`
pub fn list_served_channels(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let start = match request.query("cursor") {
        None => 0,
        Some(text) => text.parse::<usize>().map_err(|_| problems::invalid("/cursor", "not_a_cursor"))?,
    };
    let rows =
        if is_serving(core, request) { core.store.read(|tx| Ok(projects::served(tx)?))? } else { Vec::new() };
    let end = rows.len().min(start.saturating_add(PAGE));
    let page = rows.get(start.min(end)..end).unwrap_or_default();
    Ok(Answer::json(
        200,
        &ServedChannels {
            channels: page.iter().map(|row| row.config(core.instance.space_id)).collect(),
            next_cursor: (end < rows.len()).then(|| end.to_string()),
        },
    ))
}

/// `getServedChannelConfig`
pub fn get_served_channel_config(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let id = request.id(0)?;
    let row = core.store.read(|tx| Ok(projects::get(tx, id)?))?.filter(|_| is_serving(core, request));
    let row = row.ok_or_else(problems::not_found)?;
    Ok(Answer::json(200, &row.config(core.instance.space_id)))
}

fn is_serving(core: &Core, request: &Request) -> bool {
    request.caller == Caller::Agent(core.instance.agent_id)
}
