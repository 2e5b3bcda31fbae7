//! Start and stop of the embedded server: the data directory, the listener, its threads.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::connection;
use super::core::{Core, Parts};
use super::fail::Fail;
use super::flow;
use super::hooks::Hooks;
use super::http::Answer;
use super::identity::{self, Files};
use super::lock;
use super::operator::Operator;
use super::problems;
use super::settings::Settings;
use super::store::{identity as ids, projects};
use super::sweep;
use crate::sdk::wire::problem::code;
use crate::sdk::wire::run::{BillingMode, ToolClass};
use crate::sys::atomic_file;
use crate::sys::lock::FileLock;

/// Most connections at once: a runner's, a page's and a terminal's, with much room.
const MAX_CONNECTIONS: usize = 128;
/// How long to wait when no connection can be accepted, or one too many be told so.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// Longest name of a project, bytes.
const MAX_REF_BYTES: usize = 200;

/// What a server is started with.
pub struct Options {
    /// Where everything is kept; made (0700) when missing.
    pub data_dir: PathBuf,
    /// A loopback address, port 0 for any; absent: 127.0.0.1 and the port of the first start.
    pub listen: Option<SocketAddr>,
    /// Projects by their workspace ref; each directory must exist.
    pub projects: Vec<(String, PathBuf)>,
    /// What turns may do.
    pub tool_class: ToolClass,
    /// Who pays for turns.
    pub billing_mode: BillingMode,
    /// Asked before and after each operation.
    pub hooks: Hooks,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum LocalError {
    /// The address is not a loopback address.
    NotLoopback(SocketAddr),
    /// Somebody else listens there.
    PortInUse(SocketAddr),
    /// The address cannot be used.
    Listen(io::Error),
    /// The data directory cannot be made, read or written.
    DataDir(io::Error),
    /// Others than its owner may enter the data directory.
    DataDirNotPrivate,
    /// Another server uses the data directory.
    DataDirInUse,
    /// The database cannot be opened, read or written.
    Store(Box<Fail>),
    /// The workspace ref cannot be one.
    ProjectRef(String),
    /// The project's directory does not exist.
    ProjectMissing(String),
    /// The system gives no random bytes or no thread.
    NoRandom,
}

impl LocalError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotLoopback(_) => "local_not_loopback",
            Self::PortInUse(_) => "local_port_in_use",
            Self::Listen(_) => "local_listen_failed",
            Self::DataDir(_) => "local_data_dir_failed",
            Self::DataDirNotPrivate => "local_data_dir_not_private",
            Self::DataDirInUse => "local_data_dir_in_use",
            Self::Store(_) => "local_store_failed",
            Self::ProjectRef(_) => "local_project_ref_invalid",
            Self::ProjectMissing(_) => "local_project_missing",
            Self::NoRandom => "local_system_failed",
        }
    }
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => {
                write!(f, "{address} is not a loopback address; use 127.0.0.1 or [::1]")
            }
            Self::PortInUse(address) => {
                write!(
                    f,
                    "something else listens on {address}; choose another port with --listen 127.0.0.1:PORT"
                )
            }
            Self::Listen(fault) => write!(f, "the address cannot be used: {fault}"),
            Self::DataDir(fault) => write!(f, "the data directory cannot be used: {fault}"),
            Self::DataDirNotPrivate => {
                write!(f, "others may enter the data directory; take their permissions away (chmod 700)")
            }
            Self::DataDirInUse => write!(f, "another server uses this data directory"),
            Self::Store(fault) => write!(
                f,
                "the database in the data directory cannot be used: {}; put a copy back, or choose another --data-dir",
                fault.cause()
            ),
            Self::ProjectRef(name) => write!(f, "{name:?} cannot be the name of a project"),
            Self::ProjectMissing(name) => write!(f, "the directory of the project {name:?} does not exist"),
            Self::NoRandom => write!(f, "the system gives no random bytes or no thread"),
        }
    }
}

impl std::error::Error for LocalError {}

impl LocalError {
    /// A fault of the database.
    pub(super) fn store(fault: impl Into<Fail>) -> LocalError {
        LocalError::Store(Box::new(fault.into()))
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    core: Arc<Core>,
    files: Files,
    open: Arc<Connections>,
    threads: Vec<JoinHandle<()>>,
    lock: Option<FileLock>,
}

/// The living connections.
#[derive(Default)]
struct Connections(Mutex<Living>);

#[derive(Default)]
struct Living {
    next: u64,
    streams: HashMap<u64, TcpStream>,
    threads: HashMap<u64, JoinHandle<()>>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// See [`LocalError`]; nothing is left running.
    pub fn start(options: Options) -> Result<Server, LocalError> {
        for (name, dir) in &options.projects {
            check_project(name, dir)?;
        }
        let refs: Vec<&str> = options.projects.iter().map(|(name, _)| name.as_str()).collect();
        let opened = identity::open(&options.data_dir, &refs)?;
        let kept = opened.store.read(|tx| Ok(ids::port(tx)?)).map_err(LocalError::store)?;
        let first = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), kept.unwrap_or(0));
        let (listener, address) = listen(options.listen.unwrap_or(first))?;
        opened.store.write(|tx| Ok(ids::keep_port(tx, address.port())?)).map_err(LocalError::store)?;
        let files = Files::of(&options.data_dir);
        atomic_file::write(&files.address, address.to_string().as_bytes()).map_err(LocalError::DataDir)?;
        let core = Arc::new(Core::new(Parts {
            store: opened.store,
            blobs: opened.blobs,
            hooks: options.hooks,
            instance: opened.instance,
            address,
            person_secret: opened.person_secret,
            keys: opened.keys,
            settings: Settings::new(options.tool_class, options.billing_mode),
        }));
        core.write(|tx| flow::send_waiting(tx, &core)).map_err(LocalError::store)?;
        let mut server =
            Server { core, files, open: Arc::default(), threads: Vec::new(), lock: Some(opened.lock) };
        server.run(listener)?;
        Ok(server)
    }

    fn run(&mut self, listener: TcpListener) -> Result<(), LocalError> {
        let (core, open) = (self.core.clone(), self.open.clone());
        self.spawn("local-accept", move || accept(&core, &open, &listener))?;
        let core = self.core.clone();
        self.spawn("local-sweep", move || sweep::sweep(&core))
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LocalError> {
        let thread = Builder::new().name(name.to_owned()).spawn(work).map_err(|_| LocalError::NoRandom)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.core.address
    }

    /// Its origin, without a slash at the end: the runner's `runner.server_url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.core.address)
    }

    /// The page's address with the person's secret in the fragment, which no browser sends anywhere.
    pub fn page_address(&self) -> String {
        format!("{}/#{}", self.url(), self.core.person_secret)
    }

    /// `iss` of its invocation tokens: the runner's `runner.instance_id`.
    pub fn instance_id(&self) -> Uuid {
        self.core.instance.id
    }

    /// The agent's id.
    pub fn agent_id(&self) -> Uuid {
        self.core.instance.agent_id
    }

    /// The file with the agent's token.
    pub fn agent_token_file(&self) -> &Path {
        &self.files.agent_token
    }

    /// The file with the person's secret.
    pub fn person_secret_file(&self) -> &Path {
        &self.files.person_secret
    }

    /// The forum of a project.
    pub fn channel_of(&self, workspace_ref: &str) -> Option<Uuid> {
        let served = self.core.store.read(|tx| Ok(projects::served(tx)?)).ok()?;
        served.into_iter().find(|row| row.workspace_ref == workspace_ref).map(|row| row.channel_id)
    }

    /// What is done by hand.
    pub fn operator(&self) -> Operator<'_> {
        Operator::new(&self.core)
    }

    /// Ends every connection and thread. Stopping again does nothing.
    pub fn stop(&mut self) {
        self.core.begin_stop();
        self.open.close_all();
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.core.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.open.join_all();
        if self.lock.take().is_some() {
            let _ = std::fs::remove_file(&self.files.address);
        }
    }

    /// The address of the server that uses `data_dir`, when one runs; read it with the secret beside it.
    pub fn running_in(data_dir: &Path) -> Option<SocketAddr> {
        identity::running_in(data_dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_project(name: &str, dir: &Path) -> Result<(), LocalError> {
    let plain = !name.is_empty() && name.len() <= MAX_REF_BYTES && !name.chars().any(char::is_control);
    if !plain {
        return Err(LocalError::ProjectRef(name.to_owned()));
    }
    if dir.is_dir() { Ok(()) } else { Err(LocalError::ProjectMissing(name.to_owned())) }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), LocalError> {
    if !address.ip().is_loopback() {
        return Err(LocalError::NotLoopback(address));
    }
    let listener = TcpListener::bind(address).map_err(|fault| match fault.kind() {
        ErrorKind::AddrInUse => LocalError::PortInUse(address),
        _ => LocalError::Listen(fault),
    })?;
    let address = listener.local_addr().map_err(LocalError::Listen)?;
    Ok((listener, address))
}

/// Gives each connection a thread of its own until the server stops.
fn accept(core: &Arc<Core>, open: &Arc<Connections>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if core.is_stopping() {
            return;
        }
        match accepted {
            Ok((stream, _)) => open.begin(core, open, stream),
            // Out of descriptors or a client that left again: the next one may do better.
            Err(_) => {
                let count = core.notifier.count();
                core.notifier.wait(count, Instant::now() + ACCEPT_PAUSE);
            }
        }
    }
}

impl Connections {
    fn begin(&self, core: &Arc<Core>, shared: &Arc<Connections>, stream: TcpStream) {
        let mut living = lock(&self.0);
        let Some(copy) = stream.try_clone().ok().filter(|_| living.streams.len() < MAX_CONNECTIONS) else {
            drop(living);
            return turn_away(&stream);
        };
        living.next += 1;
        let id = living.next;
        let (core, shared) = (core.clone(), shared.clone());
        let thread = Builder::new().name(format!("local-{id}")).spawn(move || {
            connection::serve(&core, &stream);
            let mut living = lock(&shared.0);
            living.streams.remove(&id);
            // Its own handle goes too; when the server joins already, it has taken it.
            living.threads.remove(&id);
        });
        if let Ok(thread) = thread {
            living.streams.insert(id, copy);
            living.threads.insert(id, thread);
        }
    }

    fn close_all(&self) {
        for stream in lock(&self.0).streams.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn join_all(&self) {
        loop {
            let threads: Vec<_> = {
                let mut living = lock(&self.0);
                living.streams.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
                living.threads.drain().map(|(_, thread)| thread).collect()
            };
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
    }
}

fn turn_away(stream: &TcpStream) {
    let answer = Answer::problem(&problems::http(503, code::UNAVAILABLE)).with("Retry-After", "1");
    let _ = stream.set_write_timeout(Some(ACCEPT_PAUSE));
    let _ = answer.write(&mut { stream }, false, false, None);
}
