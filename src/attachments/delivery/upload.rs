//! The upload of one file: session, parts, completion, each stored before the next (D-M3-12-6, D-M3-12-9).

use uuid::Uuid;

use super::parts::{self, Slice, slice};
use super::verdict::Failure;
use super::{Delivery, Means, abort};
use crate::attachments::record::{AttachmentSetRecord, FileRecord, FileState, Plan};
use crate::sdk::bound::RunError;
use crate::sdk::upload::{PART_MAX_BYTES, PartBytes};
use crate::sdk::wire::file::{
    CompletedPart, UploadComplete, UploadCreate, UploadMode, UploadPart, UploadPhase, UploadSession,
    UploadState,
};
use crate::sdk::wire::problem::code;

/// Most parts of a file; their plan is in memory and in the record.
const PARTS_MAX: u64 = 10_000;

/// Longest mark of a part, bytes: thousands of them are in memory and in the record.
const MARK_MAX_BYTES: usize = 1024;

/// Name for the server when the announced one has nothing left to show.
const NAMELESS: &str = "file";

/// Why the upload of a file stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// This file failed, and the set with it.
    Failed(Failure),
    /// The set waits or ends for a reason that is not the file's.
    Halted(Delivery),
}

impl End {
    fn failed() -> End {
        End::Failed(Failure::failed())
    }
}

/// Uploads file number `at` of the record, from wherever it is.
pub fn file(record: &mut AttachmentSetRecord, at: usize, means: &mut Means<'_>) -> Result<(), End> {
    if record.files.get(at).is_none_or(|file| file.state == FileState::Completed) {
        return Ok(());
    }
    let mut upload = Upload { record, at, means };
    let known = upload.session()?;
    if known == Known::Maybe && upload.ask()? == Session::Lost {
        upload.start_anew()?;
    }
    upload.parts()?;
    upload.complete()
}

/// Whether the server may know more of a file than the record does.
#[derive(PartialEq)]
enum Known {
    /// The session was made just now.
    Fresh,
    /// An earlier runner may have sent parts.
    Maybe,
}

/// What the server says of a session.
#[derive(PartialEq)]
enum Session {
    /// It goes on with the parts that the record now has.
    Usable,
    /// It is over, or it is not the one that was planned.
    Lost,
}

struct Upload<'r, 'm, 'a> {
    record: &'r mut AttachmentSetRecord,
    at: usize,
    means: &'m mut Means<'a>,
}

impl Upload<'_, '_, '_> {
    fn entry(&mut self) -> &mut FileRecord {
        &mut self.record.files[self.at]
    }

    /// Nothing is sent that depends on what is not stored.
    fn store(&mut self) -> Result<(), End> {
        self.means.disk.save(self.record).map_err(|_| End::failed())
    }

    /// Asked before each request.
    fn go_on(&self) -> Result<(), End> {
        if (self.means.halt)() { Err(End::Halted(Delivery::Interrupted)) } else { Ok(()) }
    }

    /// Makes sure that the server has a session: key stored, request, id and plan stored.
    fn session(&mut self) -> Result<Known, End> {
        if self.entry().file_id.is_some() {
            return Ok(Known::Maybe);
        }
        let known = if self.entry().create_key.is_some() { Known::Maybe } else { Known::Fresh };
        let key = *self.entry().create_key.get_or_insert_with(Uuid::now_v7);
        self.copy_is_there()?;
        self.store()?;
        self.go_on()?;
        let body = create_body(self.entry());
        let session = self.means.uploads.create_upload(key, &body)?;
        self.entry().file_id = Some(session.file_id);
        self.entry().state = FileState::Created;
        self.entry().plan = plan(session, body.size_bytes);
        self.store()?;
        if self.entry().plan.is_none() { Err(self.no_plan()) } else { Ok(known) }
    }

    fn no_plan(&self) -> End {
        log::warn!("code=upload_mode_unsupported run={}", self.record.run_id);
        End::failed()
    }

    fn copy_is_there(&mut self) -> Result<(), End> {
        let (position, size) = (self.entry().position, self.entry().size_bytes);
        self.means.staging.open(position, size).map(drop).map_err(|_| End::failed())
    }

    /// Takes over what the server has; its word counts, not what the record believes (C6-03).
    fn ask(&mut self) -> Result<Session, End> {
        self.go_on()?;
        let Some(file_id) = self.entry().file_id else { return Ok(Session::Lost) };
        let state = match self.means.uploads.get_upload(file_id) {
            Err(RunError::Problem(problem)) if problem.is(code::NOT_FOUND) || problem.is(code::GONE) => {
                return Ok(Session::Lost);
            }
            other => other?,
        };
        if !take_over(self.entry(), state) {
            return Ok(Session::Lost);
        }
        self.store()?;
        Ok(Session::Usable)
    }

    /// The session cannot be used: it is given up and the file gets another one, once.
    fn start_anew(&mut self) -> Result<(), End> {
        let run = self.record.run_id;
        if let Some(file_id) = self.entry().file_id {
            abort(run, file_id, self.means.uploads);
        }
        log::info!("code=upload_started_anew run={run}");
        self.entry().start_anew();
        self.session().map(|_| ())
    }

    /// Sends every part that is not confirmed.
    fn parts(&mut self) -> Result<(), End> {
        let (Some(plan), Some(file_id)) = (self.entry().plan.clone(), self.entry().file_id) else {
            return Err(End::failed());
        };
        let (position, size) = (self.entry().position, self.entry().size_bytes);
        let copy = self.means.staging.open(position, size).map_err(|_| End::failed())?;
        let known = &self.entry().etags;
        let missing: Vec<&UploadPart> =
            plan.parts.iter().filter(|part| !known.contains_key(&part.part_number)).collect();
        let slice = |part: &&UploadPart| slice(size, plan.part_size_bytes, part.part_number);
        let slices: Vec<Slice> = missing.iter().map(slice).collect();
        parts::each(copy, &slices, End::failed, |at, bytes| self.part(file_id, missing[at], bytes))
    }

    /// The mark is stored with the others before the completion that needs it; until then the server knows it.
    fn part(&mut self, file_id: Uuid, part: &UploadPart, bytes: &PartBytes) -> Result<(), End> {
        self.go_on()?;
        let result = self.means.uploads.upload_part(file_id, part, bytes)?;
        if result.part_number != part.part_number || result.etag.len() > MARK_MAX_BYTES {
            return Err(End::failed());
        }
        self.entry().etags.insert(part.part_number, result.etag);
        Ok(())
    }

    /// Key stored, request, result stored. The answer must speak of the file that was sent.
    fn complete(&mut self) -> Result<(), End> {
        let Some(file_id) = self.entry().file_id else { return Err(End::failed()) };
        let key = *self.entry().complete_key.get_or_insert_with(Uuid::now_v7);
        self.store()?;
        self.go_on()?;
        let etags = self.entry().etags.iter();
        let parts = etags.map(|(number, etag)| CompletedPart { part_number: *number, etag: etag.clone() });
        let body = UploadComplete { parts: parts.collect() };
        let file = self.means.uploads.complete_upload(file_id, key, &body)?;
        let entry = self.entry();
        let same_bytes =
            file.size_bytes == entry.size_bytes && file.sha256.eq_ignore_ascii_case(&entry.sha256);
        if file.file_id != file_id || !same_bytes {
            return Err(End::failed());
        }
        self.entry().state = FileState::Completed;
        self.store()
    }
}

/// Name, length and hash; no type is declared, the server finds it out itself (C5-19).
fn create_body(file: &FileRecord) -> UploadCreate {
    let name = if file.name.is_empty() { NAMELESS } else { &file.name };
    UploadCreate { name: name.to_owned(), size_bytes: file.size_bytes, sha256: file.sha256.clone() }
}

/// The plan of a session in mode direct whose parts are exactly those that the length needs; none otherwise.
fn plan(session: UploadSession, size: u64) -> Option<Plan> {
    let fits = (1..=PART_MAX_BYTES).contains(&session.part_size_bytes);
    if session.mode != UploadMode::Direct || !fits {
        return None;
    }
    let count = size.div_ceil(session.part_size_bytes);
    let numbers = session.parts.iter().map(|part| u64::from(part.part_number));
    let whole = count <= PARTS_MAX && numbers.eq(1..=count);
    whole.then_some(Plan { part_size_bytes: session.part_size_bytes, parts: session.parts })
}

/// Replaces the confirmed parts by the server's, when the session is the planned one and can go on. Parts that the
/// plan does not have, or of another length, mean that it is not.
fn take_over(file: &mut FileRecord, state: UploadState) -> bool {
    let Some(plan) = &file.plan else { return false };
    let own = |number: u32, size: Option<u64>| {
        let planned = plan.parts.iter().any(|part| part.part_number == number);
        planned && size.is_none_or(|size| size == slice(file.size_bytes, plan.part_size_bytes, number).1)
    };
    let planned = state.part_size_bytes == plan.part_size_bytes
        && state.parts.iter().all(|part| own(part.part_number, part.size_bytes))
        && state.parts.iter().all(|part| part.etag.len() <= MARK_MAX_BYTES);
    let count = plan.parts.len();
    let parts = state.parts.into_iter().map(|part| (part.part_number, part.etag));
    match state.state {
        UploadPhase::Open if planned => file.etags = parts.collect(),
        // A whole file may be told without its parts; those that are known make the same completion again.
        UploadPhase::Completed if planned => file.etags.extend(parts),
        _ => return false,
    }
    state.state == UploadPhase::Open || file.etags.len() == count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(mode: UploadMode, part_size_bytes: u64, numbers: &[u32]) -> UploadSession {
        let part = |number: &u32| UploadPart { part_number: *number, headers: Vec::new() };
        UploadSession {
            file_id: Uuid::nil(),
            mode,
            part_size_bytes,
            parts: numbers.iter().map(part).collect(),
            expires_at: serde_json::from_str("\"2030-01-01T00:00:00.000Z\"").unwrap(),
        }
    }

    #[test]
    fn a_plan_that_does_not_fit_is_none() {
        let direct = UploadMode::Direct;
        let rows = [
            ("fits", session(direct, 4, &[1, 2, 3]), true),
            ("presigned", session(UploadMode::Presigned, 4, &[1, 2, 3]), false),
            ("a part is missing", session(direct, 4, &[1, 3]), false),
            ("a part too many", session(direct, 4, &[1, 2, 3, 4]), false),
            ("not in order", session(direct, 4, &[2, 1, 3]), false),
            ("twice the same", session(direct, 4, &[1, 1, 2]), false),
            ("from zero", session(direct, 4, &[0, 1, 2]), false),
            ("no parts", session(direct, 4, &[]), false),
            ("no size", session(direct, 0, &[1]), false),
            ("a huge part", session(direct, PART_MAX_BYTES + 1, &[1]), false),
        ];
        for (what, session, expected) in rows {
            assert_eq!(plan(session, 10).is_some(), expected, "{what}");
        }
        let numbers: Vec<u32> = (1..=20_000).collect();
        assert!(plan(session(direct, 1, &numbers), 20_000).is_none());
    }
}
