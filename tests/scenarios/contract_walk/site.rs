//! A server to walk through: every answer is judged by the contract's file and remembered.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use claude_code_runner::local::{Hooks, Operator, Options, Server};
use claude_code_runner::sdk::wire::run::{BillingMode, ToolClass};
use claude_code_runner::sys::private::TempDir;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::promised::{Outcome, good, problem};
use crate::support::openapi::contract;
use crate::support::raw_http::{Ask, Reply};

/// The server and what was seen of it.
pub struct Site {
    pub server: Server,
    pub hooks: Hooks,
    pub channel: Uuid,
    pub other_channel: Uuid,
    pub agent_token: String,
    pub person_secret: String,
    seen: RefCell<BTreeMap<String, BTreeSet<Outcome>>>,
    _dir: TempDir,
}

/// A run, its thread and its newest token.
#[derive(Clone)]
pub struct Run {
    pub id: Uuid,
    pub thread: Uuid,
    pub token: String,
}

/// An open upload: its id and the header that its parts carry.
pub struct Upload {
    pub id: Uuid,
    pub header: (String, String),
}

/// Reference of the session of every run that is started here.
pub const SESSION: &str = "7b0c9b4e-7c8c-4a86-9d0c-0d3b0b7f8f11";

impl Site {
    pub fn new() -> Site {
        let dir = TempDir::new().unwrap();
        for name in ["website", "docs"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let hooks = Hooks::new();
        let projects = ["website", "docs"].map(|name| (name.to_owned(), dir.join(name)));
        let server = Server::start(Options {
            data_dir: dir.join("data"),
            listen: None,
            projects: projects.to_vec(),
            tool_class: ToolClass::Scoped,
            billing_mode: BillingMode::Organization,
            hooks: hooks.clone(),
        })
        .unwrap();
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap().trim().to_owned();
        Site {
            channel: server.channel_of("website").unwrap(),
            other_channel: server.channel_of("docs").unwrap(),
            agent_token: read(server.agent_token_file()),
            person_secret: read(server.person_secret_file()),
            seen: RefCell::default(),
            server,
            hooks,
            _dir: dir,
        }
    }

    pub fn operator(&self) -> Operator<'_> {
        self.server.operator()
    }

    /// Everything that was answered so far, by operation.
    pub fn seen(&self) -> BTreeMap<String, BTreeSet<Outcome>> {
        self.seen.borrow().clone()
    }

    /// A request without a credential; `path` is whole.
    pub fn nobody(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.server.address(), method, path)
    }

    /// A request of the agent, below `/api/v1`.
    pub fn agent(&self, method: &str, path: &str) -> Ask {
        let ask = self.nobody(method, &format!("/api/v1{path}"));
        ask.with("Authorization", &format!("Bearer {}", self.agent_token))
    }

    /// The same within a run.
    pub fn bound(&self, run: &Run, method: &str, path: &str) -> Ask {
        self.agent(method, path).with("Invocation-Token", &run.token)
    }

    /// A request of the person, below `/api/v1`.
    pub fn person(&self, method: &str, path: &str) -> Ask {
        let ask = self.nobody(method, &format!("/api/v1{path}"));
        ask.with("Authorization", &format!("Bearer {}", self.person_secret))
    }

    /// Sends and judges: status, content type, body and headers must be what the file promises.
    #[track_caller]
    pub fn send(&self, ask: &Ask) -> Reply {
        let reply = ask.try_send().unwrap_or_else(|| panic!("no answer: {ask:?}"));
        let media = reply.header("content-type");
        let judged =
            contract().check_answer(&ask.method, &ask.path, reply.status, media, reply.json.as_ref());
        let id = judged.unwrap_or_else(|fault| panic!("{fault}\n{ask:?}\n{reply:?}"));
        let headers = contract().check_answer_headers(&ask.method, &ask.path, reply.status, &reply.headers);
        headers.unwrap_or_else(|fault| panic!("{fault}\n{ask:?}\n{reply:?}"));
        self.remember(ask, id, &reply);
        reply
    }

    /// Both sides write messages on one path; who is neither counts for both.
    fn remember(&self, ask: &Ask, id: String, reply: &Reply) {
        let outcome = match &reply.json {
            Some(body) if reply.status >= 400 => {
                problem(reply.status, body["code"].as_str().unwrap(), body["reason"].as_str())
            }
            _ => good(reply.status),
        };
        let says = |secret: &str| ask.headers.iter().any(|(_, value)| value.ends_with(secret));
        let (agent, person) = (says(&self.agent_token), says(&self.person_secret));
        let mut seen = self.seen.borrow_mut();
        if id == "createMessage" && !agent {
            seen.entry("postMessage".to_owned()).or_default().insert(outcome.clone());
        }
        if id != "createMessage" || !person {
            seen.entry(id).or_default().insert(outcome);
        }
    }

    /// Sends what has no operation and must be refused all the same.
    #[track_caller]
    pub fn refused_outside(&self, ask: &Ask, status: u16) {
        let reply = ask.try_send().unwrap_or_else(|| panic!("no answer: {ask:?}"));
        assert_eq!(reply.status, status, "{ask:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{ask:?}");
        contract().check_schema("Problem", reply.body()).unwrap();
    }

    /// Sends what must succeed.
    #[track_caller]
    pub fn ok(&self, ask: &Ask) -> Reply {
        let reply = self.send(ask);
        assert!((200..300).contains(&reply.status), "{ask:?}\n{reply:?}");
        reply
    }

    /// Sends what must be refused with this status and code.
    #[track_caller]
    pub fn refused(&self, ask: &Ask, status: u16, code: &str) -> Reply {
        let reply = self.send(ask);
        let found = reply.json.as_ref().and_then(|body| body["code"].as_str());
        assert_eq!((reply.status, found), (status, Some(code)), "{ask:?}");
        reply
    }

    /// The same with a reason.
    #[track_caller]
    pub fn refused_because(&self, ask: &Ask, status: u16, code: &str, reason: &str) {
        let reply = self.refused(ask, status, code);
        assert_eq!(reply.body()["reason"], reason, "{ask:?}");
    }

    /// A new thread.
    pub fn thread(&self) -> Uuid {
        self.ok(&self.person("POST", &format!("/projects/{}/threads", self.channel)).json(&json!({})))
            .id("id")
    }

    /// A message of the person in a thread.
    pub fn post(&self, thread: Uuid, text: &str) -> Reply {
        let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": text});
        self.ok(&self.person("POST", &format!("/threads/{thread}/messages")).json(&body))
    }

    /// A run that waits for its start.
    pub fn queued(&self) -> Run {
        let thread = self.thread();
        let id = self.post(thread, "How many orders?").id("run_id");
        Run { id, thread, token: self.operator().newest_token(id).unwrap() }
    }

    /// The start of a run.
    pub fn start(&self, run: &Run) -> Ask {
        let ask = self.bound(run, "POST", &format!("/runs/{}/start", run.id));
        ask.with("Idempotency-Key", &Uuid::now_v7().to_string()).json(&start_body())
    }

    /// A run that is running.
    pub fn running(&self) -> Run {
        let run = self.queued();
        self.ok(&self.start(&run));
        run
    }

    /// A run that is being stopped.
    pub fn cancelling(&self) -> Run {
        let run = self.running();
        self.ok(&self.person("POST", &format!("/runs/{}/cancel", run.id)));
        run
    }

    /// Ends a run as the agent does.
    pub fn finish(&self, run: &Run) {
        let ask = self.bound(run, "POST", &format!("/runs/{}/finish", run.id));
        self.ok(&ask.json(&json!({"state": "failed", "reason": "runtime_error"})));
    }

    /// The announcement of a file by whoever `ask` speaks for.
    pub fn announce(&self, ask: Ask, bytes: &[u8]) -> Ask {
        let body = json!({"name": "sum.csv", "size_bytes": bytes.len(), "sha256": sha256_hex(bytes)});
        ask.with("Idempotency-Key", &Uuid::now_v7().to_string()).json(&body)
    }

    /// An open upload of the run.
    pub fn upload(&self, run: &Run, bytes: &[u8]) -> Upload {
        let ask = self.bound(run, "POST", &format!("/channels/{}/uploads", self.channel));
        upload_of(&self.ok(&self.announce(ask, bytes)))
    }

    /// The first part of an upload with these bytes.
    pub fn part(&self, run: &Run, upload: &Upload, bytes: &[u8]) -> Ask {
        let ask = self.bound(run, "PUT", &format!("/uploads/{}/parts/1", upload.id));
        part_headers(ask, upload, bytes)
    }

    /// The completion of an upload of one part with these bytes.
    pub fn completion(&self, run: &Run, upload: &Upload, bytes: &[u8]) -> Ask {
        let parts = json!({"parts": [{"part_number": 1, "etag": &sha256_hex(bytes)[..32]}]});
        let ask = self.bound(run, "POST", &format!("/uploads/{}/complete", upload.id));
        ask.with("Idempotency-Key", &Uuid::now_v7().to_string()).json(&parts)
    }

    /// A whole file of the run.
    pub fn file(&self, run: &Run, bytes: &[u8]) -> Uuid {
        let upload = self.upload(run, bytes);
        self.ok(&self.part(run, &upload, bytes));
        self.ok(&self.completion(run, &upload, bytes));
        upload.id
    }

    /// A file that the person attached to the message that opened the run.
    pub fn run_with_file(&self, bytes: &[u8]) -> (Run, Uuid) {
        let ask = self.person("POST", &format!("/channels/{}/uploads", self.channel));
        let upload = upload_of(&self.ok(&self.announce(ask, bytes)));
        let part = self.person("PUT", &format!("/uploads/{}/parts/1", upload.id));
        let etag = self.ok(&part_headers(part, &upload, bytes)).body()["etag"].clone();
        let ask = self.person("POST", &format!("/uploads/{}/complete", upload.id));
        let ask = ask.with("Idempotency-Key", &Uuid::now_v7().to_string());
        self.ok(&ask.json(&json!({"parts": [{"part_number": 1, "etag": etag}]})));
        let thread = self.thread();
        let body = json!({
            "client_msg_id": Uuid::now_v7(), "content_md": "Add them up.", "attachment_file_ids": [upload.id],
        });
        let id =
            self.ok(&self.person("POST", &format!("/threads/{thread}/messages")).json(&body)).id("run_id");
        (Run { id, thread, token: self.operator().newest_token(id).unwrap() }, upload.id)
    }

    /// An answer of the run.
    pub fn message(&self, run: &Run) -> Ask {
        let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "Seven.", "run_id": run.id});
        self.bound(run, "POST", &format!("/threads/{}/messages", run.thread)).json(&body)
    }
}

fn upload_of(reply: &Reply) -> Upload {
    let header = &reply.body()["parts"][0]["headers"][0];
    let text = |name: &str| header[name].as_str().unwrap().to_owned();
    Upload { id: reply.id("file_id"), header: (text("name"), text("value")) }
}

fn part_headers(ask: Ask, upload: &Upload, bytes: &[u8]) -> Ask {
    use base64::Engine;
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes));
    ask.with(&upload.header.0, &upload.header.1)
        .with("Content-Type", "application/octet-stream")
        .with("Content-Digest", &format!("sha-256=:{digest}:"))
        .bytes(bytes)
}

pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The body of a start that fits the server.
pub fn start_body() -> Value {
    json!({
        "billing_mode_used": "organization", "tool_class_used": "scoped", "model": "sonnet",
        "external_session_ref": SESSION,
        "billing_evidence": {"provider": "anthropic", "key_type": "api_key", "method": "claude_auth_status"},
    })
}
