//! Helpers of this module's own tests: a server with one project, and a client on a bare socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Hooks, Options, Server};
use crate::sdk::wire::run::{BillingMode, ToolClass};
use crate::sys::private::TempDir;

/// Longest wait for anything that must happen.
pub const SOON: Duration = Duration::from_secs(20);

/// A server with the project `website`.
pub struct World {
    pub server: Server,
    pub hooks: Hooks,
    pub dir: TempDir,
    pub channel: Uuid,
    agent: String,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub bytes: Vec<u8>,
    pub body: Value,
}

impl Reply {
    /// The first value of the field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// The member `name` as an id.
    pub fn id(&self, name: &str) -> Uuid {
        self.body[name].as_str().unwrap_or_else(|| panic!("{name} of {self:?}")).parse().unwrap()
    }

    /// Status, code and reason of a problem.
    pub fn problem(&self) -> (u16, &str, &str) {
        let text = |name: &str| self.body[name].as_str().unwrap_or_default();
        (self.status, text("code"), text("reason"))
    }

    /// The reply itself, when it has the status.
    #[track_caller]
    pub fn ok(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// One request to be sent.
pub struct Ask {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Ask {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn token(self, token: &str) -> Ask {
        self.with("Invocation-Token", token)
    }

    pub fn key(self, key: Uuid) -> Ask {
        self.with("Idempotency-Key", key.to_string())
    }

    pub fn if_match(self, version: i64) -> Ask {
        self.with("If-Match", format!("\"{version}\""))
    }

    pub fn json(self, body: &Value) -> Ask {
        let mut ask = self.with("Content-Type", "application/json");
        ask.body = body.to_string().into_bytes();
        ask
    }

    pub fn bytes(mut self, body: &[u8]) -> Ask {
        self.body = body.to_vec();
        self
    }

    fn text(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len()));
        [head.as_bytes(), &self.body].concat()
    }

    /// Sends it and gives the connection its answer will come on.
    pub fn begin(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let _ = stream.write_all(&self.text());
        stream
    }

    /// Sends it; `None` when the connection ended without an answer.
    pub fn try_send(&self) -> Option<Reply> {
        let mut answer = Vec::new();
        let _ = self.begin().read_to_end(&mut answer);
        read_reply(answer)
    }

    pub fn send(&self) -> Reply {
        self.try_send().expect("an answer")
    }
}

/// Sends bytes on a connection of their own, says that no more come, and reads until the server closes.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Reads one answer out of `bytes`; its date is left out, so that equal answers compare equal.
pub fn read_reply(bytes: Vec<u8>) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let head: String =
        head.split("\r\n").filter(|line| !line.starts_with("Date: ")).flat_map(|line| [line, "\n"]).collect();
    let body = bytes[end + 4..].to_vec();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Reply { status, head, bytes: body, body: json })
}

impl World {
    pub fn new() -> World {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("website")).unwrap();
        World::open(dir)
    }

    fn around(server: Server, hooks: Hooks, dir: TempDir) -> World {
        let agent = std::fs::read_to_string(server.agent_token_file()).unwrap();
        let channel = server.channel_of("website").unwrap();
        World { server, hooks, dir, channel, agent }
    }

    /// The same world after a stop and a new start.
    pub fn restarted(mut self) -> World {
        self.server.stop();
        World::open(self.dir)
    }

    /// The world that the directory `dir` holds, after the stop of `old`.
    pub fn restarted_in(mut old: World, dir: TempDir) -> World {
        old.server.stop();
        World::open(dir)
    }

    fn open(dir: TempDir) -> World {
        let hooks = Hooks::new();
        let server = start(&dir, hooks.clone());
        World::around(server, hooks, dir)
    }

    pub fn nobody(&self, method: &str, path: &str) -> Ask {
        let headers = vec![("Host".to_owned(), self.server.address().to_string())];
        let path = path.to_owned();
        Ask { address: self.server.address(), method: method.to_owned(), path, headers, body: Vec::new() }
    }

    pub fn agent(&self, method: &str, path: &str) -> Ask {
        self.nobody(method, &format!("/api/v1{path}")).with("Authorization", format!("Bearer {}", self.agent))
    }

    pub fn person(&self, method: &str, path: &str) -> Ask {
        let secret = std::fs::read_to_string(self.server.person_secret_file()).unwrap();
        self.nobody(method, &format!("/api/v1{path}")).with("Authorization", format!("Bearer {secret}"))
    }

    /// A new thread of the project.
    pub fn thread(&self) -> Uuid {
        self.person("POST", &format!("/projects/{}/threads", self.channel))
            .json(&json!({}))
            .send()
            .ok(201)
            .id("id")
    }

    /// Posts `text` as the person.
    pub fn post(&self, thread: Uuid, text: &str) -> Reply {
        let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": text});
        self.person("POST", &format!("/threads/{thread}/messages")).json(&body).send().ok(201)
    }

    /// Every event that waits for the consumer `default`.
    pub fn events(&self) -> Vec<Value> {
        let reply = self.agent("GET", "/gateway/events?consumer=default").send().ok(200);
        reply.body["events"].as_array().unwrap().clone()
    }

    /// A thread with a message, and its run with its token.
    pub fn queued(&self) -> (Uuid, Run) {
        let thread = self.thread();
        let run = self.post(thread, "hello").id("run_id");
        (thread, Run { id: run, token: self.server.operator().newest_token(run).unwrap() })
    }

    /// The same, started with a new session.
    pub fn running(&self) -> (Uuid, Run) {
        let (thread, run) = self.queued();
        self.start(&run, Uuid::now_v7()).ok(200);
        (thread, run)
    }

    pub fn start(&self, run: &Run, key: Uuid) -> Reply {
        let ask = self.agent("POST", &format!("/runs/{}/start", run.id)).token(&run.token);
        ask.key(key).json(&start_body()).send()
    }

    pub fn finish(&self, run: &Run, state: &str) -> Reply {
        let ask = self.agent("POST", &format!("/runs/{}/finish", run.id)).token(&run.token);
        ask.json(&json!({"state": state})).send()
    }
}

/// A run and its newest token.
#[derive(Clone, Debug)]
pub struct Run {
    pub id: Uuid,
    pub token: String,
}

pub fn start_body() -> Value {
    json!({
        "billing_mode_used": "organization", "tool_class_used": "scoped", "model": "sonnet",
        "external_session_ref": "7b0c9b4e-7c8c-4a86-9d0c-0d3b0b7f8f11",
        "billing_evidence": {"provider": "anthropic", "key_type": "api_key", "method": "claude_auth_status"},
    })
}

pub fn start(dir: &TempDir, hooks: Hooks) -> Server {
    Server::start(Options {
        data_dir: dir.path().join("data"),
        listen: None,
        projects: vec![("website".to_owned(), dir.path().join("website"))],
        tool_class: ToolClass::Scoped,
        billing_mode: BillingMode::Organization,
        hooks,
    })
    .unwrap()
}
