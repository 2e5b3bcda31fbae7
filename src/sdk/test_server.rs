//! A scripted server for the tests of this layer: each request takes the next step of the script.
//!
//! It never decides anything; a held step lasts until the test lets it go, so no test sleeps.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde_json::{Value, json};

use super::client::{Client, ClientSettings};
use crate::config::secret::SecretRef;

/// Longest wait for something that must come; only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the server does with one request.
pub enum Step {
    /// Reads it whole, answers, keeps the connection.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Reads it whole, writes these bytes as they are, closes.
    Raw(Vec<u8>),
    /// Reads it whole, writes these bytes, then holds the connection until released, then closes.
    Hold(Vec<u8>, Receiver<()>),
    /// Reads the head only and holds.
    HoldUnread(Receiver<()>),
    /// Writes one byte of the text for each token of the channel, then closes.
    Drip(Vec<u8>, Receiver<()>),
}

/// A request as it came.
#[derive(Debug)]
pub struct Seen {
    /// Number of the connection, from zero.
    pub connection: usize,
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    /// The header `name` (lower case), or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub struct TestServer {
    pub address: SocketAddr,
    pub seen: Receiver<Seen>,
    script: Arc<Mutex<VecDeque<Step>>>,
    stop: Arc<AtomicBool>,
    directory: PathBuf,
}

impl TestServer {
    pub fn start(script: Vec<Step>) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, seen) = unbounded();
        let (queue, ended) = (script.clone(), stop.clone());
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (queue, tell) = (queue.clone(), tell.clone());
                std::thread::spawn(move || serve(number, stream.unwrap(), &queue, &tell));
            }
        });
        let directory = std::env::temp_dir().join(format!("sdk-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        let server = TestServer { address, seen, script, stop, directory };
        server.write_secret("token", "agent-token\n");
        server
    }

    pub fn push(&self, step: Step) {
        self.script.lock().unwrap().push_back(step);
    }

    pub fn next_request(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("a request")
    }

    /// Whether no further request came, now that the client has its result.
    pub fn saw_no_more(&self) -> bool {
        self.seen.try_recv().is_err()
    }

    pub fn write_secret(&self, name: &str, text: &str) -> SecretRef {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.directory.join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        SecretRef::parse(&format!("file:{}", path.display())).unwrap()
    }

    /// A path in the server's own temporary directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn settings(&self) -> ClientSettings {
        ClientSettings {
            server_url: self.url(),
            token: SecretRef::parse(&format!("file:{}", self.directory.join("token").display())).unwrap(),
            dpop_key: None,
            http_timeout: PATIENCE,
            retry_max_attempts: 3,
            retry_max_delay: Duration::from_millis(1),
            proxy: None,
            ca_file: None,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(self.settings()).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn serve(number: usize, stream: TcpStream, script: &Mutex<VecDeque<Step>>, tell: &Sender<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(mut seen) = read_head(number, &mut reader) {
        let Some(step) = script.lock().unwrap().pop_front() else { return };
        if !matches!(step, Step::HoldUnread(_)) {
            let length = seen.header("content-length").parse().unwrap_or(0);
            seen.body = vec![0; length];
            if reader.read_exact(&mut seen.body).is_err() {
                return;
            }
        }
        if !play(step, &mut stream, || tell.send(seen).unwrap_or_default()) {
            return;
        }
    }
}

/// Plays a step; `arrived` tells the test at the moment from which the client can only wait.
fn play(step: Step, stream: &mut TcpStream, arrived: impl FnOnce()) -> bool {
    match step {
        Step::Answer(status, headers, body) => {
            arrived();
            let mut head = format!("HTTP/1.1 {status} X\r\n");
            if status != 204 {
                head += &format!("content-length: {}\r\n", body.len());
            }
            headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
            let whole = [head.as_bytes(), b"\r\n", &body].concat();
            stream.write_all(&whole).is_ok()
        }
        Step::Raw(bytes) => {
            arrived();
            let _ = stream.write_all(&bytes);
            false
        }
        Step::Hold(bytes, release) => {
            let _ = stream.write_all(&bytes);
            arrived();
            let _ = release.recv();
            false
        }
        Step::HoldUnread(release) => {
            arrived();
            let _ = release.recv();
            false
        }
        Step::Drip(bytes, tokens) => {
            arrived();
            for (byte, ()) in bytes.iter().zip(tokens) {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            false
        }
    }
}

fn read_head(connection: usize, reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut first = lines.first()?.split(' ').map(str::to_owned);
    let (method, target) = (first.next()?, first.next()?);
    let header =
        |line: &String| line.split_once(':').map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()));
    Some(Seen {
        connection,
        method,
        target,
        headers: lines.iter().skip(1).filter_map(header).collect(),
        body: Vec::new(),
    })
}

/// An answer with a JSON body.
pub fn answer(status: u16, body: Value) -> Step {
    Step::Answer(status, vec![("content-type", "application/json".into())], body.to_string().into())
}

/// A problem.
pub fn problem(status: u16, code: &str, reason: Option<&str>) -> Step {
    let mut body = json!({"type": "about:blank", "title": "x", "status": status, "code": code});
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    Step::Answer(status, vec![("content-type", "application/problem+json".into())], body.to_string().into())
}

/// An answer without body.
pub fn empty(status: u16) -> Step {
    Step::Answer(status, Vec::new(), Vec::new())
}

/// A channel that holds a step until its sender is dropped.
pub fn hold() -> (Sender<()>, Receiver<()>) {
    bounded(0)
}
