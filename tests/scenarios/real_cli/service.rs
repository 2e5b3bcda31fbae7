//! A scripted stand-in for the model's service on loopback: just enough of its streaming answers for the CLI.
//!
//! Knows nothing of the runner. The first reply whose `when` stands in the last user message and that has
//! uses left answers; otherwise a fixed text does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One scripted answer.
#[derive(Clone)]
pub struct Reply {
    /// Text that the last user message must hold; empty: any.
    pub when: &'static str,
    /// How often it may be used.
    pub times: usize,
    /// What is answered.
    pub what: What,
}

/// What is answered.
#[derive(Clone)]
pub enum What {
    /// One text.
    Text(String),
    /// A call of a tool.
    Tool(&'static str, Value),
    /// A refusal with this status, type and header.
    Error(u16, &'static str, &'static str, Option<(&'static str, &'static str)>),
    /// Nothing, until the CLI leaves.
    Hang,
}

/// The running service.
pub struct Service {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    replies: Vec<Reply>,
    requests: Vec<Value>,
}

impl Service {
    /// Listens on a free loopback port, each connection on a thread of its own until it closes.
    pub fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Service { port, state }
    }

    /// The base URL for the CLI.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Adds a reply.
    pub fn reply(&self, when: &'static str, times: usize, what: What) {
        self.state.lock().unwrap().replies.push(Reply { when, times, what });
    }

    /// Forgets every reply.
    pub fn forget(&self) {
        self.state.lock().unwrap().replies.clear();
    }

    /// The bodies of every request for a message.
    pub fn requests(&self) -> Vec<Value> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((path, body)) = request(&mut reader) {
        if !path.starts_with("/v1/messages") || path.contains("count_tokens") {
            plain(
                &mut stream,
                404,
                &json!({"type": "error", "error": {"type": "not_found_error", "message": "none"}}),
                None,
            );
            continue;
        }
        let what = choose(&mut state.lock().unwrap(), &body);
        match what {
            What::Hang => {
                let _ = reader.read(&mut [0]);
                return;
            }
            What::Error(status, kind, message, header) => {
                let problem = json!({"type": "error", "error": {"type": kind, "message": message}});
                plain(&mut stream, status, &problem, header);
            }
            What::Text(text) => answer(&mut stream, &body, &json!({"type": "text", "text": text})),
            What::Tool(name, input) => {
                let id = format!("toolu_mock{}", uuid::Uuid::new_v4().simple());
                answer(
                    &mut stream,
                    &body,
                    &json!({"type": "tool_use", "id": id, "name": name, "input": input}),
                );
            }
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let lower = header.trim().to_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
    }
    let mut body = Vec::new();
    if chunked {
        read_chunks(reader, &mut body)?;
    } else {
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
    }
    Some((path, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn read_chunks(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..]).ok()?;
        reader.read_line(&mut String::new()).ok()?;
        if size == 0 {
            return Some(());
        }
    }
}

fn choose(state: &mut State, body: &Value) -> What {
    state.requests.push(body.clone());
    let text = last_user_text(body);
    let found = state.replies.iter_mut().find(|reply| reply.times > 0 && text.contains(reply.when));
    match found {
        None => What::Text("mock default answer".into()),
        Some(reply) => {
            reply.times -= 1;
            reply.what.clone()
        }
    }
}

fn last_user_text(body: &Value) -> String {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.iter().rev().find(|message| message["role"] == "user").cloned().unwrap_or_default();
    last["content"].to_string()
}

fn plain(stream: &mut TcpStream, status: u16, body: &Value, header: Option<(&str, &str)>) {
    let body = body.to_string();
    let extra = header.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{extra}\r\n",
        body.len()
    );
    let _ = stream.write_all((head + &body).as_bytes());
}

fn answer(stream: &mut TcpStream, body: &Value, block: &Value) {
    let is_tool = block["type"] == "tool_use";
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
    let message = json!({
        "id": format!("msg_mock_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
        "model": body["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let (start, delta) = if is_tool {
        let mut start = block.clone();
        start["input"] = json!({});
        (start, json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}))
    } else {
        (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]}))
    };
    let stop = if is_tool { "tool_use" } else { "end_turn" };
    let events = [
        ("message_start", json!({"type": "message_start", "message": message})),
        ("content_block_start", json!({"type": "content_block_start", "index": 0, "content_block": start})),
        ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let text: String = events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all((head + &text).as_bytes());
}
