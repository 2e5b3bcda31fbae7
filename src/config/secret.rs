//! Secrets and the references to them. Knows nothing of who uses a secret; never prints one.

use std::fmt;

/// A secret value; debug and display print `[redacted]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Where a secret is: `file:/path` or `env:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    /// A file that only its owner can read.
    File(std::path::PathBuf),
    /// A variable of the runner's environment.
    Env(String),
}

/// Why a secret cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// The reference has no known form.
    Form,
    /// The place cannot be read or is empty.
    Unreadable,
}

impl SecretRef {
    /// Reads a reference.
    ///
    /// # Errors
    /// [`SecretError::Form`] for any other form.
    pub fn parse(text: &str) -> Result<SecretRef, SecretError> {
        match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') => Ok(SecretRef::File(path.into())),
            Some(("env", name)) if !name.is_empty() => Ok(SecretRef::Env(name.to_owned())),
            _ => Err(SecretError::Form),
        }
    }

    /// Reads the secret anew.
    ///
    /// # Errors
    /// [`SecretError::Unreadable`] when there is none.
    pub fn read(&self) -> Result<Secret, SecretError> {
        let text = match self {
            SecretRef::File(path) => std::fs::read_to_string(path).map_err(|_| SecretError::Unreadable)?,
            SecretRef::Env(name) => std::env::var(name).map_err(|_| SecretError::Unreadable)?,
        };
        let value = text.strip_suffix('\n').unwrap_or(&text).to_owned();
        if value.is_empty() { Err(SecretError::Unreadable) } else { Ok(Secret(value)) }
    }
}
