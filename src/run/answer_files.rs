//! An answer with `ATTACH:` lines: check, stage, upload, attach; all of its files or none (D-M3-12-5 to -9).
//!
//! The decisions are in `attachments`; here they meet the run: its directories, its requests, its record.

use std::path::{Path, PathBuf};
use std::time::Instant;

use uuid::Uuid;

use super::answer;
use super::end::{Cause, End};
use super::record::TurnRecord;
use super::waiting::STATUS_LINE;
use super::{Run, channels};
use crate::attachments::attach_lines::Split;
use crate::attachments::candidate::Rules;
use crate::attachments::delivery::{self, Delivery, Means, Uploads};
use crate::attachments::notice;
use crate::attachments::outcome::Outcome;
use crate::attachments::policy::{Patterns, Places, RootName, Roots};
use crate::attachments::record::{self, AttachmentSetRecord, Persist, RecordFile};
use crate::attachments::set;
use crate::attachments::staging::{self, Staging};
use crate::sdk::bound::{Bound, RunError};
use crate::sdk::upload::PartBytes;
use crate::sdk::wire::file::{
    File, InstanceLimits, PartResult, UploadComplete, UploadCreate, UploadPart, UploadSession, UploadState,
};
use crate::sdk::wire::message::MessageCreate;
use crate::sdk::wire::problem::Problem;
use crate::sys::atomic_file;
use crate::sys::beneath::FileId;

/// What `/status_line` says while files are sent (M3-12 note 7).
const UPLOADING: &str = "uploading_attachments";

/// Sends the answer at `position` with its files, or without them and with a notice.
///
/// # Errors
/// The end that was asked for meanwhile, that the server decided, or a fault of the state directory.
pub fn post(run: &mut Run, position: u32, split: &Split) -> Result<(), End> {
    let mut disk = record_file(run, position)?;
    let mut set = match disk.load() {
        Ok(Some(set)) => set,
        Ok(None) => {
            let set = new_set(run, position, &split.paths)?;
            disk.save(&set).map_err(|fault| run.end_of_file(&fault))?;
            set
        }
        // Its keys are lost: sending the files again could send them twice.
        Err(fault) => {
            log::error!("code={} run={}", fault.code(), run.run_id);
            lost(run, position, &split.paths)
        }
    };
    match upload(run, position, &mut set, &mut disk)? {
        Ok(ids) => {
            let key = answer::plan(run, position)?;
            set.client_msg_id = Some(key);
            disk.save(&set).map_err(|fault| run.end_of_file(&fault))?;
            answer::send(run, key, split.text.clone(), Some(ids))
        }
        Err(outcomes) => {
            let key = answer::plan(run, position)?;
            set.fallback_msg_id = Some(key);
            disk.save(&set).map_err(|fault| run.end_of_file(&fault))?;
            answer::send(run, key, notice::append(&split.text, &outcomes, set.names_shown), None)
        }
    }
}

/// An answer that an earlier life of the runner has planned: when the record of its files is lost, one without keys
/// takes its place, so that nothing is sent twice and a notice still has every name.
pub fn keep_names(run: &Run, position: u32, paths: &[String]) {
    let Ok(mut disk) = record_file(run, position) else { return };
    if paths.is_empty() || matches!(disk.load(), Ok(Some(_))) {
        return;
    }
    let kept = disk.save(&lost(run, position, paths)).is_ok();
    log::error!("code=attachment_record_lost run={} answer={position} kept={kept}", run.run_id);
}

fn lost(run: &Run, position: u32, paths: &[String]) -> AttachmentSetRecord {
    set::lost(paths, &|text| run.mask.apply(text).into_owned(), run.run_id, position)
}

/// The server would not attach the files of the message `body`: the answer goes again without them, under a new key,
/// because the same key with another body is refused (D-M3-12-8).
///
/// # Errors
/// A fault of the state directory.
pub fn send_without(
    run: &mut Run,
    position: u32,
    body: &MessageCreate,
    problem: &Problem,
) -> Result<(), End> {
    let mut disk = record_file(run, position)?;
    // Without a record the names are gone, but never the word that files are missing.
    let nameless = || vec![String::new(); body.attachment_file_ids.as_ref().map_or(0, Vec::len)];
    let mut set = match disk.load() {
        Ok(Some(set)) => set,
        Ok(None) | Err(_) => lost(run, position, &nameless()),
    };
    set.not_attached(problem);
    let key = *set.fallback_msg_id.get_or_insert_with(Uuid::now_v7);
    disk.save(&set).map_err(|fault| run.end_of_file(&fault))?;
    // Stored before the answer's key changes, so that a crash in between finds the message again.
    answer::send(run, key, notice::append(&body.content_md, &set.outcomes, set.names_shown), None)?;
    answer::change_key(run, position, key)
}

/// The answer is settled: its copies and its record go.
pub fn forget(run: &Run, position: u32) {
    let copies = staging(run, position).remove();
    let record = record_file(run, position).map(|disk| disk.remove());
    if copies.is_err() || matches!(record, Ok(Err(_))) {
        log::warn!("code=staging_not_removed run={} answer={position}", run.run_id);
    }
}

/// The run ends: upload sessions that are still open are aborted, best effort (M3-12 note 10 d).
pub fn abort_open(run: &Run) {
    let Some(turn) = run.record.as_ref().map(|record| record.get()) else { return };
    let requests = Requests { bound: &run.bound, channel_id: turn.channel_id };
    for position in positions(run) {
        if let Ok(Ok(Some(set))) = record_file(run, position).map(|disk| disk.load()) {
            delivery::abort_open(&set, &requests);
        }
    }
}

/// The run has ended: the records of every answer go, and the directory of its copies, whatever is in it.
pub fn forget_all(run: &Run) {
    positions(run).for_each(|position| forget(run, position));
    if staging::remove_run(run.shared.state.root(), run.run_id).is_err() {
        log::warn!("code=staging_not_removed run={}", run.run_id);
    }
}

/// One more than planned: an answer gets its place in the turn record only once its files are up.
fn positions(run: &Run) -> impl Iterator<Item = u32> + use<> {
    let planned = run.record.as_ref().map_or(0, |record| record.get().answers.len());
    1..=u32::try_from(planned).unwrap_or(u32::MAX - 1) + 1
}

/// Checks and stages the announced files.
fn new_set(run: &mut Run, position: u32, paths: &[String]) -> Result<AttachmentSetRecord, End> {
    let limits = limits(run)?;
    let roots = roots(run)?;
    let denied = Patterns::new(&run.shared.config.runner.attach_denied_patterns);
    let mask = run.mask.clone();
    let mask = |text: &str| mask.apply(text).into_owned();
    let rules = Rules { roots: &roots, denied: &denied, limits, mask: &mask };
    let begun = Instant::now();
    let mut set = set::prepare(paths, &rules, &staging(run, position), run.run_id, position);
    let bytes: u64 = set.files.iter().map(|file| file.size_bytes).sum();
    log::info!(
        "code=attachments_staged run={} answer={position} files={} bytes={bytes} ms={}",
        run.run_id,
        set.files.len(),
        begun.elapsed().as_millis()
    );
    set.names_shown = limits.map(|limits| limits.message_max_attachments);
    Ok(set)
}

/// The server's limits, read once per answer; without them nothing is sent (D-M3-12-5).
fn limits(run: &Run) -> Result<Option<InstanceLimits>, End> {
    loop {
        match run.bound.get_instance() {
            Ok(instance) => return Ok(Some(instance.limits)),
            Err(error @ (RunError::Ended | RunError::ShutDown)) => {
                return Err(run.end_of_request(&error, Cause::ServerEnded));
            }
            Err(RunError::Hold(_)) => run.wait_for_server()?,
            Err(error) => {
                log::warn!("code=limits_unavailable run={} error={}", run.run_id, error.code());
                return Ok(None);
            }
        }
    }
}

/// The roots of this run, the project only while its directory and its binding are those of the start (IN-9).
fn roots(run: &Run) -> Result<Roots, End> {
    let turn = turn_record(run)?;
    let project =
        binding_holds(run, turn).then_some(FileId { device: turn.project.device, inode: turn.project.inode });
    let inbox = relative(run, &run.shared.state.thread_inbox(turn.thread_id));
    let temp = relative(run, &run.shared.state.run_temp(run.run_id));
    let names = run.shared.config.runner.attach_allowed_roots.iter();
    // The configuration knows no other names.
    let allowed: Vec<RootName> = names.filter_map(|name| RootName::from_name(name)).collect();
    let places = Places {
        working_dir: &turn.project.path,
        project,
        projects_root: &run.shared.config.runner.projects_root,
        state_dir: run.shared.state.root(),
        thread_inbox: &inbox,
        runner_temp: &temp,
    };
    Roots::open(&places, &allowed, turn.tool_class).map_err(|fault| run.end_of_file(&fault))
}

fn binding_holds(run: &Run, turn: &TurnRecord) -> bool {
    let channel = run.shared.channels.get(turn.channel_id);
    let bound = channel.as_ref().and_then(channels::binding);
    bound.is_some_and(|binding| binding.workspace_ref == turn.project.workspace_ref)
}

fn relative(run: &Run, path: &Path) -> PathBuf {
    path.strip_prefix(run.shared.state.root()).unwrap_or(path).to_owned()
}

/// Uploads the set: the files' ids, or what became of each of them.
fn upload(
    run: &mut Run,
    position: u32,
    set: &mut AttachmentSetRecord,
    disk: &mut RecordFile,
) -> Result<Result<Vec<Uuid>, Vec<Outcome>>, End> {
    if !set.outcomes.is_empty() {
        return Ok(Err(set.outcomes.clone()));
    }
    run.document.set(STATUS_LINE, UPLOADING.into());
    let begun = Instant::now();
    let uploaded = upload_all(run, position, set, disk);
    let (sent, ms) = (matches!(uploaded, Ok(Ok(_))), begun.elapsed().as_millis());
    log::info!("code=attachments_uploaded run={} answer={position} all={sent} ms={ms}", run.run_id);
    run.document.remove(STATUS_LINE);
    uploaded
}

fn upload_all(
    run: &mut Run,
    position: u32,
    set: &mut AttachmentSetRecord,
    disk: &mut RecordFile,
) -> Result<Result<Vec<Uuid>, Vec<Outcome>>, End> {
    loop {
        match upload_once(run, position, set, disk)? {
            Delivery::Uploaded(ids) => return Ok(Ok(ids)),
            Delivery::Failed(outcomes) => return Ok(Err(outcomes)),
            Delivery::RunEnded => return Err(run.end_of_request(&RunError::Ended, Cause::ServerEnded)),
            Delivery::Held => run.wait_for_server()?,
            Delivery::Interrupted => {
                run.check_cancel()?;
                return Err(End::by(Cause::Detached));
            }
        }
    }
}

fn upload_once(
    run: &mut Run,
    position: u32,
    set: &mut AttachmentSetRecord,
    disk: &mut RecordFile,
) -> Result<Delivery, End> {
    let staging = staging(run, position);
    let channel_id = turn_record(run)?.channel_id;
    let requests = Requests { bound: &run.bound, channel_id };
    let halt = || run.cancel.reason().is_some();
    let mut means = Means { uploads: &requests, staging: &staging, disk, halt: &halt };
    Ok(run.document.sent_beside(&run.bound, || delivery::upload_set(set, &mut means)))
}

fn record_file(run: &Run, position: u32) -> Result<RecordFile, End> {
    let session = turn_record(run)?.session.id;
    let path = record::path(run.shared.state.root(), session, run.run_id, position);
    Ok(RecordFile::new(path, atomic_file::write))
}

fn staging(run: &Run, position: u32) -> Staging {
    Staging::new(run.shared.state.root(), run.run_id, position)
}

fn turn_record(run: &Run) -> Result<&TurnRecord, End> {
    run.record.as_ref().map(|record| record.get()).ok_or(End::by(Cause::StateFault))
}

/// The upload requests of one run.
struct Requests<'a> {
    bound: &'a Bound,
    channel_id: Uuid,
}

impl Uploads for Requests<'_> {
    fn create_upload(&self, key: Uuid, body: &UploadCreate) -> Result<UploadSession, RunError> {
        self.bound.create_upload(self.channel_id, key, body)
    }

    fn upload_part(
        &self,
        file_id: Uuid,
        part: &UploadPart,
        bytes: &PartBytes,
    ) -> Result<PartResult, RunError> {
        self.bound.upload_part(file_id, part, bytes)
    }

    fn get_upload(&self, file_id: Uuid) -> Result<UploadState, RunError> {
        self.bound.get_upload(file_id)
    }

    fn complete_upload(&self, file_id: Uuid, key: Uuid, body: &UploadComplete) -> Result<File, RunError> {
        self.bound.complete_upload(file_id, key, body)
    }

    fn abort_upload(&self, file_id: Uuid) -> Result<(), RunError> {
        self.bound.abort_upload(file_id)
    }
}
