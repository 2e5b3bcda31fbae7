//! HTTP on a bare socket: requests that no client would send, answers byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::openapi::find_header;
use super::wait::DEADLINE;

/// One request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub address: SocketAddr,
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
    /// The body, where it is JSON.
    pub json: Option<Value>,
}

impl Ask {
    /// A request with nothing but its `Host`.
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Ask {
        let headers = vec![("Host".to_owned(), address.to_string())];
        Ask { address, method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }

    /// With this value of a header and no other.
    pub fn with(mut self, name: &str, value: &str) -> Ask {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without a header.
    pub fn without(mut self, name: &str) -> Ask {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }

    /// With a JSON body.
    pub fn json(self, body: &Value) -> Ask {
        self.with("Content-Type", "application/json").bytes(body.to_string().as_bytes())
    }

    /// With these bytes as the body.
    pub fn bytes(mut self, body: &[u8]) -> Ask {
        self.body = body.to_vec();
        self
    }

    /// On another path.
    pub fn at(mut self, path: &str) -> Ask {
        self.path = path.to_owned();
        self
    }

    /// Sends it on a connection of its own; `None` when the connection ended without an answer.
    pub fn try_send(&self) -> Option<Reply> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", self.body.len()));
        send_bytes(self.address, &[head.as_bytes(), &self.body].concat())
    }
}

/// Sends bytes on a connection of their own and reads until the other side closes.
pub fn send_bytes(address: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // Who is refused early may find the connection closed while still writing; the answer counts.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    read_reply(&answer)
}

fn read_reply(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let headers = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let body = bytes[end + 4..].to_vec();
    Some(Reply { status, headers, json: serde_json::from_slice(&body).ok(), bytes: body })
}

impl Reply {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// The JSON body.
    #[track_caller]
    pub fn body(&self) -> &Value {
        self.json.as_ref().unwrap_or_else(|| panic!("no JSON: {self:?}"))
    }

    /// A member of the JSON body as an id.
    #[track_caller]
    pub fn id(&self, name: &str) -> uuid::Uuid {
        self.body()[name].as_str().unwrap_or_else(|| panic!("no {name}: {self:?}")).parse().unwrap()
    }
}
