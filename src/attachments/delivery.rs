//! The upload of a staged set: all files or none, one request after the other (D-M3-12-6, D-M3-12-9).
//!
//! Each step is "store what the request depends on, make the request, store what it answered", so a runner that dies
//! between any two of them goes on at the same place: no file is uploaded twice. This module must not know HTTP, tokens
//! or retries; the requests stand behind [`Uploads`].

mod parts;
mod upload;
mod verdict;

use uuid::Uuid;

use super::outcome::Outcome;
use super::record::{AttachmentSetRecord, FileState, Persist};
use super::staging::Staging;
use crate::sdk::bound::RunError;
use crate::sdk::upload::PartBytes;
use crate::sdk::wire::file::{
    File, PartResult, UploadComplete, UploadCreate, UploadPart, UploadSession, UploadState,
};

pub use verdict::refuses_attachments;

/// The requests of an upload, made inside the run binding for the run's channel. Each one is repeated by its
/// implementation where that is safe; what comes back is final.
pub trait Uploads {
    /// `createUpload` with the stored key.
    fn create_upload(&self, key: Uuid, body: &UploadCreate) -> Result<UploadSession, RunError>;
    /// `uploadPart` with the part's headers and the digest of its bytes.
    fn upload_part(
        &self,
        file_id: Uuid,
        part: &UploadPart,
        bytes: &PartBytes,
    ) -> Result<PartResult, RunError>;
    /// `getUpload`.
    fn get_upload(&self, file_id: Uuid) -> Result<UploadState, RunError>;
    /// `completeUpload` with the stored key.
    fn complete_upload(&self, file_id: Uuid, key: Uuid, body: &UploadComplete) -> Result<File, RunError>;
    /// `abortUpload`.
    fn abort_upload(&self, file_id: Uuid) -> Result<(), RunError>;
}

/// How the upload of a set ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// Every file is whole on the server: their ids in the order of announcement.
    Uploaded(Vec<Uuid>),
    /// The answer goes without files; what became of each.
    Failed(Vec<Outcome>),
    /// The server ended the run: no answer, no finish (M3-12 note 7 f).
    RunEnded,
    /// The credentials are refused for now: the same call again later goes on.
    Held,
    /// A stop: the record stays as it is. After a stop of the run, [`abort_open`] follows.
    Interrupted,
}

/// What an upload works with.
pub struct Means<'a> {
    /// The requests.
    pub uploads: &'a dyn Uploads,
    /// The staged copies.
    pub staging: &'a Staging,
    /// Where the record is stored.
    pub disk: &'a mut dyn Persist,
    /// Whether a stop is wanted; asked before each request, so none starts after it.
    pub halt: &'a dyn Fn() -> bool,
}

/// Uploads every file of `record` that is not whole yet. Made for a fresh record and for one of an earlier runner alike.
///
/// The record is stored before each request that depends on it, and its last state when this returns.
pub fn upload_set(record: &mut AttachmentSetRecord, means: &mut Means<'_>) -> Delivery {
    for at in 0..record.files.len() {
        if !record.outcomes.is_empty() {
            break;
        }
        match upload::file(record, at, means) {
            Ok(()) => {}
            Err(upload::End::Failed(failure)) => give_up(record, at, failure, means),
            Err(upload::End::Halted(delivery)) => return delivery,
        }
    }
    match record.uploaded() {
        Some(ids) => Delivery::Uploaded(ids),
        None => Delivery::Failed(record.outcomes.clone()),
    }
}

/// The set fails for file number `at`: stored first, so that a runner that dies now does not begin anew; then the open
/// session of this file, and only of this one, is aborted.
fn give_up(record: &mut AttachmentSetRecord, at: usize, failure: verdict::Failure, means: &mut Means<'_>) {
    let (run, answer) = (record.run_id, record.answer);
    let Some(file) = record.files.get_mut(at) else { return };
    let open = file.file_id.filter(|_| file.state == FileState::Created);
    let position = file.position;
    file.state = FileState::Failed;
    log::info!(
        "code=attachment_failed run={run} answer={answer} position={position} reason={}",
        failure.reason.code()
    );
    record.fail(position, failure.reason, failure.refusal);
    if means.disk.save(record).is_err() {
        log::warn!("code=attachment_record_not_stored run={run} answer={answer}");
    }
    if let Some(file_id) = open {
        abort(run, file_id, means.uploads);
    }
}

/// Aborts every session of the set that is open, after a stop of the run; whole files stay for the server's cleanup.
///
/// `uploads` works in spite of the stop. Errors change nothing (M3-12 note 10 d).
pub fn abort_open(record: &AttachmentSetRecord, uploads: &dyn Uploads) {
    let open = record.files.iter().filter(|file| file.state == FileState::Created);
    for file_id in open.filter_map(|file| file.file_id) {
        abort(record.run_id, file_id, uploads);
    }
}

fn abort(run: Uuid, file_id: Uuid, uploads: &dyn Uploads) {
    if let Err(fault) = uploads.abort_upload(file_id) {
        log::info!("code=upload_abort_failed run={run} error={}", fault.code());
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
