//! `startRun` and the turn record: the last steps before a process exists.
//!
//! Order that must hold: key and body are stored before the request, the answer before the record, the
//! record before the process.

use uuid::Uuid;

use super::end::{Cause, End};
use super::prepare::{self, Prepared};
use super::record::{
    LineRecord, ProcessRecord, ProjectRecord, Purpose, RECORD_VERSION, RecordFile, SessionRecord, TurnRecord,
};
use super::turn::{self, Turn};
use super::{Run, waiting};
use crate::claude::argv::SessionArg;
use crate::sdk::bound::RunError;
use crate::sdk::wire::Time;
use crate::sdk::wire::problem::{Problem, code, reason};
use crate::sdk::wire::run::{RunStart, RunStarted};
use crate::sys::process;

/// The server does not know the run.
const STATUS_NOT_FOUND: u16 = 404;

/// Starts the run on the server, writes the turn record and starts the process.
///
/// # Errors
/// The end of a run that does not start.
pub fn start(run: &mut Run, prepared: Prepared) -> Result<Turn, End> {
    prepare::check_age(run)?;
    let started = start_run(run, &prepared)?;
    run.document.at_version(started.run.version);
    run.document.remove(waiting::STATUS_LINE);
    run.check_cancel()?;
    let first = Uuid::new_v4();
    let record = new_record(run, &prepared, &started, first)?;
    let record =
        RecordFile::create(&run.shared.state.turns(), record).map_err(|fault| run.end_of_file(&fault))?;
    run.record = Some(record);
    if let Some(revision) = grant_revision(&prepared) {
        run.document.set("/grant_revision", revision.into());
    }
    turn::begin(run, prepared, first)
}

fn start_run(run: &mut Run, prepared: &Prepared) -> Result<RunStarted, End> {
    let body = RunStart {
        billing_mode_used: prepared.billing_mode,
        tool_class_used: prepared.args.class,
        external_session_ref: prepared.args.session.id().to_string(),
        model: prepared.args.model.clone(),
        billing_evidence: prepared.evidence.clone(),
    };
    let stored =
        run.store.begin_start(run.run_id, Uuid::now_v7(), &body).map_err(|fault| run.end_of_store(fault))?;
    if stored.body != body {
        // The configuration changed between two lives of the runner: what was promised cannot be kept.
        return Err(End::by(Cause::RunnerRestarted));
    }
    let started = loop {
        run.check_cancel()?;
        run.start_generation = run.token.generation();
        match run.bound.start_run(stored.key, &stored.body) {
            Ok(started) => break started,
            Err(RunError::Hold(_) | RunError::Transport(_)) => run.wait_for_server()?,
            Err(RunError::Problem(problem)) => return Err(refused(run, &problem)),
            Err(error) => return Err(run.end_of_request(&error, Cause::StartRefused)),
        }
    };
    run.store.mark_started(run.run_id, &started).map_err(|fault| run.end_of_store(fault))?;
    Ok(started)
}

/// The reason table of `startRun` (contract "Runs", R-29, R-31).
fn refused(run: &mut Run, problem: &Problem) -> End {
    log::warn!("code=start_refused run={} problem={}", run.run_id, problem.code);
    if problem.is_because(code::INVOCATION_TOKEN_INVALID, reason::SUPERSEDED) {
        if let Err(fault) = run.store.abandon_start(run.run_id) {
            return run.end_of_store(fault);
        }
        return End::by(Cause::Superseded);
    }
    match problem.code.as_str() {
        code::INVOCATION_TOKEN_INVALID => End::by(Cause::InvalidToken),
        code::ALREADY_STARTED => End::by(Cause::StartedElsewhere),
        code::BILLING_MODE_MISMATCH => End::by(Cause::StartBillingMismatch),
        code::TOOL_CLASS_MISMATCH => End::by(Cause::StartClassMismatch),
        code::AGENT_INVOCATION_DENIED => End::by(Cause::InvocationDenied),
        // The contract names no code for it.
        _ if problem.status == STATUS_NOT_FOUND => End::by(Cause::InvocationDenied),
        _ => End::by(Cause::StartRefused),
    }
}

fn new_record(run: &Run, prepared: &Prepared, started: &RunStarted, first: Uuid) -> Result<TurnRecord, End> {
    let invocation = &run.entry()?.invocation;
    let session = prepared.args.session;
    let resumed = matches!(session, SessionArg::Resume(_));
    Ok(TurnRecord {
        record_version: RECORD_VERSION,
        run_id: run.run_id,
        thread_id: invocation.thread_id,
        channel_id: invocation.channel_id,
        started_at: Time::now(),
        boot_id: process::boot_id(),
        session: SessionRecord {
            id: session.id(),
            version: started.agent_session.version,
            started: started.agent_session.started,
            had_turns: resumed,
            bind_failed: false,
        },
        project: ProjectRecord {
            workspace_ref: prepared.binding.workspace_ref.clone(),
            path: prepared.project.path.clone(),
            device: prepared.project.device,
            inode: prepared.project.inode,
            grant_revision: grant_revision(prepared),
        },
        tool_class: prepared.args.class,
        billing_mode: prepared.billing_mode,
        model: prepared.args.model.clone(),
        title_wanted: prepared.title_wanted,
        title_done: false,
        processes: vec![ProcessRecord { number: 1, session: session.id(), resumed }],
        lines: vec![LineRecord { uuid: first, process: 1, purpose: Purpose::First, replaces: None }],
        answers: Vec::new(),
        followups: Vec::new(),
        signalled: false,
        end: None,
    })
}

fn grant_revision(prepared: &Prepared) -> Option<i64> {
    prepared.binding.runner_config.as_ref().and_then(|config| config.grant_revision)
}
