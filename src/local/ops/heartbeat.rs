//! sendHeartbeat, getRunnerState.

use std::time::Instant;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::store::{changes, projects};
use crate::local::{lock, problems, views};
use crate::sdk::wire::Time;
use crate::sdk::wire::heartbeat::{Heartbeat, HeartbeatAck};
use crate::sdk::wire::person::ChangeKind;

/// Most rows and reasons of one heartbeat.
const MAX_ROWS: usize = 1_000;

/// `sendHeartbeat`
pub fn send_heartbeat(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: Heartbeat = request.json()?;
    if body.project_readiness.len() > MAX_ROWS || body.details.degraded_reasons.len() > MAX_ROWS {
        return Err(problems::invalid("/project_readiness", "too_many"));
    }
    let news = {
        let mut runner = lock(&core.runner);
        let before = runner.heartbeat.replace((body.clone(), Instant::now()));
        before.is_none_or(|(before, _)| before != body)
    };
    if news {
        note_news(core)?;
    }
    let interval = core.settings().heartbeat_interval.as_millis();
    Ok(Answer::json(
        200,
        &HeartbeatAck { server_time: Time::now(), heartbeat_interval_ms: u64::try_from(interval).ok() },
    ))
}

fn note_news(core: &Core) -> Result<(), Fail> {
    core.write(|tx| {
        changes::note(tx, ChangeKind::Runner, &[("agent_id", views::runner_id(core))])?;
        for project in projects::served(tx)? {
            changes::note(tx, ChangeKind::Project, &[("channel_id", project.channel_id)])?;
        }
        Ok(())
    })
}

/// `getRunnerState`
pub fn get_runner_state(core: &Core, _: &Request) -> Result<Answer, Fail> {
    Ok(Answer::json(200, &views::runner(core)))
}
