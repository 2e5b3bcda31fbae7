//! A server and a disk for the tests of the upload, whose Nth operation can be spoilt.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

use sha2::{Digest, Sha256};

use super::*;
use crate::sdk::error::TransportError;
use crate::sdk::wire::file::{UploadMode, UploadPhase};
use crate::sdk::wire::message::ScanStatus;
use crate::sdk::wire::problem::Problem;
use crate::sys::digest::hex;

/// A final no of the server.
pub fn no(problem: Problem) -> RunError {
    RunError::Problem(Box::new(problem))
}

/// Length of a part of the fake server, so small that the files have several.
const PART: u64 = 4;

/// How an operation is spoilt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spoil {
    /// It is not done, and nothing after it is: the runner died before it.
    DiesBefore,
    /// It is done, and nothing after it is: the runner died before it heard the answer.
    DiesAfter,
    /// It is not done and says so; the runner goes on.
    Fails,
    /// It is done, but the answer is lost; the runner goes on.
    AnswerLost,
}

/// Counts the operations of server and disk together, and spoils one of them.
#[derive(Default)]
pub struct Fate {
    pub count: Cell<usize>,
    pub spoilt: Cell<Option<(usize, Spoil)>>,
    pub dead: Cell<bool>,
}

/// What becomes of one operation.
#[derive(PartialEq)]
pub enum Course {
    Done,
    DoneUnheard,
    NotDone,
}

impl Fate {
    fn next(&self) -> Course {
        self.count.set(self.count.get() + 1);
        if self.dead.get() {
            return Course::NotDone;
        }
        let Some((number, spoil)) = self.spoilt.get().filter(|(number, _)| *number == self.count.get())
        else {
            return Course::Done;
        };
        let _ = number;
        self.dead.set(matches!(spoil, Spoil::DiesBefore | Spoil::DiesAfter));
        match spoil {
            Spoil::DiesBefore | Spoil::Fails => Course::NotDone,
            Spoil::DiesAfter | Spoil::AnswerLost => Course::DoneUnheard,
        }
    }
}

/// One session of the fake server.
#[derive(Clone, Debug)]
pub struct Session {
    pub name: String,
    pub size: u64,
    pub sha256: String,
    pub state: UploadPhase,
    pub parts: BTreeMap<u32, Vec<u8>>,
    pub completions: usize,
}

impl Session {
    pub fn bytes(&self) -> Vec<u8> {
        self.parts.values().flatten().copied().collect()
    }
}

/// A server with the contract's upload rules.
#[derive(Default)]
pub struct Server {
    pub fate: Fate,
    pub sessions: RefCell<Vec<(Uuid, Session)>>,
    pub keys: RefCell<BTreeMap<Uuid, Uuid>>,
    pub log: RefCell<Vec<&'static str>>,
    /// Answers given instead of the real one: operation, how many are let through before, answer.
    pub scripted: RefCell<Vec<(&'static str, usize, RunError)>>,
    pub mode: Cell<Option<UploadMode>>,
    heard: Cell<usize>,
}

impl Server {
    /// Runs `act` as operation `name`, unless fate or script have it otherwise.
    fn operate<T>(
        &self,
        name: &'static str,
        act: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        self.log.borrow_mut().push(name);
        if let Some(fault) = self.scripted(name) {
            return Err(fault);
        }
        let course = self.fate.next();
        let result = if course == Course::NotDone { None } else { Some(act()) };
        match (course, result) {
            (Course::Done, Some(result)) => {
                self.heard.set(self.heard.get() + usize::from(name == "create"));
                result
            }
            _ if self.fate.dead.get() => Err(RunError::ShutDown),
            _ => Err(RunError::Transport(TransportError::Broken)),
        }
    }

    fn scripted(&self, name: &str) -> Option<RunError> {
        let mut scripted = self.scripted.borrow_mut();
        let at = scripted.iter().position(|(operation, _, _)| *operation == name)?;
        if scripted[at].1 > 0 {
            scripted[at].1 -= 1;
            return None;
        }
        Some(scripted.remove(at).2)
    }

    fn with<T>(
        &self,
        id: Uuid,
        act: impl FnOnce(&mut Session) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let mut sessions = self.sessions.borrow_mut();
        let found = sessions.iter_mut().find(|(own, _)| *own == id);
        found.map_or(Err(no(Problem::new(404, "not_found"))), |(_, session)| act(session))
    }

    pub fn count(&self, name: &str) -> usize {
        self.log.borrow().iter().filter(|own| **own == name).count()
    }

    /// How many sessions the runner has heard of.
    pub fn heard(&self) -> usize {
        self.heard.get()
    }

    pub fn states(&self) -> Vec<UploadPhase> {
        self.sessions.borrow().iter().map(|(_, session)| session.state).collect()
    }
}

fn etag(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

impl Uploads for Server {
    fn create_upload(&self, key: Uuid, body: &UploadCreate) -> Result<UploadSession, RunError> {
        self.operate("create", || {
            let mut keys = self.keys.borrow_mut();
            let id = *keys.entry(key).or_insert_with(|| {
                let id = Uuid::now_v7();
                let session = Session {
                    name: body.name.clone(),
                    size: body.size_bytes,
                    sha256: body.sha256.clone(),
                    state: UploadPhase::Open,
                    parts: BTreeMap::new(),
                    completions: 0,
                };
                self.sessions.borrow_mut().push((id, session));
                id
            });
            let count = u32::try_from(body.size_bytes.div_ceil(PART)).unwrap();
            Ok(UploadSession {
                file_id: id,
                mode: self.mode.get().unwrap_or(UploadMode::Direct),
                part_size_bytes: PART,
                parts: (1..=count)
                    .map(|part_number| UploadPart { part_number, headers: Vec::new() })
                    .collect(),
                expires_at: serde_json::from_str("\"2030-01-01T00:00:00.000Z\"").unwrap(),
            })
        })
    }

    fn upload_part(
        &self,
        file_id: Uuid,
        part: &UploadPart,
        bytes: &PartBytes,
    ) -> Result<PartResult, RunError> {
        let (number, bytes) = (part.part_number, bytes.bytes());
        self.operate("part", || {
            self.with(file_id, |session| {
                if session.state != UploadPhase::Open {
                    return Err(no(Problem::new(410, "gone")));
                }
                let stored = session.parts.entry(number).or_insert_with(|| bytes.to_vec());
                if stored != bytes {
                    return Err(no(Problem::new(409, "conflict").because("part_conflict")));
                }
                Ok(PartResult { part_number: number, etag: etag(bytes), size_bytes: None })
            })
        })
    }

    fn get_upload(&self, file_id: Uuid) -> Result<UploadState, RunError> {
        self.operate("get", || {
            self.with(file_id, |session| {
                let part = |(number, bytes): (&u32, &Vec<u8>)| PartResult {
                    part_number: *number,
                    etag: etag(bytes),
                    size_bytes: Some(bytes.len() as u64),
                };
                let parts = session.parts.iter().map(part).collect();
                Ok(UploadState { file_id, state: session.state, part_size_bytes: PART, parts })
            })
        })
    }

    fn complete_upload(&self, file_id: Uuid, _key: Uuid, body: &UploadComplete) -> Result<File, RunError> {
        self.operate("complete", || {
            self.with(file_id, |session| {
                let etags: Vec<String> = body.parts.iter().map(|part| part.etag.clone()).collect();
                let own: Vec<String> = session.parts.values().map(|bytes| etag(bytes)).collect();
                if etags != own || session.bytes().len() as u64 != session.size {
                    return Err(no(Problem::new(409, "conflict").because("upload_incomplete")));
                }
                session.state = UploadPhase::Completed;
                session.completions += 1;
                Ok(File {
                    file_id,
                    name: session.name.clone(),
                    size_bytes: session.size,
                    sha256: hex(&Sha256::digest(session.bytes())),
                    mime_type: "text/plain".to_owned(),
                    scan_status: ScanStatus::Pending,
                })
            })
        })
    }

    fn abort_upload(&self, file_id: Uuid) -> Result<(), RunError> {
        self.operate("abort", || {
            self.with(file_id, |session| match session.state {
                UploadPhase::Completed => Err(no(Problem::new(409, "invalid_state_transition"))),
                _ => {
                    session.state = UploadPhase::Aborted;
                    Ok(())
                }
            })
        })
    }
}

/// A disk that keeps the last stored record, and shares the fate of the server.
pub struct Disk<'a> {
    pub fate: &'a Fate,
    pub stored: AttachmentSetRecord,
}

impl Persist for Disk<'_> {
    fn save(&mut self, record: &AttachmentSetRecord) -> io::Result<()> {
        let course = self.fate.next();
        if course != Course::NotDone {
            self.stored = record.clone();
        }
        if course == Course::Done { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}
