//! downloadFile: whole or a range, only to whom the file was shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::{Answer, Content};
use crate::local::request::{Caller, Request};
use crate::local::store::files::{self, FileRow};
use crate::local::store::{Tx, followups, messages};
use crate::local::{access, problems};
use crate::sdk::wire::file::UploadPhase;
use crate::sdk::wire::message::ScanStatus;
use crate::sdk::wire::problem::code;

/// What a `Range` field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// Everything: no range, or one this server may ignore (RFC 9110 section 14.2).
    Whole,
    /// From the first to the last byte, both inside.
    Part(u64, u64),
    /// Nothing of the file.
    Outside,
}

/// `downloadFile`
pub fn download_file(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let row = core.store.read(|tx| shown(tx, core, request))?;
    match row.scan_status {
        ScanStatus::Pending => return Err(problems::conflict(code::FILE_NOT_READY)),
        ScanStatus::Blocked | ScanStatus::Failed => return Err(problems::conflict(code::FILE_BLOCKED)),
        ScanStatus::Clean | ScanStatus::Skipped => {}
    }
    let etag = format!("\"{}\"", row.sha256);
    let mut range = range(request.headers.get("range"), row.size_bytes);
    if request.headers.get("if-range").is_some_and(|wanted| wanted != etag) {
        range = Range::Whole;
    }
    let (status, first, length) = match range {
        Range::Whole => (200, 0, row.size_bytes),
        Range::Part(first, last) => (206, first, last - first + 1),
        Range::Outside => return Ok(outside(row.size_bytes)),
    };
    let mut file = core.blobs.open_whole(&row.sha256)?;
    file.start_at(first)?;
    let answer = Answer { status, headers: Vec::new(), content: Content::File(file, length) }
        .with("Content-Type", row.mime_type.clone())
        .with("Content-Disposition", disposition(&row.name))
        .with("Repr-Digest", format!("sha-256=:{}:", STANDARD.encode(digest_bytes(&row.sha256))))
        .with("ETag", etag)
        .with("Accept-Ranges", "bytes");
    Ok(match status {
        206 => {
            answer.with("Content-Range", format!("bytes {first}-{}/{}", first + length - 1, row.size_bytes))
        }
        _ => answer,
    })
}

/// The file, when the caller was shown it: the agent in its run's context or a follow-up (IN-1), the person
/// in any thread or as an own upload.
fn shown(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<FileRow, Fail> {
    let row = files::get(tx, request.id(0)?)?.filter(|row| row.phase == UploadPhase::Completed);
    if !matches!(request.caller, Caller::Agent(_)) {
        let seen = |row: &FileRow| row.message_id.is_some() || row.owner_id == core.instance.person_id;
        return row.filter(seen).ok_or_else(problems::not_found);
    }
    let run = access::bound_run(tx, core, request)?;
    let row = row.ok_or_else(problems::not_found)?;
    let Some(message) = row.message_id.map(|id| messages::get(tx, id)).transpose()?.flatten() else {
        return Err(problems::not_found());
    };
    let trigger = messages::get(tx, run.trigger_message_id)?.ok_or_else(problems::not_found)?;
    let in_context =
        message.thread_id == run.thread_id && (run.context_floor + 1..=trigger.seq).contains(&message.seq);
    let followed_up = || -> Result<bool, Fail> {
        Ok(followups::of_run(tx, run.id)?.iter().any(|followup| followup.message_id == message.id))
    };
    if in_context || followed_up()? { Ok(row) } else { Err(problems::not_found()) }
}

fn outside(size: u64) -> Answer {
    let problem = problems::http(416, "range_not_satisfiable");
    Answer::problem(&problem).with("Content-Range", format!("bytes */{size}"))
}

fn range(field: Option<&str>, size: u64) -> Range {
    let Some(spec) = field.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Range::Whole };
    let Some((first, last)) = spec.split_once('-') else { return Range::Whole };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), _) if first >= size => Range::Outside,
        (Ok(first), Ok(last)) if last < first => Range::Whole,
        (Ok(first), Ok(last)) => Range::Part(first, last.min(size - 1)),
        (Ok(first), Err(_)) if last.trim().is_empty() => Range::Part(first, size - 1),
        (Err(_), Ok(0)) if first.trim().is_empty() => Range::Outside,
        (Err(_), Ok(count)) if first.trim().is_empty() => Range::Part(size.saturating_sub(count), size - 1),
        // Several ranges or nonsense: a server may answer the whole (RFC 9110 section 14.2).
        _ => Range::Whole,
    }
}

/// Always a download, with the name as RFC 8187 writes it.
fn disposition(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let encoded: String = name
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename*=UTF-8''{encoded}")
}

fn digest_bytes(sha256: &str) -> Vec<u8> {
    let pair = |index: usize| u8::from_str_radix(sha256.get(index..index + 2)?, 16).ok();
    (0..sha256.len()).step_by(2).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_rfc_9110() {
        let rows = [
            (None, Range::Whole),
            (Some("bytes=0-9"), Range::Part(0, 9)),
            (Some("bytes=5-"), Range::Part(5, 9)),
            (Some("bytes=5-99"), Range::Part(5, 9)),
            (Some("bytes=-3"), Range::Part(7, 9)),
            (Some("bytes=-99"), Range::Part(0, 9)),
            (Some("bytes=10-"), Range::Outside),
            (Some("bytes=-0"), Range::Outside),
            (Some("bytes=3-2"), Range::Whole),
            (Some("bytes=0-1,3-4"), Range::Whole),
            (Some("lines=1-2"), Range::Whole),
            (Some("bytes=a-b"), Range::Whole),
            (Some("bytes=99999999999999999999-"), Range::Whole),
        ];
        for (field, expected) in rows {
            assert_eq!(range(field, 10), expected, "{field:?}");
        }
    }

    #[test]
    fn names_cannot_leave_their_field() {
        assert_eq!(disposition("a \"b\"\r\n.txt"), "attachment; filename*=UTF-8''a%20%22b%22%0D%0A.txt");
    }
}
