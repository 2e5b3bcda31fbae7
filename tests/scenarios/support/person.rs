//! The person's side of the server, over real HTTP.

use std::path::Path;

use claude_code_runner::sdk::wire::person::{Message, MessagePosted, Messages, RunDocument, ThreadSummary};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Somebody who uses the chat.
pub struct Person {
    agent: ureq::Agent,
    base: String,
    secret: String,
}

impl Person {
    /// The person of the server at `base`, who knows the secret in `secret_file`.
    pub fn new(base: &str, secret_file: &Path) -> Person {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
        let secret = std::fs::read_to_string(secret_file).unwrap().trim().to_owned();
        Person { agent: config.into(), base: base.trim_end_matches('/').to_owned(), secret }
    }

    /// Opens a thread in a project.
    pub fn thread(&self, channel: Uuid) -> Uuid {
        let made: ThreadSummary = self.post(&format!("projects/{channel}/threads"), &json!({}));
        made.id
    }

    /// Writes a message.
    pub fn says(&self, thread: Uuid, text: &str) -> MessagePosted {
        self.says_with(thread, text, &[])
    }

    /// Writes a message with files.
    pub fn says_with(&self, thread: Uuid, text: &str, files: &[Uuid]) -> MessagePosted {
        let mut body = json!({"client_msg_id": Uuid::now_v7(), "content_md": text});
        if !files.is_empty() {
            body["attachment_file_ids"] = json!(files);
        }
        self.post(&format!("threads/{thread}/messages"), &body)
    }

    /// Uploads a file to a project's channel.
    pub fn uploads(&self, channel: Uuid, name: &str, bytes: &[u8]) -> Uuid {
        let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let body = json!({"name": name, "size_bytes": bytes.len(), "sha256": sha256});
        let session: Value = self.post_keyed(&format!("channels/{channel}/uploads"), &body);
        let id: Uuid = serde_json::from_value(session["file_id"].clone()).unwrap();
        let size = usize::try_from(session["part_size_bytes"].as_u64().unwrap()).unwrap();
        let parts: Vec<Value> =
            bytes.chunks(size).enumerate().map(|(at, part)| self.part(&session, at, part)).collect();
        let _: Value = self.post_keyed(&format!("uploads/{id}/complete"), &json!({"parts": parts}));
        id
    }

    /// Sends part `at` (from 0) of an upload with the fields that the session names for it.
    fn part(&self, session: &Value, at: usize, bytes: &[u8]) -> Value {
        use base64::Engine;
        let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes));
        let part = &session["parts"][at];
        let path = format!("uploads/{}/parts/{}", session["file_id"].as_str().unwrap(), part["part_number"]);
        let mut request = self
            .agent
            .put(format!("{}/api/v1/{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.secret))
            .header("Content-Type", "application/octet-stream")
            .header("Content-Digest", format!("sha-256=:{digest}:"));
        for field in part["headers"].as_array().unwrap() {
            request = request.header(field["name"].as_str().unwrap(), field["value"].as_str().unwrap());
        }
        let mut answer = request.send(bytes).unwrap();
        let status = answer.status().as_u16();
        let body: Value = parse(&path, status, &answer.body_mut().read_to_string().unwrap());
        json!({"part_number": body["part_number"], "etag": body["etag"]})
    }

    /// The messages of a thread.
    pub fn messages(&self, thread: Uuid) -> Vec<Message> {
        let found: Messages = self.get(&format!("threads/{thread}/messages?limit=200"));
        found.messages
    }

    /// What a run shows.
    pub fn run(&self, run: Uuid) -> RunDocument {
        self.get(&format!("runs/{run}/document"))
    }

    /// Presses Stop.
    pub fn stops(&self, run: Uuid) {
        let _: Value = self.send(&format!("runs/{run}/cancel"), "", None);
    }

    /// Presses Stop on a run that may have ended by now.
    pub fn stops_if_open(&self, run: Uuid) {
        let request = self.agent.post(format!("{}/api/v1/runs/{run}/cancel", self.base));
        let answer = request.header("Authorization", format!("Bearer {}", self.secret)).send_empty().unwrap();
        assert!(matches!(answer.status().as_u16(), 200..=299 | 409), "{}", answer.status());
    }

    /// Turns writing in a project on.
    pub fn lets_write(&self, channel: Uuid) {
        self.grants(channel, &json!({"workspace_write": true}));
    }

    /// Changes the permissions of a project.
    pub fn grants(&self, channel: Uuid, change: &Value) {
        let projects: Value = self.get("projects");
        let project = projects["projects"]
            .as_array()
            .unwrap()
            .iter()
            .find(|project| project["channel_id"] == json!(channel));
        let revision = project.unwrap()["grant_revision"].as_i64().unwrap();
        let answer = self
            .agent
            .put(format!("{}/api/v1/projects/{channel}/grant", self.base))
            .header("Authorization", format!("Bearer {}", self.secret))
            .header("If-Match", format!("\"{revision}\""))
            .header("Content-Type", "application/json")
            .send(change.to_string())
            .unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// Downloads a file.
    pub fn downloads(&self, file: Uuid) -> Vec<u8> {
        let mut answer = self
            .agent
            .get(format!("{}/api/v1/files/{file}/content", self.base))
            .header("Authorization", format!("Bearer {}", self.secret))
            .call()
            .unwrap();
        assert_eq!(answer.status(), 200);
        answer.body_mut().read_to_vec().unwrap()
    }

    /// Gets anything.
    pub fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        let mut answer = self
            .agent
            .get(format!("{}/api/v1/{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.secret))
            .call()
            .unwrap();
        parse(path, answer.status().as_u16(), &answer.body_mut().read_to_string().unwrap())
    }

    fn post<T: serde::de::DeserializeOwned>(&self, path: &str, body: &Value) -> T {
        self.send(path, &body.to_string(), None)
    }

    fn post_keyed<T: serde::de::DeserializeOwned>(&self, path: &str, body: &Value) -> T {
        self.send(path, &body.to_string(), Some(Uuid::now_v7()))
    }

    fn send<T: serde::de::DeserializeOwned>(&self, path: &str, body: &str, key: Option<Uuid>) -> T {
        let mut request = self
            .agent
            .post(format!("{}/api/v1/{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.secret))
            .header("Content-Type", "application/json");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key.to_string());
        }
        let mut answer = request.send(body).unwrap();
        parse(path, answer.status().as_u16(), &answer.body_mut().read_to_string().unwrap())
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &str, status: u16, text: &str) -> T {
    assert!((200..300).contains(&status), "{path}: {status} {text}");
    let text = if text.is_empty() { "null" } else { text };
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}
