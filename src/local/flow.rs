//! Which message opens which run, and what follows when a run ends.
//!
//! In a thread one run works at a time. A message that comes while a run is `running` becomes its follow-up;
//! one that comes while a run waits or is being stopped opens a run that waits behind it. Only the oldest open
//! run of a thread is sent to the agent; the next one is sent when it has ended.

use serde_json::{Value, json};
use uuid::Uuid;

use super::core::Core;
use super::fail::Fail;
use super::store::followups::{self, FollowupRow};
use super::store::messages::{self, MessageRow};
use super::store::runs::{self, RunRow};
use super::store::threads::ThreadRow;
use super::store::{Tx, changes, events, identity, projects, sessions};
use super::{problems, tokens, views};
use crate::sdk::wire::Time;
use crate::sdk::wire::event::{AgentFollowup, AgentInvocation, Principal, TriggerKind, kind};
use crate::sdk::wire::message::Trust;
use crate::sdk::wire::person::ChangeKind;
use crate::sdk::wire::run::{CostReport, FollowupState, RunMetrics, RunState};

/// What a person's message became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// It opened this run.
    Run(Uuid),
    /// It went to the running run as this follow-up.
    Followup(Uuid),
    /// Its author may not trigger the agent; the next run reads it as material.
    Nothing,
}

/// The end of a run, as the runner or the server decided it.
pub struct End {
    /// The final state.
    pub state: RunState,
    /// Why.
    pub reason: Option<String>,
    /// What it cost.
    pub costs: Option<Vec<CostReport>>,
    /// The last numbers.
    pub metrics: Option<RunMetrics>,
}

impl End {
    /// An end without numbers.
    pub fn new(state: RunState, reason: Option<&str>) -> End {
        End { state, reason: reason.map(str::to_owned), costs: None, metrics: None }
    }
}

/// A person's new message: a follow-up of the running run, or a run of its own when its author may trigger one.
pub fn receive(tx: &Tx<'_>, core: &Core, thread: &ThreadRow, message: &MessageRow) -> Result<Became, Fail> {
    let open = runs::open_in(tx, thread.id)?;
    match open.as_slice() {
        [only] if only.state == RunState::Running => {
            Ok(Became::Followup(send_followup(tx, core, only, message)?))
        }
        _ if !identity::principal(tx, message.author_id)?.trusted => Ok(Became::Nothing),
        _ => Ok(Became::Run(open_run(tx, core, thread.channel_id, message)?)),
    }
}

fn send_followup(tx: &Tx<'_>, core: &Core, run: &RunRow, message: &MessageRow) -> Result<Uuid, Fail> {
    let row = FollowupRow { id: Uuid::now_v7(), run_id: run.id, message_id: message.id, state: None };
    followups::add(tx, &row)?;
    messages::set_followup(tx, message.id, row.id)?;
    let trust = if message.author_id == run.acting_for { Trust::Trigger } else { Trust::Authorized };
    let payload = AgentFollowup {
        run_id: run.id,
        followup_id: row.id,
        thread_id: run.thread_id,
        message: views::context_message(tx, core, message, Some(trust), None)?,
    };
    send(tx, core, kind::AGENT_FOLLOWUP, &json!(payload))?;
    note_followup(tx, &row, run)?;
    Ok(row.id)
}

/// Opens a run for `message` and sends it when nothing is before it in the thread.
pub fn open_run(tx: &Tx<'_>, core: &Core, channel_id: Uuid, message: &MessageRow) -> Result<Uuid, Fail> {
    let settings = core.settings();
    let run = RunRow {
        id: Uuid::now_v7(),
        thread_id: message.thread_id,
        channel_id,
        trigger_message_id: message.id,
        acting_for: message.author_id,
        state: RunState::Queued,
        reason: None,
        version: 1,
        document: json!({}),
        costs: None,
        billing_mode: settings.billing_mode,
        tool_class: settings.tool_class,
        cancel_reason: None,
        dispatched: false,
        context_floor: 0,
        created_at: Time::now(),
        started_at: None,
        finished_at: None,
    };
    runs::add(tx, &run)?;
    messages::set_run(tx, message.id, run.id)?;
    note_run(tx, &run)?;
    send_next(tx, core, run.thread_id)?;
    Ok(run.id)
}

/// Sends the oldest open run of a thread, when it was not sent yet; one of a project that this start does not
/// serve waits for a start that does.
pub fn send_next(tx: &Tx<'_>, core: &Core, thread_id: Uuid) -> Result<(), Fail> {
    let oldest = runs::open_in(tx, thread_id)?.into_iter().next();
    let Some(mut run) = oldest.filter(|run| !run.dispatched) else { return Ok(()) };
    if projects::get(tx, run.channel_id)?.is_some() {
        run.dispatched = true;
        runs::update(tx, &run)?;
        invoke(tx, core, &run)?;
    }
    Ok(())
}

/// Sends the runs that waited for a start that serves their project.
pub fn send_waiting(tx: &Tx<'_>, core: &Core) -> Result<(), Fail> {
    for thread_id in runs::waiting_threads(tx)? {
        send_next(tx, core, thread_id)?;
    }
    Ok(())
}

/// Sends `agent.invocation` for `run` with a new token; its position.
pub fn invoke(tx: &Tx<'_>, core: &Core, run: &RunRow) -> Result<i64, Fail> {
    let token = tokens::mint(tx, core, run, None)?;
    let payload = invocation(tx, run, token.token)?;
    send(tx, core, kind::AGENT_INVOCATION, &json!(payload))
}

/// The payload of `agent.invocation` for `run` with `token`.
pub fn invocation(tx: &Tx<'_>, run: &RunRow, token: String) -> Result<AgentInvocation, Fail> {
    let project = projects::get(tx, run.channel_id)?.ok_or_else(problems::not_found)?;
    Ok(AgentInvocation {
        run_id: run.id,
        thread_id: run.thread_id,
        channel_id: run.channel_id,
        trigger_kind: TriggerKind::Message,
        trigger_message_id: Some(run.trigger_message_id),
        triggered_by: identity::principal(tx, run.acting_for)?.principal(),
        billing_mode: run.billing_mode,
        tool_class: run.tool_class,
        settings_version: project.settings_version,
        invocation_token: token,
        agent_session: sessions::get(tx, run.thread_id)?,
    })
}

/// Keeps an event for the agent; its position.
pub fn send(tx: &Tx<'_>, core: &Core, kind: &str, payload: &Value) -> Result<i64, Fail> {
    Ok(events::add(tx, core.instance.agent_id, kind, payload)?)
}

/// Asks for the end of a run. One that was never sent ends at once, nobody works on it.
pub fn cancel(
    tx: &Tx<'_>,
    core: &Core,
    mut run: RunRow,
    reason: &str,
    by: Option<Principal>,
) -> Result<RunRow, Fail> {
    if !run.dispatched {
        return end(tx, core, run, End::new(RunState::Cancelled, Some(reason)));
    }
    let mut payload = json!({"run_id": run.id, "reason": reason});
    if let Some(by) = by {
        payload["requested_by"] = json!(by);
    }
    send(tx, core, kind::RUN_CANCEL_REQUESTED, &payload)?;
    run.state = RunState::Cancelling;
    run.cancel_reason = Some(reason.to_owned());
    runs::update(tx, &run)?;
    note_run(tx, &run)?;
    Ok(run)
}

/// Ends a run: keeps its numbers, settles its follow-ups, sends the thread's next run.
pub fn end(tx: &Tx<'_>, core: &Core, mut run: RunRow, end: End) -> Result<RunRow, Fail> {
    run.state = end.state;
    run.reason = end.reason;
    run.costs = end.costs.or(run.costs);
    run.finished_at = Some(Time::now());
    run.version += 1;
    merge_metrics(&mut run.document, end.metrics.as_ref());
    runs::update(tx, &run)?;
    note_delivered(tx, &run)?;
    note_run(tx, &run)?;
    settle_followups(tx, core, &run)?;
    send_next(tx, core, run.thread_id)?;
    Ok(run)
}

fn merge_metrics(document: &mut Value, metrics: Option<&RunMetrics>) {
    let Some(Value::Object(numbers)) = metrics.map(|metrics| json!(metrics)) else { return };
    if let Value::Object(root) = document
        && let Some(kept) = root.entry("metrics").or_insert_with(|| json!({})).as_object_mut()
    {
        kept.extend(numbers);
    }
}

/// What the run's context held is in the thread's session now, when the runtime confirmed that session and
/// read its input: it says its model first.
fn note_delivered(tx: &Tx<'_>, run: &RunRow) -> Result<(), Fail> {
    let Some(session) = sessions::get(tx, run.thread_id)?.filter(|session| session.started) else {
        return Ok(());
    };
    let read = run.state == RunState::Completed || run.document.get("model").is_some();
    let Some(trigger) = messages::get(tx, run.trigger_message_id)?.filter(|_| read) else { return Ok(()) };
    let reference = &session.external_session_ref;
    messages::set_delivered(tx, run.thread_id, run.context_floor, trigger.seq, reference)?;
    for row in followups::of_run(tx, run.id)? {
        if matches!(row.state, Some(state) if state != FollowupState::Refused) {
            messages::set_one_delivered(tx, row.message_id, reference)?;
        }
    }
    Ok(())
}

/// Follow-ups of which the runner said nothing final when their run ended: what it read was absorbed, and a
/// stop starts nothing again; what it never read opens a run of its own.
fn settle_followups(tx: &Tx<'_>, core: &Core, run: &RunRow) -> Result<(), Fail> {
    for row in followups::of_run(tx, run.id)? {
        match row.state {
            Some(FollowupState::Delivered) => set_followup(tx, core, run, &row, FollowupState::Absorbed)?,
            None if run.state == RunState::Cancelled => {
                set_followup(tx, core, run, &row, FollowupState::Absorbed)?;
            }
            None => set_followup(tx, core, run, &row, FollowupState::Refused)?,
            Some(_) => {}
        }
    }
    Ok(())
}

/// Keeps what became of a follow-up; a refused one opens a run for its message.
pub fn set_followup(
    tx: &Tx<'_>,
    core: &Core,
    run: &RunRow,
    row: &FollowupRow,
    state: FollowupState,
) -> Result<(), Fail> {
    followups::set_state(tx, row.id, state)?;
    note_followup(tx, row, run)?;
    if state == FollowupState::Refused
        && let Some(message) = messages::get(tx, row.message_id)?
        && identity::principal(tx, message.author_id)?.trusted
    {
        open_run(tx, core, run.channel_id, &message)?;
        note_message(tx, &message, run.channel_id)?;
    }
    Ok(())
}

/// A run or its document changed, and with it what its thread shows.
pub fn note_run(tx: &Tx<'_>, run: &RunRow) -> Result<(), Fail> {
    let ids = [("run_id", run.id), ("thread_id", run.thread_id), ("channel_id", run.channel_id)];
    Ok(changes::note(tx, ChangeKind::Run, &ids)?)
}

/// A follow-up is new or has another state.
pub fn note_followup(tx: &Tx<'_>, row: &FollowupRow, run: &RunRow) -> Result<(), Fail> {
    let ids = [("followup_id", row.id), ("run_id", run.id), ("thread_id", run.thread_id)];
    Ok(changes::note(tx, ChangeKind::Followup, &ids)?)
}

/// A message is new or opened a run.
pub fn note_message(tx: &Tx<'_>, message: &MessageRow, channel_id: Uuid) -> Result<(), Fail> {
    let ids = [("message_id", message.id), ("thread_id", message.thread_id), ("channel_id", channel_id)];
    Ok(changes::note(tx, ChangeKind::Message, &ids)?)
}

/// A thread is new or has another title.
pub fn note_thread(tx: &Tx<'_>, thread: &ThreadRow) -> Result<(), Fail> {
    let ids = [("thread_id", thread.id), ("channel_id", thread.channel_id)];
    Ok(changes::note(tx, ChangeKind::Thread, &ids)?)
}
