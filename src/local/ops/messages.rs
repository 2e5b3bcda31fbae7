//! createMessage, postMessage, listMessages.

use uuid::Uuid;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow::{self, Became};
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::settings::MAX_BATCH;
use crate::local::store::messages::{self, MessageRow};
use crate::local::store::threads::ThreadRow;
use crate::local::store::{Tx, files, projects, sessions, threads};
use crate::local::{access, problems, views};
use crate::sdk::wire::Time;
use crate::sdk::wire::file::UploadPhase;
use crate::sdk::wire::message::{MessageCreate, MessageCreated, Origin};
use crate::sdk::wire::person::{MessagePost, MessagePosted, Messages};
use crate::sdk::wire::problem::{code, reason};
use crate::sdk::wire::run::RunState;

/// `createMessage`: the agent's word in its run's thread.
pub fn create_message(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: MessageCreate = request.json()?;
    let files = body.attachment_file_ids.as_deref().unwrap_or_default();
    check_content(core, &body.content_md, files)?;
    let created = core.write(|tx| {
        let run = access::bound_run(tx, core, request)?;
        if run.thread_id != request.id(0)? || run.id != body.run_id {
            return Err(problems::token(reason::INVALID));
        }
        let author = core.instance.agent_id;
        if let Some(kept) = repeated(tx, request, author, body.client_msg_id)? {
            return Ok(kept);
        }
        if run.state == RunState::Cancelling {
            return Err(problems::transition());
        }
        let thread = threads::get(tx, run.thread_id)?.ok_or_else(problems::not_found)?;
        let mut row = new_row(tx, request, &thread, author, body.client_msg_id, &body.content_md)?;
        row.run_id = Some(run.id);
        row.delivered_ref = sessions::get(tx, thread.id)?.map(|session| session.external_session_ref);
        messages::add(tx, &row)?;
        attach(tx, &row, thread.channel_id, files)?;
        flow::note_message(tx, &row, thread.channel_id)?;
        Ok(row)
    })?;
    Ok(Answer::json(
        201,
        &MessageCreated { message_id: created.id, seq: created.seq, client_msg_id: body.client_msg_id },
    ))
}

/// `postMessage`: the person's word; it opens a run or becomes a follow-up.
pub fn post_message(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: MessagePost = request.json()?;
    let files = body.attachment_file_ids.as_deref().unwrap_or_default();
    check_content(core, &body.content_md, files)?;
    let author = core.instance.person_id;
    let posted = core.write(|tx| {
        let thread = threads::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        if let Some(kept) = repeated(tx, request, author, body.client_msg_id)? {
            return Ok(kept);
        }
        if projects::get(tx, thread.channel_id)?.is_none() {
            return Err(problems::http(403, code::CHANNEL_READ_ONLY).into());
        }
        let mut row = new_row(tx, request, &thread, author, body.client_msg_id, &body.content_md)?;
        messages::add(tx, &row)?;
        attach(tx, &row, thread.channel_id, files)?;
        match flow::receive(tx, core, &thread, &row)? {
            Became::Run(id) => row.run_id = Some(id),
            Became::Followup(id) => row.followup_id = Some(id),
            Became::Nothing => {}
        }
        flow::note_message(tx, &row, thread.channel_id)?;
        Ok(row)
    })?;
    Ok(Answer::json(
        201,
        &MessagePosted {
            message_id: posted.id,
            seq: posted.seq,
            client_msg_id: body.client_msg_id,
            run_id: posted.run_id.filter(|_| posted.followup_id.is_none()),
            followup_id: posted.followup_id,
        },
    ))
}

/// `listMessages`
pub fn list_messages(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let before = request.query_number("before")?.unwrap_or(i64::MAX);
    let limit = request.query_number("limit")?.unwrap_or(50).clamp(1, MAX_BATCH);
    let page = core.store.read(|tx| {
        let thread = threads::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        let rows = messages::between(tx, thread.id, 0, before, limit)?;
        let has_more = rows.first().is_some_and(|first| first.seq > 1);
        let messages = rows.iter().map(|row| views::message(tx, row)).collect::<Result<_, _>>()?;
        Ok(Messages { messages, has_more })
    })?;
    Ok(Answer::json(200, &page))
}

fn check_content(core: &Core, content: &str, files: &[Uuid]) -> Result<(), Fail> {
    let limits = core.settings().limits;
    if content.trim().is_empty() && files.is_empty() {
        return Err(problems::invalid("/content_md", "empty"));
    }
    if content.len() as u64 > limits.message_max_content_bytes || content.contains('\0') {
        return Err(problems::invalid("/content_md", "wrong_value"));
    }
    if files.len() as u64 > limits.message_max_attachments {
        return Err(problems::invalid("/attachment_file_ids", "too_many"));
    }
    Ok(())
}

/// The message that this author sent under the same id before; 422 when it was another one.
fn repeated(
    tx: &Tx<'_>,
    request: &Request,
    author: Uuid,
    client_msg_id: Uuid,
) -> Result<Option<MessageRow>, Fail> {
    match messages::by_client_id(tx, author, client_msg_id)? {
        Some(kept) if kept.fingerprint.as_deref() != Some(&request.fingerprint()) => {
            Err(problems::key_reuse())
        }
        found => Ok(found),
    }
}

fn new_row(
    tx: &Tx<'_>,
    request: &Request,
    thread: &ThreadRow,
    author_id: Uuid,
    client_msg_id: Uuid,
    content: &str,
) -> Result<MessageRow, Fail> {
    Ok(MessageRow {
        id: Uuid::now_v7(),
        thread_id: thread.id,
        seq: threads::next_seq(tx, thread.id)?,
        author_id,
        origin: Origin::Chat,
        created_at: Time::now(),
        content_md: content.to_owned(),
        client_msg_id: Some(client_msg_id),
        fingerprint: Some(request.fingerprint()),
        run_id: None,
        followup_id: None,
        delivered_ref: None,
    })
}

/// Hangs files on a message: whole uploads of its author for its channel, on no message yet (M3-12 note 15).
fn attach(tx: &Tx<'_>, message: &MessageRow, channel_id: Uuid, ids: &[Uuid]) -> Result<(), Fail> {
    for (id, position) in ids.iter().zip(0..) {
        let file = files::get(tx, *id)?.filter(|file| {
            file.phase == UploadPhase::Completed
                && file.owner_id == message.author_id
                && file.channel_id == channel_id
                && file.message_id.is_none()
        });
        let file = file.ok_or_else(|| problems::conflict_because(reason::FILE_NOT_ATTACHABLE))?;
        files::attach(tx, file.id, message.id, position)?;
    }
    Ok(())
}
