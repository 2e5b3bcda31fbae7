//! reportAgentSession: the runtime's session of a thread.

use serde_json::json;

use super::runs::check_reference;
use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::store::sessions;
use crate::local::{access, problems};
use crate::sdk::wire::run::{AgentSession, AgentSessionReport, Versioned};

/// `reportAgentSession`: only `bind_failed` replaces a reference that was confirmed once.
pub fn report_agent_session(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: AgentSessionReport = request.json()?;
    check_reference(&body.external_session_ref)?;
    let wanted = request.if_match()?;
    let version = core.write(|tx| {
        let run = access::path_run(tx, core, request)?;
        let kept = sessions::get(tx, run.thread_id)?.ok_or_else(problems::not_found)?;
        if kept.version != wanted {
            return Err(problems::version(json!(kept)));
        }
        let other = kept.external_session_ref != body.external_session_ref;
        if kept.started && other && body.bind_failed != Some(true) {
            return Err(problems::transition());
        }
        let session = AgentSession {
            external_session_ref: body.external_session_ref.clone(),
            started: body.started || (kept.started && !other),
            version: kept.version + 1,
        };
        sessions::set(tx, run.thread_id, &session, body.model.as_deref())?;
        Ok(session.version)
    })?;
    Ok(Answer::json(200, &Versioned { version }).etag(version))
}
