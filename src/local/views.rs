//! Rows as the wire shows them.

use uuid::Uuid;

use super::core::Core;
use super::fail::Fail;
use super::store::messages::MessageRow;
use super::store::projects::ProjectRow;
use super::store::runs::{self, RunRow};
use super::store::threads::ThreadRow;
use super::store::{Tx, files, followups, identity};
use super::{lock, markdown};
use crate::sdk::wire::file::PrincipalKind;
use crate::sdk::wire::heartbeat::AgentState;
use crate::sdk::wire::message::{MessageKind, Origin, Role, RunContextMessage, Trust};
use crate::sdk::wire::person::{Message, MessageAuthor, Project, RunDocument, RunnerState, ThreadSummary};

/// A project as the person sees it.
pub fn project(core: &Core, row: &ProjectRow) -> Project {
    Project {
        channel_id: row.channel_id,
        name: row.name.clone(),
        workspace_ref: row.workspace_ref.clone(),
        ready: core.is_ready(row.channel_id),
        workspace_write: row.workspace_write,
        grant_revision: row.grant_revision,
        trust_project_settings: row.trust_project_settings,
    }
}

/// A thread as the person sees it.
pub fn thread(tx: &Tx<'_>, row: &ThreadRow) -> Result<ThreadSummary, Fail> {
    Ok(ThreadSummary {
        id: row.id,
        channel_id: row.channel_id,
        title: row.title.clone(),
        title_source: row.title_source,
        version: row.version,
        created_at: row.created_at,
        updated_at: row.updated_at,
        active_run_id: runs::open_in(tx, row.id)?.first().map(|run| run.id),
    })
}

/// A message as the person sees it.
pub fn message(tx: &Tx<'_>, row: &MessageRow) -> Result<Message, Fail> {
    let author = identity::principal(tx, row.author_id)?;
    let kind = if author.kind == "agent" { PrincipalKind::Agent } else { PrincipalKind::Person };
    Ok(Message {
        message_id: row.id,
        seq: row.seq,
        author: MessageAuthor { principal_id: author.id, display_name: author.display_name, kind },
        created_at: row.created_at,
        content_md: row.content_md.clone(),
        content_html: markdown::render(&row.content_md),
        attachments: files::of_message(tx, row.id)?.iter().map(files::FileRow::file).collect(),
        run_id: row.run_id,
        followup_id: row.followup_id,
    })
}

/// A run as the person sees it.
pub fn run(tx: &Tx<'_>, row: &RunRow) -> Result<RunDocument, Fail> {
    Ok(RunDocument {
        run_id: row.id,
        thread_id: row.thread_id,
        state: row.state,
        reason: row.reason.clone(),
        document: row.document.clone(),
        version: row.version,
        costs: row.costs.clone(),
        followups: followups::of_run(tx, row.id)?.iter().map(followups::FollowupRow::view).collect(),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
    })
}

/// A message as a run's context shows it: `trust` when the caller knows it, the session that may have it, and
/// no cut of the text (the caller cuts).
pub fn context_message(
    tx: &Tx<'_>,
    core: &Core,
    row: &MessageRow,
    trust: Option<Trust>,
    session: Option<&str>,
) -> Result<RunContextMessage, Fail> {
    let author = identity::principal(tx, row.author_id)?;
    let own = author.id == core.instance.agent_id;
    let role = match author.kind.as_str() {
        _ if own => Role::Own,
        "agent" => Role::Agent,
        "import" => Role::Import,
        _ => Role::Person,
    };
    let known = match (own, author.trusted && row.origin == Origin::Chat) {
        (true, _) => Trust::Own,
        (false, true) => Trust::Authorized,
        (false, false) => Trust::Unverified,
    };
    let trust = trust.filter(|_| known == Trust::Authorized).unwrap_or(known);
    Ok(RunContextMessage {
        message_id: row.id,
        seq: row.seq,
        author: author.principal(),
        role,
        trust,
        origin: row.origin,
        kind: MessageKind::Text,
        created_at: row.created_at,
        content_md: row.content_md.clone(),
        already_delivered: session.is_some() && row.delivered_ref.as_deref() == session,
        truncated: false,
        attachments: files::of_message(tx, row.id)?.iter().map(files::FileRow::attachment).collect(),
    })
}

/// The runner as it last showed itself.
pub fn runner(core: &Core) -> RunnerState {
    let believed = core.settings().heartbeat_interval * 3;
    let runner = lock(&core.runner);
    let age = runner.heartbeat.as_ref().map(|(_, at)| at.elapsed());
    let state = runner.heartbeat.as_ref().map(|(heartbeat, _)| heartbeat.state);
    RunnerState {
        heartbeat: runner.heartbeat.as_ref().map(|(heartbeat, _)| heartbeat.clone()),
        age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        reachable: age.is_some_and(|age| age <= believed) && state != Some(AgentState::Stopping),
    }
}

/// The id under which the runner's own changes are noted.
pub fn runner_id(core: &Core) -> Uuid {
    core.instance.agent_id
}
