//! How an operation can end without its answer: a problem for the client, or a fault of the machine.

use std::io;

use crate::sdk::wire::problem::{Problem, code, reason};

/// Why an operation gave no answer of its own.
#[derive(Debug)]
pub enum Fail {
    /// The contract says no.
    Problem(Box<Problem>),
    /// The database failed.
    Store(rusqlite::Error),
    /// A file failed.
    Io(io::Error),
}

impl Fail {
    /// The problem to answer; faults of the machine show no detail.
    pub fn into_problem(self) -> Problem {
        match self {
            Fail::Problem(problem) => *problem,
            Fail::Store(rusqlite::Error::SqliteFailure(fault, _))
                if fault.code == rusqlite::ErrorCode::DiskFull =>
            {
                full()
            }
            Fail::Io(fault)
                if matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                full()
            }
            Fail::Store(fault) => internal("local_store_failed", &store_cause(&fault)),
            Fail::Io(fault) => internal("local_file_failed", &fault.kind().to_string()),
        }
    }

    /// What failed, for the person whose machine it is.
    pub fn cause(&self) -> String {
        match self {
            Fail::Problem(problem) => problem.code.clone(),
            Fail::Store(fault) => fault.to_string(),
            Fail::Io(fault) => fault.to_string(),
        }
    }
}

/// The kind of a database fault, without any text of a statement.
fn store_cause(fault: &rusqlite::Error) -> String {
    fault.sqlite_error_code().map_or_else(|| "other".to_owned(), |code| format!("{code:?}"))
}

fn full() -> Problem {
    Problem::new(503, code::UNAVAILABLE).because(reason::STORAGE_FULL)
}

fn internal(log_code: &str, cause: &str) -> Problem {
    log::error!("code={log_code} error={}", cause.replace(' ', "_"));
    Problem { title: "The server could not do it.".to_owned(), ..Problem::new(500, "internal_error") }
}

impl From<Problem> for Fail {
    fn from(problem: Problem) -> Fail {
        Fail::Problem(Box::new(problem))
    }
}

impl From<rusqlite::Error> for Fail {
    fn from(fault: rusqlite::Error) -> Fail {
        Fail::Store(fault)
    }
}

impl From<io::Error> for Fail {
    fn from(fault: io::Error) -> Fail {
        Fail::Io(fault)
    }
}
