//! The conversation of one question: thread, files, message, run, answer, files.

use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::home::Home;
use super::interrupts::{Interrupts, stopped};
use super::report::Reply;
use super::save;
use super::track::{self, Tracker};
use super::upload::{self, Attachment};
use crate::cli::exit::Failure;
use crate::cli::show::Live;
use crate::sdk::wire::file::PrincipalKind;
use crate::sdk::wire::person::{Message, MessagePost, MessagePosted, RunDocument};

/// Longest wait for a change before Ctrl-C and the runner are looked at again.
const LOOK: Duration = Duration::from_millis(400);

/// What is asked, of whom.
pub struct Question<'a> {
    /// Server, runner and project.
    pub home: &'a Home,
    /// The thread to go on with; a new one otherwise.
    pub thread: Option<Uuid>,
    /// The message.
    pub text: &'a str,
    /// Its files.
    pub attachments: &'a [Attachment],
    /// Where the answer's files go.
    pub out: &'a Path,
    /// Ctrl-C.
    pub interrupts: &'a Interrupts,
}

/// Asks and waits for the end of the run.
///
/// # Errors
/// What kept the question from being asked or followed.
pub fn converse(question: &Question<'_>, live: &mut Live) -> Result<Reply, Failure> {
    let person = &question.home.person;
    if !question.attachments.is_empty() {
        upload::within(question.attachments, &person.limits()?)?;
    }
    let thread_id = thread(question)?;
    // Said at once: whatever happens from here on, this is where the answer will be.
    live.note(&format!("thread {thread_id}"));
    let files = send_files(question, live)?;
    question.interrupts.check()?;
    let message = MessagePost {
        client_msg_id: Uuid::now_v7(),
        content_md: question.text.to_owned(),
        attachment_file_ids: (!files.is_empty()).then_some(files),
    };
    let posted = person.post_message(thread_id, &message)?;
    // From here on the turn does not need this program any more.
    let run = follow(question, thread_id, &posted, live).map_err(|failure| Failure {
        message: format!("{}\n{}", failure.message, question.home.way_on(thread_id)),
        ..failure
    })?;
    let answers = answers(question, thread_id, &posted)?;
    let (mut saved, mut unsaved) = (Vec::new(), Vec::new());
    for file in answers.iter().flat_map(|answer| &answer.attachments) {
        // A file that cannot be saved must not take the answer with it.
        match save::save(person, file, question.out, live) {
            Ok(file) => saved.push(file),
            Err(failure) => unsaved.push(failure.message),
        }
    }
    Ok(Reply { run, answers, saved, unsaved, interrupted: question.interrupts.count() > 0 })
}

/// The thread to ask in: a new one, or a known one of this project.
fn thread(question: &Question<'_>) -> Result<Uuid, Failure> {
    let (person, channel_id) = (&question.home.person, question.home.project.channel_id);
    let Some(wanted) = question.thread else { return Ok(person.create_thread(channel_id)?.id) };
    let mut cursor: Option<String> = None;
    loop {
        let page = person.threads(channel_id, cursor.as_deref())?;
        if page.threads.iter().any(|thread| thread.id == wanted) {
            return Ok(wanted);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Err(Failure::usage(format!(
                "this project has no thread {wanted}; leave --thread out for a new one"
            )));
        }
    }
}

fn send_files(question: &Question<'_>, live: &Live) -> Result<Vec<Uuid>, Failure> {
    let (person, channel_id) = (&question.home.person, question.home.project.channel_id);
    let send = |attachment| upload::send(person, channel_id, attachment, question.interrupts, live);
    question.attachments.iter().map(send).collect()
}

/// Follows the run that the message opened or joined; a follow-up that nobody read has a run of its own then.
fn follow(
    question: &Question<'_>,
    thread_id: Uuid,
    posted: &MessagePosted,
    live: &mut Live,
) -> Result<RunDocument, Failure> {
    let mut run_id = match posted.run_id {
        Some(run_id) => run_id,
        None => joined(question, thread_id, posted)?,
    };
    loop {
        let run = watch(question, run_id, live)?;
        let messages = question.home.person.messages(thread_id)?.messages;
        let own = messages.iter().find(|message| message.message_id == posted.message_id);
        match own.and_then(|message| message.run_id).filter(|opened| *opened != run_id) {
            Some(opened) if posted.followup_id.is_some() => run_id = opened,
            _ => return Ok(run),
        }
    }
}

/// The run whose follow-up the message became.
fn joined(question: &Question<'_>, thread_id: Uuid, posted: &MessagePosted) -> Result<Uuid, Failure> {
    let runs = question.home.person.runs(thread_id)?;
    let holds = |run: &&RunDocument| {
        run.followups.iter().any(|followup| Some(followup.followup_id) == posted.followup_id)
    };
    let run = runs.iter().find(holds).map(|run| run.run_id);
    run.ok_or_else(|| Failure::new("the message was taken, but no run of it can be found"))
}

/// Shows one run until it ends. Ctrl-C stops it on the server; the second time nobody waits for it any more.
fn watch(question: &Question<'_>, run_id: Uuid, live: &mut Live) -> Result<RunDocument, Failure> {
    let person = &question.home.person;
    let (mut tracker, mut position, mut asked_to_stop) = (Tracker::default(), None, false);
    loop {
        let run = person.run(run_id)?;
        tracker.news(&run).iter().for_each(|line| live.note(line));
        live.activity(&track::activity(&run));
        if run.state.is_final() {
            track::context(&run).iter().for_each(|line| live.note(line));
            return Ok(run);
        }
        match question.interrupts.count() {
            0 => {}
            1 if asked_to_stop => {}
            1 => {
                asked_to_stop = true;
                live.note("stopping the run; Ctrl-C again waits no longer");
                person.cancel(run_id)?;
            }
            _ => return Err(stopped("stopped before the run had ended")),
        }
        if let Some(fault) = question.home.fault() {
            return Err(fault);
        }
        let changes = person.changes(position, LOOK)?;
        let lost = position.is_some_and(|position| position < changes.oldest_seq);
        let last = changes.changes.last().map(|change| change.seq);
        position = if lost { None } else { last.or(position) };
    }
}

/// What the agent wrote in the thread after the message, in order.
fn answers(
    question: &Question<'_>,
    thread_id: Uuid,
    posted: &MessagePosted,
) -> Result<Vec<Message>, Failure> {
    let messages = question.home.person.messages(thread_id)?.messages;
    let answers = |message: &Message| message.seq > posted.seq && message.author.kind == PrincipalKind::Agent;
    Ok(messages.into_iter().filter(answers).collect())
}
