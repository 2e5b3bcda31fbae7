//! What a data directory holds: opened and, on first use, filled with an instance, a person, an agent and a key.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::blobs::Blobs;
use super::fail::Fail;
use super::secrets;
use super::server::LocalError;
use super::store::identity::{self, InstanceRow, PrincipalRow};
use super::store::{Store, Tx, projects};
use super::tokens::ServerKey;
use crate::sdk::jws::SigningKey;
use crate::sys::atomic_file;
use crate::sys::lock::{self, FileLock};
use crate::sys::private::{self, DirFault};

/// Name of the database.
const DATABASE: &str = "server.db";
/// Name of the file whose lock says that a server uses the directory.
const LOCK: &str = "lock";
/// Name of the file with the agent's token.
const AGENT_TOKEN: &str = "agent-token";
/// Name of the file with the person's secret.
const PERSON_SECRET: &str = "person-secret";
/// Name of the file with the address of the running server.
const ADDRESS: &str = "address";

/// The files of a data directory that others read.
#[derive(Clone, Debug)]
pub struct Files {
    /// The agent's token.
    pub agent_token: PathBuf,
    /// The person's secret, new at every start.
    pub person_secret: PathBuf,
    /// The address of the running server; absent while none runs.
    pub address: PathBuf,
}

impl Files {
    /// The files of `data_dir`.
    pub fn of(data_dir: &Path) -> Files {
        Files {
            agent_token: data_dir.join(AGENT_TOKEN),
            person_secret: data_dir.join(PERSON_SECRET),
            address: data_dir.join(ADDRESS),
        }
    }
}

/// An opened data directory.
pub struct Opened {
    /// The database.
    pub store: Store,
    /// The bytes of files.
    pub blobs: Blobs,
    /// The ids.
    pub instance: InstanceRow,
    /// The published keys, the newest last.
    pub keys: Vec<ServerKey>,
    /// The person's secret of this start.
    pub person_secret: String,
    /// Held while the server lives.
    pub lock: FileLock,
}

/// Opens `data_dir` for the projects named by `refs`.
pub fn open(data_dir: &Path, refs: &[&str]) -> Result<Opened, LocalError> {
    private::create_dir_all(data_dir).map_err(LocalError::DataDir)?;
    private::check_dir(data_dir).map_err(not_private)?;
    let lock = take_lock(&data_dir.join(LOCK))?;
    let path = data_dir.join(DATABASE);
    // Made before SQLite would make it, so that it and the files beside it are private from the start.
    private::open_append(&path).map_err(LocalError::DataDir)?;
    let store = Store::open(&path).map_err(LocalError::store)?;
    let blobs = Blobs::open(data_dir).map_err(LocalError::DataDir)?;
    let files = Files::of(data_dir);
    let instance = store.write(|tx| first_use(tx, refs)).map_err(LocalError::store)?;
    ensure_token(&store, &instance, &files.agent_token)?;
    let person_secret = secrets::random().ok_or(LocalError::NoRandom)?;
    atomic_file::write(&files.person_secret, person_secret.as_bytes()).map_err(LocalError::DataDir)?;
    let keys = load_keys(&store)?;
    Ok(Opened { store, blobs, instance, keys, person_secret, lock })
}

fn not_private(fault: DirFault) -> LocalError {
    match fault {
        DirFault::OpenToOthers | DirFault::ForeignOwner => LocalError::DataDirNotPrivate,
        DirFault::Missing | DirFault::NotADirectory | DirFault::Unreadable => {
            LocalError::DataDir(std::io::Error::other(fault))
        }
    }
}

fn take_lock(path: &Path) -> Result<FileLock, LocalError> {
    FileLock::acquire(path).map_err(LocalError::DataDir)?.ok_or(LocalError::DataDirInUse)
}

/// The address of the server that uses `data_dir`; `None` when none does, also when one died and left its
/// address behind.
pub fn running_in(data_dir: &Path) -> Option<SocketAddr> {
    if !lock::is_held(&data_dir.join(LOCK)).ok()? {
        return None;
    }
    std::fs::read_to_string(Files::of(data_dir).address).ok()?.trim().parse().ok()
}

fn first_use(tx: &Tx<'_>, refs: &[&str]) -> Result<InstanceRow, Fail> {
    let instance = match identity::instance(tx)? {
        Some(instance) => instance,
        None => make_instance(tx)?,
    };
    if identity::keys(tx)?.is_empty() {
        add_key(tx)?;
    }
    projects::serve(tx, refs)?;
    Ok(instance)
}

fn make_instance(tx: &Tx<'_>) -> Result<InstanceRow, Fail> {
    let instance = InstanceRow {
        id: Uuid::now_v7(),
        space_id: Uuid::now_v7(),
        agent_id: Uuid::now_v7(),
        person_id: Uuid::now_v7(),
    };
    for (id, kind, name) in [(instance.agent_id, "agent", "Agent"), (instance.person_id, "person", "You")] {
        let (kind, display_name) = (kind.to_owned(), name.to_owned());
        let row = PrincipalRow { id, kind, display_name, trusted: true, may_upload: true };
        identity::add_principal(tx, &row)?;
    }
    identity::make_instance(tx, &instance)?;
    Ok(instance)
}

/// Makes and keeps a new signing key; it signs from the next load on.
pub fn add_key(tx: &Tx<'_>) -> Result<(), Fail> {
    let key = SigningKey::generate().map_err(|_| std::io::Error::other("no random bytes"))?;
    Ok(identity::add_key(tx, &Uuid::now_v7().to_string(), key.pkcs8())?)
}

/// The published keys, the newest last.
pub fn load_keys(store: &Store) -> Result<Vec<ServerKey>, LocalError> {
    let kept = store.read(|tx| Ok(identity::keys(tx)?)).map_err(LocalError::store)?;
    let keys: Option<Vec<_>> = kept.iter().map(|(kid, pkcs8)| ServerKey::load(kid, pkcs8)).collect();
    keys.filter(|keys| !keys.is_empty())
        .ok_or_else(|| LocalError::store(std::io::Error::other("a key in it is damaged")))
}

/// The agent's token stays the same as long as its file holds it; a lost file gets a new token.
fn ensure_token(store: &Store, instance: &InstanceRow, path: &Path) -> Result<(), LocalError> {
    let kept = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(fault) if fault.kind() == ErrorKind::NotFound => None,
        Err(fault) => return Err(LocalError::DataDir(fault)),
    };
    let owner = |token: &str| store.read(|tx| Ok(identity::agent_token(tx, &secrets::hash(token))?));
    if let Some(token) = kept
        && owner(token.trim())
            .map_err(LocalError::store)?
            .is_some_and(|kept| kept.agent_id == instance.agent_id)
    {
        return Ok(());
    }
    let token = secrets::random().ok_or(LocalError::NoRandom)?;
    let set = store.write(|tx| Ok(identity::set_agent_token(tx, instance.agent_id, &secrets::hash(&token))?));
    set.map_err(LocalError::store)?;
    atomic_file::write(path, token.as_bytes()).map_err(LocalError::DataDir)
}
