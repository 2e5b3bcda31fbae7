//! The person's side of HTTP, for the terminal: projects, threads, messages, runs, files.
//!
//! Speaks only with a server on this machine. Must not know how anything is shown. No request is repeated by itself;
//! what would do harm twice carries a key of its own.

use std::fmt;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use ureq::http::{Request, Response};
use ureq::{Agent, Body};
use uuid::Uuid;

use super::exit::Failure;
use crate::config::{Secret, SecretRef};
use crate::sdk::wire::file::{
    CompletedPart, File, InstanceInfo, InstanceLimits, PartResult, UploadComplete, UploadCreate, UploadPart,
    UploadSession,
};
use crate::sdk::wire::person::{
    Changes, MessagePost, MessagePosted, Messages, Project, ProjectGrantPut, Projects, RunDocument, Runs,
    ThreadCreate, ThreadSummary, Threads,
};
use crate::sdk::wire::problem::Problem;
use crate::sys::digest::hex;

/// Name of the file with the person's secret in a data directory.
const SECRET_FILE: &str = "person-secret";

/// Longest time of an ordinary request: the server is on this machine.
const ORDINARY: Duration = Duration::from_secs(30);

/// Longest time until a server on this machine shows that it is at work.
const ALIVE: Duration = Duration::from_secs(3);

/// Longest time without progress of a transfer.
const STALL: Duration = Duration::from_secs(60);

/// Longest answer of an ordinary request, bytes: a page of the longest messages.
const ANSWER_LIMIT: u64 = 256 * 1024 * 1024;

/// Most messages of one answer.
const PAGE: u32 = 200;

/// Bytes of one read of a download.
const CHUNK: usize = 64 * 1024;

/// Why a request gave nothing.
#[derive(Debug)]
pub enum PersonError {
    /// The server said no.
    Refused(Box<Problem>),
    /// Nobody answers there, or the answer broke off.
    Gone,
    /// Somebody is there and says nothing.
    Silent,
    /// The answer is none of this contract.
    Garbage,
    /// The file cannot be written.
    File(std::io::Error),
    /// The bytes are not those that were announced.
    Damaged,
}

impl fmt::Display for PersonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => f.write_str(&refusal(problem)),
            Self::Gone => write!(f, "the local server does not answer; was it stopped?"),
            Self::Silent => {
                write!(f, "the local server runs but does not answer; end it, or choose another --data-dir")
            }
            Self::Garbage => write!(f, "what answers there is no local server of this version"),
            Self::File(fault) => write!(f, "the file cannot be written ({})", fault.kind()),
            Self::Damaged => write!(f, "the file arrived damaged and was not kept"),
        }
    }
}

impl std::error::Error for PersonError {}

/// What a person can do about a refusal, in words where there is something.
fn refusal(problem: &Problem) -> String {
    let words = match (problem.code.as_str(), problem.reason.as_deref()) {
        (_, Some("storage_full")) => "the disk of its data directory is full; make room and ask again",
        (_, Some("quota_exceeded")) => "its files take all the room they may; choose another --data-dir",
        ("internal_error", _) => "it met a fault of its own; its log says which one",
        _ => problem.title.as_str(),
    };
    let code = problem.reason.as_deref().unwrap_or(&problem.code);
    format!("the local server refused it: {words} ({code})")
}

impl From<PersonError> for Failure {
    fn from(error: PersonError) -> Failure {
        Failure::new(error.to_string())
    }
}

type Answer<T> = Result<T, PersonError>;

/// The person, at one server.
pub struct Person {
    agent: Agent,
    origin: String,
    secret: Secret,
}

impl Person {
    /// The person of the server at `address` whose data directory is `data_dir`.
    ///
    /// # Errors
    /// Why the secret there cannot be read.
    pub fn of_data_dir(data_dir: &Path, address: SocketAddr) -> Result<Person, Failure> {
        let secret = SecretRef::file(&data_dir.join(SECRET_FILE)).read();
        let secret =
            secret.map_err(|fault| Failure::new(format!("the secret of the local server: {fault}")))?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(ORDINARY))
            .build();
        Ok(Person { agent: config.into(), origin: format!("http://{address}"), secret })
    }

    /// Whether a server is at work there.
    ///
    /// # Errors
    /// As every request; [`PersonError::Silent`] when it says nothing for some seconds.
    pub fn alive(&self) -> Answer<()> {
        self.get::<Projects>("/projects", ALIVE).map(drop)
    }

    /// The limits of `getInstance`.
    pub fn limits(&self) -> Answer<InstanceLimits> {
        Ok(self.get::<InstanceInfo>("/instance", ORDINARY)?.limits)
    }

    /// `listProjects`.
    pub fn projects(&self) -> Answer<Vec<Project>> {
        Ok(self.get::<Projects>("/projects", ORDINARY)?.projects)
    }

    /// `setProjectGrant`: turns writing on.
    pub fn allow_writing(&self, project: &Project) -> Answer<Project> {
        let body = ProjectGrantPut { workspace_write: Some(true), trust_project_settings: None };
        let version = format!("\"{}\"", project.grant_revision);
        self.send("PUT", &format!("/projects/{}/grant", project.channel_id), &[("If-Match", &version)], &body)
    }

    /// `listThreads`, one page from `cursor` on.
    pub fn threads(&self, channel_id: Uuid, cursor: Option<&str>) -> Answer<Threads> {
        // A cursor of this server is digits, a point, letters and hyphens.
        let query = cursor.map(|cursor| format!("?cursor={cursor}")).unwrap_or_default();
        self.get(&format!("/projects/{channel_id}/threads{query}"), ORDINARY)
    }

    /// `createThread`.
    pub fn create_thread(&self, channel_id: Uuid) -> Answer<ThreadSummary> {
        self.send("POST", &format!("/projects/{channel_id}/threads"), &[], &ThreadCreate::default())
    }

    /// `postMessage`.
    pub fn post_message(&self, thread_id: Uuid, message: &MessagePost) -> Answer<MessagePosted> {
        self.send("POST", &format!("/threads/{thread_id}/messages"), &[], message)
    }

    /// `listMessages`: the newest ones, ascending.
    pub fn messages(&self, thread_id: Uuid) -> Answer<Messages> {
        self.get(&format!("/threads/{thread_id}/messages?limit={PAGE}"), ORDINARY)
    }

    /// `listRuns`: newest first.
    pub fn runs(&self, thread_id: Uuid) -> Answer<Vec<RunDocument>> {
        Ok(self.get::<Runs>(&format!("/threads/{thread_id}/runs"), ORDINARY)?.runs)
    }

    /// `getRunDocument`.
    pub fn run(&self, run_id: Uuid) -> Answer<RunDocument> {
        self.get(&format!("/runs/{run_id}/document"), ORDINARY)
    }

    /// `cancelRun`; a run that has ended already is no fault.
    pub fn cancel(&self, run_id: Uuid) -> Answer<()> {
        let request = self.request("POST", &format!("/runs/{run_id}/cancel"), &[]);
        // An empty body with its length, which the server asks for.
        let nothing: &[u8] = &[];
        match self.finish(self.run_request(request, nothing, ORDINARY)?) {
            Ok(_) => Ok(()),
            Err(PersonError::Refused(problem)) if problem.status == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// `pollChanges`: waits at most `wait` for a change above `after`.
    pub fn changes(&self, after: Option<i64>, wait: Duration) -> Answer<Changes> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.get(&format!("/changes?wait_ms={}{after}", wait.as_millis()), wait + ORDINARY)
    }

    /// Whether the server has a page.
    pub fn has_page(&self) -> bool {
        let request = Request::builder().method("GET").uri(format!("{}/", self.origin));
        let answer = self.run_request(request, (), ORDINARY);
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// `createUpload`.
    pub fn create_upload(&self, channel_id: Uuid, file: &UploadCreate) -> Answer<UploadSession> {
        self.send("POST", &format!("/channels/{channel_id}/uploads"), &[("Idempotency-Key", &key())], file)
    }

    /// `uploadPart`.
    pub fn upload_part(&self, file_id: Uuid, part: &UploadPart, bytes: &[u8]) -> Answer<PartResult> {
        let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)));
        let mut headers =
            vec![("Content-Type", "application/octet-stream"), ("Content-Digest", digest.as_str())];
        headers.extend(part.headers.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())));
        let path = format!("/uploads/{file_id}/parts/{}", part.part_number);
        let request = self.request("PUT", &path, &headers);
        read(self.finish(self.run_transfer(request, bytes)?)?)
    }

    /// `completeUpload`.
    pub fn complete_upload(&self, file_id: Uuid, parts: Vec<CompletedPart>) -> Answer<File> {
        let path = format!("/uploads/{file_id}/complete");
        self.send("POST", &path, &[("Idempotency-Key", &key())], &UploadComplete { parts })
    }

    /// `downloadFile` into `sink`; `progress` hears of each piece. The bytes are compared with the announced hash.
    pub fn download(&self, file: &File, sink: &mut dyn Write, progress: &dyn Fn(u64)) -> Answer<()> {
        let request = self.request("GET", &format!("/files/{}/content", file.file_id), &[]);
        let mut answer = self.run_transfer(request, ())?;
        if !answer.status().is_success() {
            self.finish(answer)?;
            return Err(PersonError::Garbage);
        }
        let mut body = answer.body_mut().as_reader();
        let (mut hash, mut buffer) = (Sha256::new(), vec![0; CHUNK]);
        loop {
            let count = body.read(&mut buffer).map_err(|_| PersonError::Gone)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            sink.write_all(&buffer[..count]).map_err(PersonError::File)?;
            progress(count as u64);
        }
        if hex(&hash.finalize()) == file.sha256 { Ok(()) } else { Err(PersonError::Damaged) }
    }

    fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Answer<T> {
        read(self.finish(self.run_request(self.request("GET", path, &[]), (), limit)?)?)
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &impl Serialize,
    ) -> Answer<T> {
        let request = self.request(method, path, headers).header("Content-Type", "application/json");
        let body = serde_json::to_vec(body).map_err(|_| PersonError::Garbage)?;
        read(self.finish(self.run_request(request, body.as_slice(), ORDINARY)?)?)
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> ureq::http::request::Builder {
        let request = Request::builder().method(method).uri(format!("{}/api/v1{path}", self.origin));
        let request = request.header("Authorization", format!("Bearer {}", self.secret.expose()));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    fn run_request(
        &self,
        request: ureq::http::request::Builder,
        body: impl ureq::AsSendBody,
        limit: Duration,
    ) -> Answer<Response<Body>> {
        let request = request.body(body).map_err(|_| PersonError::Garbage)?;
        let request = self.agent.configure_request(request).timeout_global(Some(limit)).build();
        self.agent.run(request).map_err(|fault| unanswered(&fault))
    }

    fn run_transfer(
        &self,
        request: ureq::http::request::Builder,
        body: impl ureq::AsSendBody,
    ) -> Answer<Response<Body>> {
        let request = request.body(body).map_err(|_| PersonError::Garbage)?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_per_read(Some(STALL)).timeout_per_write(Some(STALL)).build();
        self.agent.run(request).map_err(|fault| unanswered(&fault))
    }

    /// The whole body of a good answer, or the problem.
    fn finish(&self, mut answer: Response<Body>) -> Answer<Vec<u8>> {
        let bytes = answer.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec();
        let bytes = bytes.map_err(|_| PersonError::Gone)?;
        if answer.status().is_success() {
            return Ok(bytes);
        }
        let mut problem: Problem = serde_json::from_slice(&bytes).map_err(|_| PersonError::Garbage)?;
        problem.status = answer.status().as_u16();
        Err(PersonError::Refused(Box::new(problem)))
    }
}

fn unanswered(fault: &ureq::Error) -> PersonError {
    match fault {
        ureq::Error::Timeout(_) => PersonError::Silent,
        _ => PersonError::Gone,
    }
}

fn read<T: DeserializeOwned>(bytes: Vec<u8>) -> Answer<T> {
    serde_json::from_slice(&bytes).map_err(|_| PersonError::Garbage)
}

/// A key that makes a repeat harmless (RFC 9562 version 7, as the contract asks).
fn key() -> String {
    Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let rows = [
            (503, "unavailable", Some("storage_full"), "make room"),
            (409, "conflict", Some("quota_exceeded"), "--data-dir"),
            (500, "internal_error", None, "its log"),
            (404, "not_found", None, "nothing of that name"),
        ];
        for (status, code, reason, words) in rows {
            let title = "There is nothing of that name here.".to_owned();
            let reason = reason.map(str::to_owned);
            let problem = Problem { title, reason, ..Problem::new(status, code) };
            let text = PersonError::Refused(Box::new(problem)).to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
