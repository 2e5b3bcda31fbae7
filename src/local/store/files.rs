//! Files and their upload sessions: what is announced, what came, whose it is, where it hangs.

use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{At, Id, Size, Tx, Word};
use crate::sdk::wire::Time;
use crate::sdk::wire::file::{File, PartResult, UploadPhase};
use crate::sdk::wire::message::{RunContextAttachment, ScanStatus};

/// One file or upload session.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// Identity.
    pub id: Uuid,
    /// Who uploads it.
    pub owner_id: Uuid,
    /// The forum it is for.
    pub channel_id: Uuid,
    /// The run in whose binding it was opened.
    pub run_id: Option<Uuid>,
    /// Announced name.
    pub name: String,
    /// Announced length, bytes.
    pub size_bytes: u64,
    /// Announced SHA-256, lowercase hex.
    pub sha256: String,
    /// Type by content, known when whole.
    pub mime_type: String,
    /// Result of the scan.
    pub scan_status: ScanStatus,
    /// How far the session is.
    pub phase: UploadPhase,
    /// Length of every part but the last, bytes.
    pub part_size_bytes: u64,
    /// What each part's header must carry.
    pub part_token: String,
    /// When an open session ends.
    pub expires_at: Time,
    /// The message it hangs on.
    pub message_id: Option<Uuid>,
}

impl FileRow {
    /// As `completeUpload` and messages show it.
    pub fn file(&self) -> File {
        File {
            file_id: self.id,
            name: self.name.clone(),
            size_bytes: self.size_bytes,
            sha256: self.sha256.clone(),
            mime_type: self.mime_type.clone(),
            scan_status: self.scan_status,
        }
    }

    /// As a run context shows it.
    pub fn attachment(&self) -> RunContextAttachment {
        RunContextAttachment {
            file_id: self.id,
            name: self.name.clone(),
            mime_type: self.mime_type.clone(),
            size_bytes: self.size_bytes,
            sha256: self.sha256.clone(),
            scan_status: self.scan_status,
            transcript: None,
        }
    }

    /// How many parts it has.
    pub fn part_count(&self) -> u64 {
        self.size_bytes.div_ceil(self.part_size_bytes.max(1))
    }

    /// The number of its last part.
    pub fn last_part(&self) -> u32 {
        u32::try_from(self.part_count()).unwrap_or(u32::MAX)
    }

    /// The length of part `number` (from 1), bytes; `None` when there is no such part.
    pub fn part_length(&self, number: u64) -> Option<u64> {
        let before = number.checked_sub(1)?.checked_mul(self.part_size_bytes)?;
        let left = self.size_bytes.checked_sub(before).filter(|left| *left > 0)?;
        Some(left.min(self.part_size_bytes))
    }

    /// How far the session is at `now`: an open one ends by itself.
    pub fn phase_at(&self, now: Time) -> UploadPhase {
        let over = self.phase == UploadPhase::Open && self.expires_at <= now;
        if over { UploadPhase::Expired } else { self.phase }
    }
}

const COLUMNS: &str = "id, owner_id, channel_id, run_id, name, size_bytes, sha256, mime_type, scan_status, phase, \
                       part_size_bytes, part_token, expires_at, message_id";

fn read(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    Ok(FileRow {
        id: row.get::<_, Id>(0)?.0,
        owner_id: row.get::<_, Id>(1)?.0,
        channel_id: row.get::<_, Id>(2)?.0,
        run_id: row.get::<_, Option<Id>>(3)?.map(|id| id.0),
        name: row.get(4)?,
        size_bytes: row.get::<_, Size>(5)?.0,
        sha256: row.get(6)?,
        mime_type: row.get(7)?,
        scan_status: row.get::<_, Word<_>>(8)?.0,
        phase: row.get::<_, Word<_>>(9)?.0,
        part_size_bytes: row.get::<_, Size>(10)?.0,
        part_token: row.get(11)?,
        expires_at: row.get::<_, At>(12)?.0,
        message_id: row.get::<_, Option<Id>>(13)?.map(|id| id.0),
    })
}

/// Keeps a new upload session.
pub fn add(tx: &Tx<'_>, row: &FileRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO files VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, NULL, NULL)",
        params![
            Id(row.id),
            Id(row.owner_id),
            Id(row.channel_id),
            row.run_id.map(Id),
            row.name,
            Size(row.size_bytes),
            row.sha256,
            row.mime_type,
            Word(row.scan_status),
            Word(row.phase),
            Size(row.part_size_bytes),
            row.part_token,
            At(row.expires_at)
        ],
    )?;
    Ok(())
}

/// The file `id`.
pub fn get(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Option<FileRow>> {
    tx.query_row(&format!("SELECT {COLUMNS} FROM files WHERE id = ?1"), [Id(id)], read).optional()
}

/// The files of a message, in their order.
pub fn of_message(tx: &Tx<'_>, message_id: Uuid) -> rusqlite::Result<Vec<FileRow>> {
    let sql = format!("SELECT {COLUMNS} FROM files WHERE message_id = ?1 ORDER BY position");
    tx.prepare(&sql)?.query_map([Id(message_id)], read)?.collect()
}

/// Sessions that ended by themselves before `now`: never whole, or whole and on no message.
pub fn overdue(tx: &Tx<'_>, now: Time) -> rusqlite::Result<Vec<FileRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM files WHERE phase IN ('open', 'completed') AND message_id IS NULL AND expires_at <= ?1"
    );
    tx.prepare(&sql)?.query_map([At(now)], read)?.collect()
}

/// Whether a whole file has this content.
pub fn is_kept(tx: &Tx<'_>, sha256: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM files WHERE phase = 'completed' AND sha256 = ?1)";
    tx.query_row(sql, [sha256], |row| row.get(0))
}

/// Every session and file, oldest first.
pub fn all(tx: &Tx<'_>) -> rusqlite::Result<Vec<FileRow>> {
    tx.prepare(&format!("SELECT {COLUMNS} FROM files ORDER BY id"))?.query_map([], read)?.collect()
}

/// Hangs a file on a message at `position`.
pub fn attach(tx: &Tx<'_>, id: Uuid, message_id: Uuid, position: i64) -> rusqlite::Result<()> {
    let values = params![Id(id), Id(message_id), position];
    tx.execute("UPDATE files SET message_id = ?2, position = ?3 WHERE id = ?1", values)?;
    Ok(())
}

/// Keeps how far a session is.
pub fn set_phase(tx: &Tx<'_>, id: Uuid, phase: UploadPhase) -> rusqlite::Result<()> {
    tx.execute("UPDATE files SET phase = ?2 WHERE id = ?1", params![Id(id), Word(phase)])?;
    Ok(())
}

/// Keeps the type of a whole file.
pub fn set_mime_type(tx: &Tx<'_>, id: Uuid, mime_type: &str) -> rusqlite::Result<()> {
    tx.execute("UPDATE files SET mime_type = ?2 WHERE id = ?1", params![Id(id), mime_type])?;
    Ok(())
}

/// Keeps the result of a scan.
pub fn set_scan_status(tx: &Tx<'_>, id: Uuid, status: ScanStatus) -> rusqlite::Result<()> {
    tx.execute("UPDATE files SET scan_status = ?2 WHERE id = ?1", params![Id(id), Word(status)])?;
    Ok(())
}

/// Bytes of every whole or open file, and the open sessions of `owner`.
pub fn usage(tx: &Tx<'_>, owner: Uuid) -> rusqlite::Result<(u64, i64)> {
    tx.query_row(
        "SELECT coalesce(sum(size_bytes), 0), coalesce(sum(phase = 'open' AND owner_id = ?1), 0) FROM files \
         WHERE phase IN ('open', 'completed')",
        [Id(owner)],
        |row| Ok((row.get::<_, Size>(0)?.0, row.get(1)?)),
    )
}

/// The parts that came, ascending.
pub fn parts(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<Vec<PartResult>> {
    tx.prepare("SELECT part_number, etag, size_bytes FROM parts WHERE file_id = ?1 ORDER BY part_number")?
        .query_map([Id(id)], |row| {
            Ok(PartResult {
                part_number: row.get(0)?,
                etag: row.get(1)?,
                size_bytes: Some(row.get::<_, Size>(2)?.0),
            })
        })?
        .collect()
}

/// Keeps that a part came.
pub fn add_part(tx: &Tx<'_>, id: Uuid, number: u32, etag: &str, size: u64) -> rusqlite::Result<()> {
    let values = params![Id(id), number, etag, Size(size)];
    tx.execute("INSERT INTO parts VALUES (?1, ?2, ?3, ?4)", values)?;
    Ok(())
}

/// Forgets the parts of a session that is over.
pub fn forget_parts(tx: &Tx<'_>, id: Uuid) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM parts WHERE file_id = ?1", [Id(id)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_file_exactly() {
        let mut row = FileRow {
            id: Uuid::nil(),
            owner_id: Uuid::nil(),
            channel_id: Uuid::nil(),
            run_id: None,
            name: "a".to_owned(),
            size_bytes: 0,
            sha256: String::new(),
            mime_type: String::new(),
            scan_status: ScanStatus::Skipped,
            phase: UploadPhase::Open,
            part_size_bytes: 10,
            part_token: String::new(),
            expires_at: Time::from_millis(5),
            message_id: None,
        };
        for (size, lengths) in [
            (1, vec![1]),
            (10, vec![10]),
            (11, vec![10, 1]),
            (30, vec![10, 10, 10]),
            (u64::MAX, vec![10, 10]),
        ] {
            row.size_bytes = size;
            for (length, number) in lengths.iter().zip(1..) {
                assert_eq!(row.part_length(number), Some(*length), "{size} {number}");
            }
            assert_eq!(row.part_length(row.part_count() + 1), None, "{size}");
            assert_eq!(row.part_length(0), None, "{size}");
        }
        assert_eq!(row.phase_at(Time::from_millis(4)), UploadPhase::Open);
        assert_eq!(row.phase_at(Time::from_millis(5)), UploadPhase::Expired);
    }
}
