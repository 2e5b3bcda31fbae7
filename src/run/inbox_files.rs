//! The files of a message that this run may read, into the inbox of its thread (IN-1 to IN-6).

use std::io::Write;

use uuid::Uuid;

use super::Run;
use super::end::{Cause, End};
use crate::attachments::incoming::{Fetch, Inbox, Interrupt, Stored};
use crate::sdk::bound::{Bound, RunError};
use crate::sdk::context::FileText;
use crate::sdk::wire::message::RunContextMessage;

/// Fetches every file of `message` that may be fetched; one that cannot be had is named with its code.
///
/// # Errors
/// The end that was asked for meanwhile, or that the server decided.
pub fn fetch(run: &Run, message: &RunContextMessage) -> Result<Vec<(Uuid, FileText)>, End> {
    if message.attachments.is_empty() {
        return Ok(Vec::new());
    }
    let inbox = Inbox::new(run.shared.state.root(), run.entry()?.invocation.thread_id);
    let limit = largest_file(run)?;
    let mut texts = Vec::new();
    for file in &message.attachments {
        let stored = loop {
            match inbox.store(file, limit, &Download(&run.bound), &mut |_| {}) {
                Ok(stored) => break stored,
                Err(Interrupt::Hold) => run.wait_for_server()?,
                Err(Interrupt::Ended) => return Err(run.end_of_request(&RunError::Ended, Cause::ServerEnded)),
                Err(Interrupt::ShutDown) => {
                    return Err(run.end_of_request(&RunError::ShutDown, Cause::Detached));
                }
            }
        };
        texts.push((file.file_id, text(stored)));
    }
    Ok(texts)
}

/// `file_max_upload_bytes` of the instance; without an answer the announced sizes alone are the bound.
fn largest_file(run: &Run) -> Result<u64, End> {
    match run.bound.get_instance() {
        Ok(instance) => Ok(instance.limits.file_max_upload_bytes),
        Err(error @ (RunError::Ended | RunError::ShutDown)) => {
            Err(run.end_of_request(&error, Cause::ServerEnded))
        }
        Err(error) => {
            log::warn!("code=limits_unavailable run={} error={}", run.run_id, error.code());
            Ok(u64::MAX)
        }
    }
}

fn text(stored: Stored) -> FileText {
    match stored {
        Stored::Local(path) => FileText::Local(path),
        Stored::Unavailable(code) => FileText::Unavailable(code.code().to_owned()),
    }
}

struct Download<'a>(&'a Bound);

impl Fetch for Download<'_> {
    fn fetch(
        &self,
        file_id: Uuid,
        limit: u64,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, RunError> {
        self.0.download_file(file_id, limit, sink, progress)
    }
}
