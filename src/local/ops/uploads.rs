//! createUpload, uploadPart, getUpload, completeUpload, abortUpload, by the agent inside its run and by the person.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::{Answer, Headers};
use crate::local::request::{Body, Caller, Request};
use crate::local::secrets;
use crate::local::settings::{MAX_OPEN_UPLOADS, MAX_PARTS};
use crate::local::store::files::{self, FileRow};
use crate::local::store::{Tx, identity, projects};
use crate::local::{access, lock, problems, rules};
use crate::sdk::wire::Time;
use crate::sdk::wire::file::{
    HeaderPair, PartResult, UploadComplete, UploadCreate, UploadMode, UploadPart, UploadPhase, UploadSession,
    UploadState,
};
use crate::sdk::wire::message::ScanStatus;
use crate::sdk::wire::problem::{code, reason};
use crate::sys::digest::hex;

/// The field that each part must carry, with the value its session names.
const PART_TOKEN_HEADER: &str = "Upload-Part-Token";
/// Letters of a part's mark: enough of its hash to tell parts apart.
const ETAG_LETTERS: usize = 32;

/// `createUpload`
pub fn create_upload(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: UploadCreate = request.json()?;
    check_announced(core, &body)?;
    core.write(|tx| {
        let channel_id = request.id(0)?;
        let run_id = binding(tx, core, request, channel_id)?;
        if projects::get(tx, channel_id)?.is_none() {
            return Err(problems::not_found());
        }
        request.keyed(core, tx, || {
            let row = new_session(core, request, channel_id, run_id, &body)?;
            let (used, open) = files::usage(tx, row.owner_id)?;
            let quota = core.settings().upload_quota_bytes;
            if used.saturating_add(row.size_bytes) > quota || open >= MAX_OPEN_UPLOADS {
                return Err(problems::conflict_because(reason::QUOTA_EXCEEDED));
            }
            files::add(tx, &row)?;
            Ok(Answer::json(201, &session(&row)))
        })
    })
}

fn check_announced(core: &Core, body: &UploadCreate) -> Result<(), Fail> {
    let settings = core.settings();
    if !rules::file_name(&body.name, settings.limits.file_name_max_bytes) {
        return Err(problems::file_name(settings.limits.file_name_max_bytes));
    }
    if !rules::sha256_hex(&body.sha256) {
        return Err(problems::invalid("/sha256", "wrong_value"));
    }
    if body.size_bytes == 0 {
        return Err(problems::invalid("/size_bytes", "empty"));
    }
    if body.size_bytes > settings.limits.file_max_upload_bytes
        || body.size_bytes.div_ceil(settings.part_size_bytes.max(1)) > MAX_PARTS
    {
        return Err(problems::too_large().into());
    }
    Ok(())
}

fn new_session(
    core: &Core,
    request: &Request,
    channel_id: Uuid,
    run_id: Option<Uuid>,
    body: &UploadCreate,
) -> Result<FileRow, Fail> {
    let settings = core.settings();
    let life = i64::try_from(settings.upload_life.as_millis()).unwrap_or(i64::MAX);
    Ok(FileRow {
        id: Uuid::now_v7(),
        owner_id: request.principal(core),
        channel_id,
        run_id,
        name: body.name.clone(),
        size_bytes: body.size_bytes,
        sha256: body.sha256.clone(),
        mime_type: "application/octet-stream".to_owned(),
        scan_status: ScanStatus::Skipped,
        phase: UploadPhase::Open,
        part_size_bytes: settings.part_size_bytes.max(1),
        part_token: secrets::random().ok_or_else(|| std::io::Error::other("no random bytes"))?,
        expires_at: Time::from_millis(Time::now().as_millis().saturating_add(life)),
        message_id: None,
    })
}

fn session(row: &FileRow) -> UploadSession {
    let headers = vec![HeaderPair { name: PART_TOKEN_HEADER.to_owned(), value: row.part_token.clone() }];
    let numbers = 1..=row.last_part();
    UploadSession {
        file_id: row.id,
        mode: UploadMode::Direct,
        part_size_bytes: row.part_size_bytes,
        parts: numbers.map(|part_number| UploadPart { part_number, headers: headers.clone() }).collect(),
        expires_at: row.expires_at,
    }
}

/// `uploadPart`: the same bytes again are no error, other bytes are.
pub fn upload_part(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let Body::File(incoming) = &request.body else { return Err(problems::invalid("", "no_body")) };
    let mut incoming = lock(incoming);
    let came = incoming.digest();
    let row = core.store.read(|tx| own_file(tx, core, request))?;
    let number = u64::from(request.number);
    let expected = row.part_length(number).ok_or_else(problems::not_found)?;
    if request.headers.get(PART_TOKEN_HEADER) != Some(row.part_token.as_str()) {
        return Err(problems::forbidden().into());
    }
    if came.length != expected {
        return Err(problems::invalid("/Content-Length", "wrong_length"));
    }
    if content_digest(&request.headers) != Some(came.sha256) {
        return Err(problems::invalid("/Content-Digest", "digest_mismatch"));
    }
    let etag = hex(&came.sha256)[..ETAG_LETTERS].to_owned();
    let part = PartResult { part_number: request.number, etag, size_bytes: None };
    let marked = || Answer::json(200, &part).with("ETag", format!("\"{}\"", part.etag));
    if known_part(core, request, &part)? {
        return Ok(marked());
    }
    // The bytes are in place before the row says so; a crash between the two only means that they come again.
    let placed = core.blobs.keep_part(&mut incoming, row.id, request.number).map_err(Fail::from);
    let kept = placed
        .and_then(|()| {
            core.write(|tx| {
                open_file(tx, core, request)?;
                files::add_part(tx, row.id, request.number, &part.etag, came.length).map_err(Fail::from)
            })
        })
        .or_else(|fault| if known_part(core, request, &part)? { Ok(()) } else { Err(fault) });
    if kept.is_err() {
        clear_if_over(core, row.id)?;
    }
    kept.map(|()| marked())
}

/// Removes the bytes of a session that ended while a part of it found its place: whoever ended it came too early to
/// see that part.
fn clear_if_over(core: &Core, id: Uuid) -> Result<(), Fail> {
    let row = core.store.read(|tx| Ok(files::get(tx, id)?))?;
    if row.is_none_or(|row| row.phase != UploadPhase::Open) {
        core.blobs.drop_parts(id);
    }
    Ok(())
}

/// Whether the part came before with the same bytes; other bytes are a conflict.
fn known_part(core: &Core, request: &Request, part: &PartResult) -> Result<bool, Fail> {
    core.store.read(|tx| {
        let row = open_file(tx, core, request)?;
        let known = files::parts(tx, row.id)?.into_iter().find(|known| known.part_number == part.part_number);
        match known {
            Some(known) if known.etag == part.etag => Ok(true),
            Some(_) => Err(problems::conflict_because(reason::PART_CONFLICT)),
            None => Ok(false),
        }
    })
}

/// `getUpload`
pub fn get_upload(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let state = core.store.read(|tx| {
        let row = own_file(tx, core, request)?;
        Ok(UploadState {
            file_id: row.id,
            state: row.phase_at(Time::now()),
            part_size_bytes: row.part_size_bytes,
            parts: files::parts(tx, row.id)?,
        })
    })?;
    Ok(Answer::json(200, &state))
}

/// `completeUpload`: reads the parts through outside every lock, then counts.
pub fn complete_upload(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: UploadComplete = request.json()?;
    let row = match core.store.read(|tx| {
        let row = own_file(tx, core, request)?;
        Ok(match request.kept(core, tx)? {
            Some(answer) => Err(answer),
            None => {
                let row = require_open(row)?;
                check_parts(tx, &row, &body)?;
                Ok(row)
            }
        })
    })? {
        Ok(row) => row,
        Err(answer) => return Ok(answer),
    };
    let (whole, mime_type) = core.blobs.examine(row.id, row.last_part(), &row.sha256)?;
    if whole.length != row.size_bytes || hex(&whole.sha256) != row.sha256 {
        return Err(problems::conflict_because(reason::UPLOAD_INCOMPLETE));
    }
    // From here to the row no sweep may take the same content away.
    let keeping = lock(&core.keeping);
    core.blobs.keep(row.id, &row.sha256)?;
    let answer = core.write(|tx| {
        request.keyed(core, tx, || {
            let mut row = open_file(tx, core, request)?;
            row.mime_type = mime_type.to_owned();
            files::set_mime_type(tx, row.id, &row.mime_type)?;
            files::set_phase(tx, row.id, UploadPhase::Completed)?;
            Ok(Answer::json(200, &row.file()))
        })
    })?;
    drop(keeping);
    core.blobs.drop_parts(row.id);
    Ok(answer)
}

/// Every part must be there and named with its mark, in order.
fn check_parts(tx: &Tx<'_>, row: &FileRow, body: &UploadComplete) -> Result<(), Fail> {
    let known = files::parts(tx, row.id)?;
    let named = body.parts.iter().map(|part| (part.part_number, part.etag.as_str()));
    let whole = known.len() as u64 == row.part_count()
        && named.eq(known.iter().map(|part| (part.part_number, part.etag.as_str())));
    if whole { Ok(()) } else { Err(problems::conflict_because(reason::UPLOAD_INCOMPLETE)) }
}

/// `abortUpload`: what is over stays over; a whole file stays whole.
pub fn abort_upload(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let id = core.write(|tx| {
        let row = own_file(tx, core, request)?;
        match row.phase {
            UploadPhase::Completed => return Err(problems::transition()),
            UploadPhase::Open => files::set_phase(tx, row.id, UploadPhase::Aborted)?,
            UploadPhase::Aborted | UploadPhase::Expired => {}
        }
        files::forget_parts(tx, row.id)?;
        Ok(row.id)
    })?;
    core.blobs.drop_parts(id);
    Ok(Answer::empty(204))
}

/// The run of an agent's upload, for its channel; a person needs none.
fn binding(tx: &Tx<'_>, core: &Core, request: &Request, channel_id: Uuid) -> Result<Option<Uuid>, Fail> {
    if !matches!(request.caller, Caller::Agent(_)) {
        return Ok(None);
    }
    let run = access::bound_run(tx, core, request)?;
    if run.channel_id != channel_id {
        return Err(problems::token(reason::INVALID));
    }
    // SR9: an agent uploads only where the person it acts for may upload too.
    if !identity::principal(tx, run.acting_for)?.may_upload {
        return Err(problems::forbidden().because(reason::ACTING_FOR_INSUFFICIENT).into());
    }
    Ok(Some(run.id))
}

/// The upload of the path, when it is the caller's (and of its run).
fn own_file(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<FileRow, Fail> {
    let run_id = match request.caller {
        Caller::Agent(_) => Some(access::bound_run(tx, core, request)?.id),
        Caller::Person | Caller::Nobody => None,
    };
    let row = files::get(tx, request.id(0)?)?;
    let row = row.filter(|row| row.owner_id == request.principal(core) && row.run_id == run_id);
    row.ok_or_else(problems::not_found)
}

fn open_file(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<FileRow, Fail> {
    require_open(own_file(tx, core, request)?)
}

fn require_open(row: FileRow) -> Result<FileRow, Fail> {
    match row.phase_at(Time::now()) {
        UploadPhase::Open => Ok(row),
        UploadPhase::Completed => Err(problems::conflict(code::INVALID_STATE_TRANSITION)),
        UploadPhase::Aborted | UploadPhase::Expired => Err(problems::gone()),
    }
}

/// The SHA-256 of `Content-Digest` (RFC 9530): `sha-256=:<base64>:`, alone or among others.
fn content_digest(headers: &Headers) -> Option<[u8; 32]> {
    let members = headers.all("content-digest").flat_map(|line| line.split(','));
    let value = members.filter_map(|member| member.trim().strip_prefix("sha-256=:")).next()?;
    let bytes = STANDARD.decode(value.strip_suffix(':')?).ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::http::parse;

    #[test]
    fn digests_are_read_as_rfc_9530_writes_them() {
        let zero = STANDARD.encode([0u8; 32]);
        let rows = [
            (format!("sha-256=:{zero}:"), true),
            (format!("sha-512=:AAAA:, sha-256=:{zero}:"), true),
            (format!("sha-256={zero}"), false),
            (format!("sha-256=:{zero}"), false),
            ("sha-256=:AAAA:".to_owned(), false),
            (String::new(), false),
        ];
        for (value, good) in rows {
            let text = format!("GET / HTTP/1.1\r\nHost: x\r\nContent-Digest: {value}\r\n\r\n");
            let head = parse(text.as_bytes()).unwrap().unwrap().0;
            assert_eq!(content_digest(&head.headers).is_some(), good, "{value}");
        }
    }
}
