//! The environment of `auth status` and of the turn, built from nothing.
//!
//! An allow list, never a deny list: a variable reaches the turn because it is named here, not because nobody took
//! it away (M2-34 note 7, R-2, R-17, R-26). It must not read the process environment; the caller hands it in, and
//! no value of it may be printed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::Secret;
use crate::config::turn_env::{FIXED_TURN_ENV, refused_turn_env_name};
use crate::sdk::wire::run::BillingMode;

/// Variables passed on as they are when the runner has them.
const PASSED: &[&str] = &["USER", "LOGNAME", "SHELL", "TERM", "LANG"];

/// The variables whose value decides the character set, the strongest first (POSIX).
const LOCALE_NAMES: &[&str] = &["LC_ALL", "LC_CTYPE", "LANG"];

/// The locale of a turn whose runner has no UTF-8 locale.
const UTF8_LOCALE: &str = "C.UTF-8";

/// Write permission of group and others; another account could plant a program in such a directory.
const OTHERS_WRITE: u32 = 0o022;

/// Execute permission of anybody.
const ANY_EXECUTE: u32 = 0o111;

/// Everything that the environment depends on.
pub struct EnvInputs<'a> {
    /// The runner's own environment.
    pub parent: &'a [(OsString, OsString)],
    /// The proven or wanted payer.
    pub mode: BillingMode,
    /// `runner.state_dir`; absolute.
    pub state_dir: &'a Path,
    /// The run's temporary directory; absolute.
    pub temp_dir: &'a Path,
    /// The key of mode organization, read for this run; without effect in mode personal.
    pub api_key: Option<&'a Secret>,
    /// `runner.turn_env` with its secrets resolved.
    pub turn_env: &'a [(String, String)],
    /// `runner.forward_ssh_agent`.
    pub forward_ssh_agent: bool,
    /// Home directory of the account's passwd entry, see [`passwd_home`]; used where HOME is unusable.
    pub passwd_home: Option<PathBuf>,
}

/// A finished environment. Its debug form names the variables and never a value.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnEnv {
    /// All variables, by name.
    pub vars: Vec<(OsString, OsString)>,
    /// The cleaned PATH, in which programs are looked up.
    pub path: Vec<PathBuf>,
}

impl fmt::Debug for TurnEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.vars.iter().map(|(name, _)| name)).finish()
    }
}

/// Why no environment was built. Says what to do, never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvFault {
    /// Neither HOME nor the passwd entry names an existing directory.
    HomeMissing,
    /// Mode organization without a key.
    ApiKeyMissing,
    /// The key cannot be a variable's value.
    ApiKeyMalformed,
    /// A name in `runner.turn_env` that the runner decides itself.
    TurnEnvRefused,
    /// A name or value in `runner.turn_env` that cannot be a variable.
    TurnEnvMalformed,
}

impl EnvFault {
    /// The stable log code.
    pub fn code(self) -> &'static str {
        match self {
            EnvFault::HomeMissing => "home_missing",
            EnvFault::ApiKeyMissing => "api_key_missing",
            EnvFault::ApiKeyMalformed => "api_key_malformed",
            EnvFault::TurnEnvRefused => "turn_env_refused",
            EnvFault::TurnEnvMalformed => "turn_env_malformed",
        }
    }
}

impl fmt::Display for EnvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            EnvFault::HomeMissing => "set HOME to an existing directory, or give the account one",
            EnvFault::ApiKeyMissing => "runner.anthropic_api_key_ref gives no key",
            EnvFault::ApiKeyMalformed => "runner.anthropic_api_key_ref gives a value that is no key",
            EnvFault::TurnEnvRefused => "runner.turn_env sets a variable that the runner decides",
            EnvFault::TurnEnvMalformed => "runner.turn_env holds something that cannot be a variable",
        };
        write!(f, "{}: {text}", self.code())
    }
}

impl std::error::Error for EnvFault {}

/// Builds the environment of one run (M2-34 note 7).
///
/// `HomeMissing` when no home directory exists (never a relative one in its place), `ApiKeyMissing` in mode
/// organization without a key, which the caller ends as `runtime_not_authenticated` without calling the runtime.
pub fn build(inputs: &EnvInputs<'_>) -> Result<TurnEnv, EnvFault> {
    let parent: BTreeMap<&OsStr, &OsStr> =
        inputs.parent.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str())).collect();
    let mut vars = BTreeMap::new();
    // First, so that nothing in it can replace what follows.
    add_turn_env(&mut vars, inputs.turn_env)?;
    add_passed(&mut vars, &parent);
    add_locale(&mut vars, &parent);
    set(&mut vars, "HOME", home(inputs.parent, inputs.passwd_home.as_deref())?);
    set(&mut vars, "TMPDIR", inputs.temp_dir.as_os_str());
    let path = clean_path(parent.get(OsStr::new("PATH")).copied());
    set(&mut vars, "PATH", join_path(&path));
    if inputs.forward_ssh_agent
        && let Some(socket) = parent.get(OsStr::new("SSH_AUTH_SOCK"))
    {
        set(&mut vars, "SSH_AUTH_SOCK", socket);
    }
    if inputs.mode == BillingMode::Organization {
        set(&mut vars, "ANTHROPIC_API_KEY", checked_key(inputs.api_key.map(Secret::expose))?);
        set(&mut vars, "CLAUDE_CONFIG_DIR", config_dir(inputs.state_dir));
    }
    for (name, value) in FIXED_TURN_ENV {
        set(&mut vars, name, value);
    }
    Ok(TurnEnv { vars: vars.into_iter().collect(), path })
}

/// The runtime's own directory in mode organization; made 0700 by the caller and never written by the runner.
pub fn config_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("claude-config").join("organization")
}

/// HOME of `parent`, else `passwd`, whichever is an existing directory first; never a relative one.
///
/// # Errors
/// [`EnvFault::HomeMissing`] when neither is.
pub fn home(parent: &[(OsString, OsString)], passwd: Option<&Path>) -> Result<PathBuf, EnvFault> {
    let usable = |dir: &PathBuf| dir.is_absolute() && dir.is_dir();
    let own = parent.iter().find(|(name, _)| name == "HOME").map(|(_, value)| PathBuf::from(value));
    let own = own.filter(usable);
    own.or_else(|| passwd.map(Path::to_path_buf).filter(usable)).ok_or(EnvFault::HomeMissing)
}

/// The home directory in the passwd entry of the account this process runs as.
pub fn passwd_home() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir)
}

/// The entries of PATH that can be trusted, in order, each once.
///
/// Dropped: empty and relative entries, what is no existing directory, and what group or others may write to.
pub fn clean_path(path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for entry in path.map(std::env::split_paths).into_iter().flatten() {
        if entry.is_absolute() && !kept.contains(&entry) && is_private_dir(&entry) {
            kept.push(entry);
        }
    }
    kept
}

/// The program `name`: an absolute path as it is, else the first executable file of that name in `path`.
///
/// A relative path with a slash finds nothing, because it would depend on the working directory.
pub fn find_program(name: &str, path: &[PathBuf]) -> Option<PathBuf> {
    if Path::new(name).is_absolute() {
        return Some(PathBuf::from(name)).filter(|program| is_executable(program));
    }
    if name.is_empty() || name.contains('/') {
        return None;
    }
    path.iter().map(|dir| dir.join(name)).find(|program| is_executable(program))
}

type Vars = BTreeMap<OsString, OsString>;

fn set(vars: &mut Vars, name: &str, value: impl AsRef<OsStr>) {
    vars.insert(name.into(), value.as_ref().to_owned());
}

fn add_turn_env(vars: &mut Vars, turn_env: &[(String, String)]) -> Result<(), EnvFault> {
    for (name, value) in turn_env {
        if refused_turn_env_name(name) {
            return Err(EnvFault::TurnEnvRefused);
        }
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EnvFault::TurnEnvMalformed);
        }
        set(vars, name, value);
    }
    Ok(())
}

fn add_passed(vars: &mut Vars, parent: &BTreeMap<&OsStr, &OsStr>) {
    for (name, value) in parent {
        let listed = PASSED.iter().any(|passed| *name == OsStr::new(passed));
        if listed || name.as_bytes().starts_with(b"LC_") {
            vars.insert((*name).to_owned(), (*value).to_owned());
        }
    }
}

/// Makes the character set UTF-8 where the runner's is not, also against a stronger variable.
fn add_locale(vars: &mut Vars, parent: &BTreeMap<&OsStr, &OsStr>) {
    let value = |name: &&str| parent.get(OsStr::new(name)).copied().filter(|value| !value.is_empty());
    if LOCALE_NAMES.iter().find_map(value).is_some_and(is_utf8_locale) {
        return;
    }
    set(vars, "LANG", UTF8_LOCALE);
    for name in LOCALE_NAMES {
        if value(name).is_some() {
            set(vars, name, UTF8_LOCALE);
        }
    }
}

fn is_utf8_locale(value: &OsStr) -> bool {
    let name = value.to_string_lossy().to_ascii_lowercase();
    name.contains(".utf-8") || name.contains(".utf8")
}

fn checked_key(key: Option<&str>) -> Result<&str, EnvFault> {
    let key = key.filter(|key| !key.trim().is_empty()).ok_or(EnvFault::ApiKeyMissing)?;
    if key.chars().any(char::is_control) { Err(EnvFault::ApiKeyMalformed) } else { Ok(key) }
}

fn join_path(path: &[PathBuf]) -> OsString {
    path.iter().map(|entry| entry.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":"))
}

fn is_private_dir(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & OTHERS_WRITE == 0)
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & ANY_EXECUTE != 0)
}

#[cfg(test)]
#[path = "environment/tests.rs"]
mod tests;
