//! Secrets: where one is, reading it fresh for each use, and a type that does not print it.
//!
//! Must not know what a secret is for. Invariant: no error, `Debug` or `Display` here holds a secret or the
//! place of one (M2-34 notes 2 and 16).

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_NONBLOCK;

use super::fault::Problem;
use super::values::{is_variable_name, plain};
use crate::sys::private::FOREIGN_BITS;
use crate::sys::process::effective_uid;

/// Longest secret in bytes; a key file has a few thousand.
pub const SECRET_SIZE_LIMIT: u64 = 64 * 1024;
/// Environment variable by which a service manager names its directory of credentials.
pub const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";
/// Beginning of the one kind of secret that has several lines.
const PEM_BEGIN: &str = "-----BEGIN ";
/// Bits that a service manager's credential must not have: it is readable by its group.
const FOREIGN_BITS_OF_CREDENTIAL: u32 = 0o037;
const ROOT_UID: u32 = 0;

/// A secret's value. `Debug` and `Display` print `[redacted]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    /// The value itself, for the one place that sends it or passes it on.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[redacted]")
    }
}

/// Where a secret is: `file:/path` or `env:NAME`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretRef(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Env(String),
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.0 {
            Place::File(_) => "SecretRef(file)",
            Place::Env(_) => "SecretRef(env)",
        })
    }
}

impl SecretRef {
    /// Reads the form `file:/path` or `env:NAME`.
    ///
    /// # Errors
    /// [`Problem::SecretRef`] for any other form.
    pub fn parse(text: &str) -> Result<SecretRef, Problem> {
        let place = match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') && plain(path) => Place::File(path.into()),
            Some(("env", name)) if is_variable_name(name) => Place::Env(name.into()),
            _ => return Err(Problem::SecretRef),
        };
        Ok(SecretRef(place))
    }

    /// A reference to the file `path`, for a program that made the file itself.
    pub fn file(path: &Path) -> SecretRef {
        SecretRef(Place::File(path.to_owned()))
    }

    /// Reads the secret anew.
    ///
    /// One trailing line end is dropped; a text that begins as PEM may have several lines, any other only one.
    ///
    /// # Errors
    /// [`SecretError`], without the place and without the value.
    pub fn read(&self) -> Result<Secret, SecretError> {
        let credentials = std::env::var_os(CREDENTIALS_DIRECTORY).map(PathBuf::from);
        let bytes = match &self.0 {
            Place::File(path) => read_file(path, credentials.as_deref())?,
            Place::Env(name) => from_env(std::env::var_os(name))?,
        };
        checked(bytes)
    }

    /// As [`SecretRef::read`] for a token or key, which travels as one word of a header: what was copied with a space
    /// or an unseen letter beside it would only be refused at its first use.
    ///
    /// # Errors
    /// As [`SecretRef::read`], and [`SecretError::NotAToken`].
    pub fn read_token(&self) -> Result<Secret, SecretError> {
        let secret = self.read()?;
        let is_word = secret.expose().bytes().all(|byte| byte.is_ascii_graphic());
        if is_word { Ok(secret) } else { Err(SecretError::NotAToken) }
    }
}

/// Why a secret could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// The file or the variable does not exist.
    Missing,
    /// The file cannot be read.
    Unreadable,
    /// Something else than a regular file is there.
    NotAFile,
    /// Another user owns the file.
    ForeignOwner,
    /// The group or others have a permission on the file.
    OpenToOthers,
    /// It is longer than [`SECRET_SIZE_LIMIT`].
    TooLong,
    /// Nothing is in it.
    Empty,
    /// It is not UTF-8.
    NotText,
    /// It holds a control character or, outside PEM, a line break.
    ControlCharacter,
    /// It is to be a token or key and holds a space or a letter outside ASCII.
    NotAToken,
}

impl SecretError {
    /// Stable code for logs and `check-config`.
    pub fn code(self) -> &'static str {
        match self {
            SecretError::Missing => "secret_missing",
            SecretError::Unreadable => "secret_unreadable",
            SecretError::NotAFile => "secret_not_a_file",
            SecretError::ForeignOwner => "secret_foreign_owner",
            SecretError::OpenToOthers => "secret_open_to_others",
            SecretError::TooLong => "secret_too_long",
            SecretError::Empty => "secret_empty",
            SecretError::NotText => "secret_not_text",
            SecretError::ControlCharacter => "secret_control_character",
            SecretError::NotAToken => "secret_not_a_token",
        }
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            SecretError::Missing => "the secret does not exist; create its file or set its variable",
            SecretError::Unreadable => "the secret's file cannot be read; check its permissions",
            SecretError::NotAFile => "the secret's place is not a regular file",
            SecretError::ForeignOwner => {
                "another user owns the secret's file; call this as the runner's user, or give the file to it"
            }
            SecretError::OpenToOthers => "group or others may use the secret's file; set mode 0600",
            SecretError::TooLong => "the secret is too long; name the right file",
            SecretError::Empty => "the secret is empty",
            SecretError::NotText => "the secret is not UTF-8 text",
            SecretError::ControlCharacter => "the secret holds a control character or a second line",
            SecretError::NotAToken => {
                "the secret holds a space or a letter that no token has; copy it anew, without what stands around it"
            }
        })
    }
}

impl std::error::Error for SecretError {}

/// `credentials` is the service manager's directory, when there is one.
fn read_file(path: &Path, credentials: Option<&Path>) -> Result<Vec<u8>, SecretError> {
    // Non-blocking, so that a FIFO in the file's place cannot hold the runner.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).map_err(of_io)?;
    let found = file.metadata().map_err(of_io)?;
    let is_credential = credentials.is_some_and(|directory| is_below(path, directory));
    check_owner(&found, is_credential, effective_uid())?;
    bounded(file)
}

fn of_io(error: io::Error) -> SecretError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SecretError::Missing,
        _ => SecretError::Unreadable,
    }
}

fn is_below(path: &Path, directory: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(directory)) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        _ => false,
    }
}

/// A credential of the service manager may belong to root and be readable by its group, as systemd makes it.
fn check_owner(found: &Metadata, is_credential: bool, user: u32) -> Result<(), SecretError> {
    if !found.is_file() {
        return Err(SecretError::NotAFile);
    }
    if found.uid() != user && !(is_credential && found.uid() == ROOT_UID) {
        return Err(SecretError::ForeignOwner);
    }
    let foreign = if is_credential { FOREIGN_BITS_OF_CREDENTIAL } else { FOREIGN_BITS };
    if found.mode() & foreign != 0 { Err(SecretError::OpenToOthers) } else { Ok(()) }
}

fn bounded(file: File) -> Result<Vec<u8>, SecretError> {
    let mut bytes = Vec::new();
    file.take(SECRET_SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(|_| SecretError::Unreadable)?;
    Ok(bytes)
}

fn from_env(value: Option<OsString>) -> Result<Vec<u8>, SecretError> {
    Ok(value.ok_or(SecretError::Missing)?.into_encoded_bytes())
}

fn checked(bytes: Vec<u8>) -> Result<Secret, SecretError> {
    if bytes.len() as u64 > SECRET_SIZE_LIMIT {
        return Err(SecretError::TooLong);
    }
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText)?;
    let line = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if line.is_empty() {
        return Err(SecretError::Empty);
    }
    let is_break = |letter: char| line.starts_with(PEM_BEGIN) && matches!(letter, '\n' | '\r');
    if line.chars().any(|letter| letter.is_control() && !is_break(letter)) {
        return Err(SecretError::ControlCharacter);
    }
    Ok(Secret(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sys::private::TempDir;

    const CANARY: &str = "canary-value";

    #[test]
    fn reference_forms_table() {
        for good in ["file:/run/token", "file:///run/token", "env:TOKEN", "env:_T1"] {
            assert!(SecretRef::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "file:",
            "file:token",
            "file:~/token",
            "env:",
            "env:1T",
            "env:A B",
            "env:A=B",
            "/run/token",
            "token",
            "vault:x",
            "FILE:/x",
            "file:/a\nb",
            " env:TOKEN",
        ] {
            assert_eq!(SecretRef::parse(bad).unwrap_err(), Problem::SecretRef, "{bad}");
        }
    }

    #[test]
    fn content_table() {
        let pem = format!("{PEM_BEGIN}PRIVATE KEY-----\nAAAA\r\nBBBB\n-----END PRIVATE KEY-----");
        let long = "x".repeat(SECRET_SIZE_LIMIT as usize);
        let rows: Vec<(Vec<u8>, Result<&str, SecretError>)> = vec![
            (b"value".to_vec(), Ok("value")),
            (b"value\n".to_vec(), Ok("value")),
            (b"value\r\n".to_vec(), Ok("value")),
            (b" value ".to_vec(), Ok(" value ")),
            ("\u{fc}\u{1F980}".into(), Ok("\u{fc}\u{1F980}")),
            (b"value\n\n".to_vec(), Err(SecretError::ControlCharacter)),
            (b"two\nlines".to_vec(), Err(SecretError::ControlCharacter)),
            (b"bell\x07".to_vec(), Err(SecretError::ControlCharacter)),
            (b"zero\0".to_vec(), Err(SecretError::ControlCharacter)),
            (b"".to_vec(), Err(SecretError::Empty)),
            (b"\n".to_vec(), Err(SecretError::Empty)),
            (b"\r\n".to_vec(), Err(SecretError::Empty)),
            (b"\xff\xfe".to_vec(), Err(SecretError::NotText)),
            (format!("{pem}\n").into_bytes(), Ok(&pem)),
            (long.clone().into_bytes(), Ok(&long)),
            (format!("{long}x").into_bytes(), Err(SecretError::TooLong)),
        ];
        for (bytes, expected) in rows {
            let got = checked(bytes);
            assert_eq!(got.as_ref().map(Secret::expose).map_err(|error| *error), expected);
        }
    }

    #[test]
    fn a_token_is_one_word_of_visible_ascii() {
        let home = TempDir::new().unwrap();
        let path = home.join("token");
        let good = ["sk-ant-api03_A.b~c+d/e==", "{\"quoted\"}"];
        let bad = [
            " token",
            "token ",
            "to ken",
            "\u{feff}token",
            "token\u{a0}",
            "tok\u{fc}n",
            "\u{201c}token\u{201d}",
        ];
        let rows = good.map(|text| (text, true)).into_iter().chain(bad.map(|text| (text, false)));
        for (text, is_token) in rows {
            crate::sys::atomic_file::write(&path, format!("{text}\n").as_bytes()).unwrap();
            let read = SecretRef::file(&path).read_token();
            assert_eq!(read.map_err(SecretError::code).is_ok(), is_token, "{text:?}");
        }
    }

    #[test]
    fn file_permissions_table() {
        let home = TempDir::new().unwrap();
        let path = home.join("token");
        fs::write(&path, CANARY).unwrap();
        let credentials = Some(home.path());
        let rows = [
            (0o600, None, Ok(())),
            (0o400, None, Ok(())),
            (0o640, None, Err(SecretError::OpenToOthers)),
            (0o604, None, Err(SecretError::OpenToOthers)),
            (0o610, None, Err(SecretError::OpenToOthers)),
            (0o440, credentials, Ok(())),
            (0o460, credentials, Err(SecretError::OpenToOthers)),
            (0o444, credentials, Err(SecretError::OpenToOthers)),
            (0o440, Some(Path::new("/nonexistent")), Err(SecretError::OpenToOthers)),
        ];
        for (mode, directory, expected) in rows {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_file(&path, directory).map(drop), expected, "{mode:o}");
        }
    }

    #[test]
    fn owners_table() {
        let home = TempDir::new().unwrap();
        let path = home.join("token");
        fs::write(&path, CANARY).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let found = fs::metadata(&path).unwrap();
        let own = effective_uid();
        assert_eq!(check_owner(&found, false, own), Ok(()));
        assert_eq!(check_owner(&found, false, own + 1), Err(SecretError::ForeignOwner));
        let as_credential = if own == ROOT_UID { Ok(()) } else { Err(SecretError::ForeignOwner) };
        assert_eq!(check_owner(&found, true, own + 1), as_credential);
    }

    #[test]
    fn other_places_are_refused_without_blocking() {
        let home = TempDir::new().unwrap();
        let fifo = home.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (path, expected) in [
            (fifo, SecretError::NotAFile),
            (home.path().to_owned(), SecretError::NotAFile),
            (home.join("absent"), SecretError::Missing),
        ] {
            assert_eq!(read_file(&path, None).unwrap_err(), expected);
        }
        let absent = SecretRef::parse("env:CCR_TEST_ABSENT_VARIABLE").unwrap();
        assert_eq!(absent.read().unwrap_err(), SecretError::Missing);
        assert_eq!(from_env(Some(CANARY.into())), Ok(CANARY.into()));
    }

    #[test]
    fn read_fresh_for_each_use_and_never_printed() {
        let home = TempDir::new().unwrap();
        let path = home.join("token");
        let place = SecretRef::file(&path);
        for value in [CANARY, "second"] {
            crate::sys::atomic_file::write(&path, format!("{value}\n").as_bytes()).unwrap();
            let secret = place.read().unwrap();
            assert_eq!(secret.expose(), value);
            assert_eq!(format!("{secret} {secret:?} {place:?}"), "[redacted] [redacted] SecretRef(file)");
        }
    }
}
