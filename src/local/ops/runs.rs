//! getRun, renewInvocationToken, startRun, patchRun, finishRun, reportFollowup: the agent's side of a run.

use uuid::Uuid;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow::{self, End};
use crate::local::http::Answer;
use crate::local::request::{Caller, Request};
use crate::local::rules::{self, Step};
use crate::local::store::runs::{self, RunRow};
use crate::local::store::{Tx, followups, sessions, tokens};
use crate::local::{access, problems, tokens as invocation};
use crate::sdk::wire::Time;
use crate::sdk::wire::problem::code;
use crate::sdk::wire::run::{
    AgentSession, FollowupReport, InvocationTokenGrant, InvocationTokenRenew, RunFinish, RunPatch, RunStart,
    RunStarted, RunState, Versioned,
};

/// Longest reference of a session, bytes; ours is a UUID.
const MAX_REFERENCE: usize = 200;

/// `getRun`
pub fn get_run(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let run = core.store.read(|tx| access::own_run(tx, core, request))?;
    Ok(Answer::json(200, &run.info()).etag(run.version))
}

/// `renewInvocationToken`: the same `expired_jti` gets the same grant, a superseded one the newest token.
pub fn renew_invocation_token(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: InvocationTokenRenew = request.json()?;
    let row = core.write(|tx| {
        let run = runs::get(tx, request.id(0)?)?.filter(|run| run.dispatched && is_ours(core, request));
        let run = run.ok_or_else(problems::not_found)?;
        if run.state.is_final() {
            return Err(problems::denied());
        }
        let known = tokens::by_jti(tx, run.id, &body.expired_jti)?.ok_or_else(problems::denied)?;
        match (tokens::renewal_of(tx, &known.jti)?, tokens::newest(tx, run.id)?) {
            (Some(granted), _) => Ok(granted),
            (None, Some(newest)) if newest.jti != known.jti => Ok(newest),
            _ => invocation::mint(tx, core, &run, Some(&known.jti)),
        }
    })?;
    Ok(Answer::json(200, &InvocationTokenGrant { invocation_token: row.token }))
}

/// `startRun`
pub fn start_run(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: RunStart = request.json()?;
    check_reference(&body.external_session_ref)?;
    let started = core.write(|tx| {
        let run = access::path_run(tx, core, request)?;
        if run.state == RunState::Cancelling {
            // Nobody may start it any more, and who is refused closes its entry: the server ends the run.
            let reason = run.cancel_reason.clone();
            if run.started_at.is_none() {
                flow::end(tx, core, run, End::new(RunState::Cancelled, reason.as_deref()))?;
                return Ok(None);
            }
        }
        request.keyed(core, tx, || start(tx, core, request, &body)).map(Some)
    })?;
    started.ok_or_else(problems::denied)
}

fn start(tx: &Tx<'_>, core: &Core, request: &Request, body: &RunStart) -> Result<Answer, Fail> {
    let mut run = access::path_run(tx, core, request)?;
    if run.state != RunState::Queued {
        return Err(problems::conflict(code::ALREADY_STARTED));
    }
    if body.billing_mode_used != run.billing_mode {
        return Err(problems::conflict(code::BILLING_MODE_MISMATCH));
    }
    if body.tool_class_used.exceeds(run.tool_class) {
        return Err(problems::conflict(code::TOOL_CLASS_MISMATCH));
    }
    run.state = RunState::Running;
    run.started_at = Some(Time::now());
    runs::update(tx, &run)?;
    let agent_session = session_at_start(tx, &run, body)?;
    flow::note_run(tx, &run)?;
    Ok(Answer::json(200, &RunStarted { run: run.info(), agent_session }).etag(run.version))
}

/// The thread's session at the start: made with the runner's reference, replaced while it was never confirmed.
fn session_at_start(tx: &Tx<'_>, run: &RunRow, body: &RunStart) -> Result<AgentSession, Fail> {
    let reference = body.external_session_ref.clone();
    let session = match sessions::get(tx, run.thread_id)? {
        None => AgentSession { external_session_ref: reference, started: false, version: 1 },
        Some(kept) if kept.started || kept.external_session_ref == reference => return Ok(kept),
        Some(kept) => AgentSession { external_session_ref: reference, version: kept.version + 1, ..kept },
    };
    sessions::set(tx, run.thread_id, &session, Some(&body.model))?;
    Ok(session)
}

/// `patchRun`
pub fn patch_run(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: RunPatch = request.json()?;
    let version = core.write(|tx| {
        let mut run = access::path_run(tx, core, request)?;
        if run.state == RunState::Cancelling {
            return Err(problems::transition());
        }
        if body.base_version != run.version {
            return Err(problems::base_version(run.version));
        }
        rules::patch(&mut run.document, &body.ops)
            .map_err(|(pointer, code)| problems::invalid(&pointer, code))?;
        run.version += 1;
        runs::update(tx, &run)?;
        flow::note_run(tx, &run)?;
        Ok(run.version)
    })?;
    Ok(Answer::json(200, &Versioned { version }).etag(version))
}

/// `finishRun`
pub fn finish_run(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: RunFinish = request.json()?;
    if !body.state.is_final() {
        return Err(problems::invalid("/state", "not_final"));
    }
    let run = core.write(|tx| {
        let run = access::own_run(tx, core, request)?;
        match rules::finish(run.state, body.state) {
            Step::Same => Ok(run),
            Step::Refuse => Err(problems::transition()),
            Step::Take
                if !rules::finish_reason(
                    body.state,
                    body.reason.as_deref(),
                    run.cancel_reason.as_deref(),
                ) =>
            {
                Err(problems::invalid("/reason", "wrong_value"))
            }
            Step::Take => flow::end(
                tx,
                core,
                run,
                End {
                    state: body.state,
                    reason: body.reason.clone(),
                    costs: body.costs.clone(),
                    metrics: body.metrics.clone(),
                },
            ),
        }
    })?;
    Ok(Answer::json(200, &run.info()).etag(run.version))
}

/// `reportFollowup`
pub fn report_followup(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: FollowupReport = request.json()?;
    let row = core.write(|tx| {
        let run = access::path_run_or_ended(tx, core, request)?;
        let row = followups::get(tx, request.id(1)?)?.filter(|row| row.run_id == run.id);
        let row = row.ok_or_else(problems::not_found)?;
        match rules::followup(row.state, body.state) {
            Step::Refuse => return Err(problems::transition()),
            Step::Same => {}
            Step::Take => flow::set_followup(tx, core, &run, &row, body.state)?,
        }
        followups::get(tx, row.id)?.ok_or_else(problems::not_found)
    })?;
    Ok(Answer::json(200, &row.view()))
}

/// Refuses a reference that is empty, long or not one plain word.
pub fn check_reference(reference: &str) -> Result<(), Fail> {
    let plain = reference.bytes().all(|b| b.is_ascii_graphic());
    if plain && (1..=MAX_REFERENCE).contains(&reference.len()) {
        return Ok(());
    }
    Err(problems::invalid("/external_session_ref", "wrong_value"))
}

fn is_ours(core: &Core, request: &Request) -> bool {
    let ours: Uuid = core.instance.agent_id;
    request.caller == Caller::Agent(ours)
}
