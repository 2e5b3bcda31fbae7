//! The session of a turn: the counter-check at its beginning, what the server is told of it, and the second
//! process when the CLI knows the session otherwise than expected (R-11, turn-paths "Sessions").

use uuid::Uuid;

use super::{Turn, launch, open_stream, stdin};
use crate::claude::argv::SessionArg;
use crate::claude::auth_check::expected_key_source;
use crate::claude::error_table::StartFault;
use crate::claude::message::Init;
use crate::run::Run;
use crate::run::end::{Cause, End};
use crate::run::record::{LineRecord, ProcessRecord, Purpose, SessionRecord};
use crate::sdk::bound::{RunError, current_version};
use crate::sdk::wire::problem::code;
use crate::sdk::wire::run::{AgentSessionReport, Versioned};
use crate::sys::lock::FileLock;
use crate::sys::private;

/// A turn of the process began: who pays is checked, the session is reported (M2-34 note 13).
///
/// # Errors
/// The end that was asked for meanwhile, or that the server decided.
pub fn on_init(run: &mut Run, turn: &mut Turn, init: &Init) -> Result<(), End> {
    let Some(record) = &run.record else { return Ok(()) };
    let expected = expected_key_source(record.get().billing_mode);
    if init.api_key_source.as_deref() != Some(expected) {
        log::error!("code=counter_check_mismatch run={}", run.run_id);
        turn.decided = Some(End::by(Cause::CounterCheckMismatch));
        return Ok(());
    }
    if let Some(found) = init.session_id.as_deref().and_then(|id| Uuid::parse_str(id).ok())
        && found != record.get().session.id
    {
        change_session(run, found, true)?;
    }
    turn.post.session = report(run).or(turn.post.session.take());
    Ok(())
}

/// The session is another one from now on: durable before anything depends on it (C3-03).
fn change_session(run: &mut Run, id: Uuid, started: bool) -> Result<(), End> {
    log::warn!("code=session_changed run={} started={}", run.run_id, u8::from(started));
    // Held as long as this runner lives; a lock taken after the start is not inherited by the turn.
    let lock = FileLock::try_acquire(&run.shared.state.session_lock(id)).ok().flatten();
    run.locks.move_session(lock);
    update(run, |session| {
        session.id = id;
        session.started = false;
        session.bind_failed = true;
        // A session that begins with this run has nothing that could be shortened.
        session.had_turns &= started;
    })
}

fn update(run: &mut Run, change: impl FnOnce(&mut SessionRecord)) -> Result<(), End> {
    let Some(record) = &mut run.record else { return Ok(()) };
    record.update(|record| change(&mut record.session)).map_err(|fault| run.end_of_file(&fault))
}

/// What the server is to be told of the session.
#[derive(Clone)]
pub struct Report {
    /// The body.
    pub body: AgentSessionReport,
    /// Whether it was made once already, from another version.
    again: bool,
}

/// That the session was started, told once (M2-34 note 13).
fn report(run: &Run) -> Option<Report> {
    let record = run.record.as_ref()?.get();
    let session = &record.session;
    let body = || AgentSessionReport {
        external_session_ref: session.id.to_string(),
        model: Some(record.model.clone()),
        started: true,
        bind_failed: session.bind_failed.then_some(true),
    };
    (!session.started || session.bind_failed).then(|| Report { body: body(), again: false })
}

/// Tells the server that the thread's next run needs a fresh session.
pub fn report_fresh(run: &mut Run) -> Result<(), End> {
    let body = AgentSessionReport {
        external_session_ref: Uuid::new_v4().to_string(),
        model: None,
        started: false,
        bind_failed: Some(true),
    };
    send_report(run, Report { body, again: false })
}

/// The version of the session that the next report starts from.
pub fn version(run: &Run) -> i64 {
    run.record.as_ref().map_or(1, |record| record.get().session.version)
}

/// Makes a report and waits for its answer.
///
/// # Errors
/// As [`reported`].
pub fn send_report(run: &mut Run, report: Report) -> Result<(), End> {
    let mut next = Some(report);
    while let Some(report) = next {
        let result = run.bound.report_agent_session(version(run), &report.body);
        next = reported(run, report, result)?;
    }
    Ok(())
}

/// What follows from a report. When the server names another version, it is to be made once more from that one. Any
/// other failure is logged and changes nothing: the next run finds out by itself.
///
/// # Errors
/// The end that was asked for meanwhile, that the server decided, or a fault of the state directory.
pub fn reported(
    run: &mut Run,
    report: Report,
    result: Result<Versioned, RunError>,
) -> Result<Option<Report>, End> {
    match result {
        Ok(answer) => taken(run, &report.body, answer.version).map(|()| None),
        Err(RunError::Problem(problem)) if problem.is(code::VERSION_CONFLICT) => {
            match current_version(&problem).filter(|_| !report.again) {
                Some(current) => {
                    update(run, |session| session.version = current)?;
                    Ok(Some(Report { again: true, ..report }))
                }
                None => Ok(not_reported(run, "version_conflict")),
            }
        }
        Err(RunError::Ended | RunError::ShutDown) => {
            Err(run.end_of_request(&RunError::Ended, Cause::ServerEnded))
        }
        Err(error) => Ok(not_reported(run, error.code())),
    }
}

fn taken(run: &mut Run, body: &AgentSessionReport, version: i64) -> Result<(), End> {
    update(run, |session| {
        session.version = version;
        // Another session may have taken its place while the report was on its way.
        if !body.started || session.id.to_string() == body.external_session_ref {
            session.started = body.started;
            session.bind_failed = false;
        }
    })
}

fn not_reported(run: &Run, why: &str) -> Option<Report> {
    log::warn!("code=session_not_reported run={} error={why}", run.run_id);
    None
}

/// Starts the second and last process of a run whose session the CLI knows otherwise than expected; `false`
/// when that is not possible.
///
/// # Errors
/// The process cannot be started, the state directory cannot be written, or the end that was asked for meanwhile.
pub fn restart(run: &mut Run, turn: &mut Turn, fault: StartFault) -> Result<bool, End> {
    let asked = turn.again.as_ref().map(|again| again.args.session);
    let session = match (fault, asked) {
        (StartFault::NoConversation, Some(SessionArg::Resume(_))) => SessionArg::New(Uuid::new_v4()),
        (StartFault::SessionInUse, Some(SessionArg::New(id))) => SessionArg::Resume(id),
        _ => return Ok(false),
    };
    if turn.restarted {
        return Ok(false);
    }
    // A stop that came while the first process ended: from then on none starts (turn-paths, "Stop").
    run.check_cancel()?;
    log::warn!("code=session_retried run={} fault={}", run.run_id, fault.code());
    turn.restarted = true;
    if let SessionArg::New(id) = session {
        change_session(run, id, false)?;
    }
    begin_second(run, turn, session)?;
    Ok(true)
}

fn begin_second(run: &mut Run, turn: &mut Turn, session: SessionArg) -> Result<(), End> {
    let number = turn.process + 1;
    let first = Uuid::new_v4();
    let replaced = first_line(run);
    let line = LineRecord { uuid: first, process: number, purpose: Purpose::First, replaces: replaced };
    let process =
        ProcessRecord { number, session: session.id(), resumed: matches!(session, SessionArg::Resume(_)) };
    let Some(record) = &mut run.record else { return Ok(()) };
    let kept = record.update(|record| {
        record.processes.push(process);
        record.lines.push(line);
    });
    kept.map_err(|fault| run.end_of_file(&fault))?;
    let files = run.shared.state.process(run.run_id, session.id(), number);
    private::create_dir_all(&run.shared.state.session(session.id()))
        .map_err(|fault| run.end_of_file(&fault))?;
    private::open_append(&files.stream).map_err(|fault| run.end_of_file(&fault))?;
    turn.stream = open_stream(run, &files.stream)?;
    turn.process = number;
    enter_process(turn, replaced, first);
    let Some(again) = &mut turn.again else { return Ok(()) };
    again.args.session = session;
    let (args, environment) = (again.args.clone(), again.environment.clone());
    launch(run, &args, &environment, &files)?;
    stdin::send_first(run, turn, first)
}

/// What the readers must know when the recording of another process begins.
pub fn enter_process(turn: &mut Turn, replaced: Option<Uuid>, first: Uuid) {
    if let Some(replaced) = replaced {
        turn.progress.sent_again(&replaced.to_string(), &first.to_string());
    }
    turn.progress.process_started();
    turn.usage.process_started();
    turn.clock.process_started();
}

/// The newest uuid of the message that triggered the run.
fn first_line(run: &Run) -> Option<Uuid> {
    let lines = &run.record.as_ref()?.get().lines;
    lines.iter().rev().find(|line| line.purpose == Purpose::First).map(|line| line.uuid)
}
