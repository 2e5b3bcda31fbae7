//! getRunContext: what a turn may know of the conversation, and how far each word may be believed.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::settings::{MAX_CONTEXT_MESSAGES, MAX_CONTEXT_TEXT};
use crate::local::store::runs::{self, RunRow};
use crate::local::store::{Tx, messages, projects, sessions, threads};
use crate::local::{access, problems, views};
use crate::sdk::wire::channel::ChannelKind;
use crate::sdk::wire::message::{ContextChannel, RunContext, RunContextMessage, Trust};

/// `getRunContext`
pub fn get_run_context(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let context = core.write(|tx| {
        let run = access::path_run(tx, core, request)?;
        context_of(tx, core, run)
    })?;
    Ok(Answer::json(200, &context))
}

/// The context of `run`; its floor is kept with the run, because its end says what the session then has.
fn context_of(tx: &Tx<'_>, core: &Core, mut run: RunRow) -> Result<RunContext, Fail> {
    let thread = threads::get(tx, run.thread_id)?.ok_or_else(problems::not_found)?;
    let project = projects::get(tx, run.channel_id)?.ok_or_else(problems::not_found)?;
    let trigger = messages::get(tx, run.trigger_message_id)?.ok_or_else(problems::not_found)?;
    let session = sessions::get(tx, run.thread_id)?.filter(|session| session.started);
    let reference = session.as_ref().map(|session| session.external_session_ref.as_str());
    let floor = match reference {
        Some(reference) => messages::floor(tx, run.thread_id, reference)?.min(trigger.seq - 1),
        None => 0,
    };
    run.context_floor = floor;
    runs::update(tx, &run)?;
    let rows = messages::between(tx, run.thread_id, floor, trigger.seq, MAX_CONTEXT_MESSAGES)?;
    let first = rows.first().map(|row| row.seq);
    let mut thread_context = Vec::new();
    for row in &rows {
        thread_context.push(cut(views::context_message(tx, core, row, None, reference)?));
    }
    Ok(RunContext {
        run_id: run.id,
        thread: thread.info(),
        channel: ContextChannel { id: project.channel_id, name: project.name, kind: ChannelKind::Forum },
        channel_context: Vec::new(),
        thread_context,
        trigger_message: views::context_message(tx, core, &trigger, Some(Trust::Trigger), reference)?,
        truncated_before_seq: first.filter(|first| *first > floor + 1),
        context_floor_seq: (floor > 0).then_some(floor),
    })
}

/// What the session has already is named and not repeated; what is too long is cut between characters.
fn cut(mut message: RunContextMessage) -> RunContextMessage {
    if message.already_delivered {
        message.truncated = !message.content_md.is_empty();
        message.content_md.clear();
    } else if message.content_md.len() > MAX_CONTEXT_TEXT {
        let mut end = MAX_CONTEXT_TEXT;
        while !message.content_md.is_char_boundary(end) {
            end -= 1;
        }
        message.content_md.truncate(end);
        message.truncated = true;
    }
    message
}
