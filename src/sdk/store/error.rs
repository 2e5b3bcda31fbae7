//! Why the store did not do what was asked. Kinds only: never a path, a statement or a value.

use std::fmt;
use std::io;

use rusqlite::ErrorCode;

/// An error of the store. Whatever was asked has not happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The file was written by a later version of this program; nothing was touched.
    TooNew {
        /// The schema version of the file.
        found: i64,
    },
    /// Another connection kept the write lock for longer than [`super::BUSY_TIMEOUT`].
    Busy,
    /// The file is not a database, or is damaged.
    Damaged,
    /// The disk is full.
    Full,
    /// The file system refused: open, read, write or flush.
    Io(io::ErrorKind),
    /// A stored row does not have the shape that this version writes.
    Row,
    /// There is no entry, delivery or follow-up with this id.
    Unknown,
    /// The entry is not in a state in which this may happen.
    State,
    /// A fault of this program: a statement that SQLite refused.
    Internal,
}

impl StoreError {
    /// The stable code for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooNew { .. } => "store_too_new",
            Self::Busy => "store_busy",
            Self::Damaged => "store_damaged",
            Self::Full => "store_full",
            Self::Io(_) => "store_io",
            Self::Row => "store_row_unreadable",
            Self::Unknown => "store_unknown_id",
            Self::State => "store_wrong_state",
            Self::Internal => "store_internal",
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooNew { found } => {
                write!(f, "the store has schema version {found}, which is later than this program knows")
            }
            Self::Busy => write!(f, "the store is locked by another process"),
            Self::Damaged => write!(f, "the store is damaged"),
            Self::Full => write!(f, "the disk of the store is full"),
            Self::Io(kind) => write!(f, "the store cannot be read or written: {kind}"),
            Self::Row => write!(f, "a row of the store cannot be read"),
            Self::Unknown => write!(f, "the store has nothing with this id"),
            Self::State => write!(f, "the entry is not in the state that this needs"),
            Self::Internal => write!(f, "the store refused a statement"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
            kind => StoreError::Io(kind),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::Error as E;
        match &error {
            E::QueryReturnedNoRows => StoreError::Unknown,
            E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..) => {
                StoreError::Row
            }
            other => other.sqlite_error_code().map_or(StoreError::Internal, from_code),
        }
    }
}

fn from_code(code: ErrorCode) -> StoreError {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged,
        ErrorCode::DiskFull => StoreError::Full,
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            StoreError::Io(io::ErrorKind::PermissionDenied)
        }
        ErrorCode::CannotOpen | ErrorCode::NotFound => StoreError::Io(io::ErrorKind::NotFound),
        ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Io(io::ErrorKind::Other)
        }
        _ => StoreError::Internal,
    }
}
