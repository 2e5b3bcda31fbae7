//! What can be wrong with a configuration file, and how it is said: key, file and line, never a value.
//!
//! Must not know how a value is read. Invariant: no variant holds text of the file, so none can be printed.

use std::{fmt, io};

use crate::sys::private::DirFault;

/// What is wrong at one place, and in its `Display` what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The system does not let the file be read, and why.
    Unreadable(io::ErrorKind),
    /// What has the file's name is a directory, a FIFO or another thing that is no regular file.
    NoRegularFile,
    /// The file is longer than a configuration file may be.
    FileTooLong,
    /// The file is not UTF-8.
    NotText,
    /// The text is not TOML from here on.
    Syntax,
    /// A key or table stands twice.
    DuplicateKey,
    /// The key is not in the table of keys.
    UnknownKey,
    /// A required key is missing.
    Missing,
    /// The value has another type than the named one.
    WrongType(&'static str),
    /// The value is empty.
    Empty,
    /// The value begins with `-` and would be read as an option of a program.
    LeadingDash,
    /// The value holds a control or bidi character.
    ControlCharacter,
    /// The value is longer than values may be.
    TooLong,
    /// The value is none of those that the text names.
    NotOneOf(&'static str),
    /// The value is not a duration.
    Duration,
    /// The value is not a size.
    Size,
    /// The value is outside the range that the text names.
    OutOfRange(&'static str),
    /// The value is not a UUID.
    Uuid,
    /// The value is not a decimal amount above zero.
    Amount,
    /// The value is no secret reference.
    SecretRef,
    /// The value is no address of a server.
    Address,
    /// The address has no encryption and no loopback host.
    Plain,
    /// The address carries credentials, a query or a fragment.
    AddressParts,
    /// The value is no address of a proxy.
    Proxy,
    /// The path is not absolute.
    NotAbsolute,
    /// The value is no program name and no absolute path.
    Program,
    /// The value is no tool rule.
    ToolRule,
    /// The value is no name for this purpose.
    Name,
    /// The value is no workspace ref.
    WorkspaceRef,
    /// An entry of a list stands twice.
    Duplicate,
    /// A pattern holds a slash.
    PatternSlash,
    /// A mandatory pattern is missing in the list.
    PatternMissing(&'static str),
    /// The variable is one that the runner sets itself or that must not be set.
    RefusedVariable,
    /// The directory does not exist.
    NoDirectory,
    /// The file does not exist or is no regular file.
    NoFile,
    /// The projects root is the root of the file system.
    RootOfAll,
    /// The state directory is the projects root or lies above it.
    StateAboveProjects,
    /// The state directory lies below the projects root, where a turn could have it as its project.
    StateBelowProjects,
    /// The state directory cannot be created.
    CannotCreate,
    /// The state directory is not private.
    Directory(DirFault),
}

impl Problem {
    /// Stable code for scripts and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Unreadable(_) => "config_unreadable",
            Problem::NoRegularFile => "config_no_file",
            Problem::FileTooLong => "config_too_long",
            Problem::NotText => "config_not_text",
            Problem::Syntax => "config_syntax",
            Problem::DuplicateKey => "duplicate_key",
            Problem::UnknownKey => "unknown_key",
            Problem::Missing => "missing_key",
            Problem::WrongType(_) => "wrong_type",
            Problem::Empty => "empty_value",
            Problem::LeadingDash => "leading_dash",
            Problem::ControlCharacter => "control_character",
            Problem::TooLong => "value_too_long",
            Problem::NotOneOf(_) => "unknown_value",
            Problem::Duration => "bad_duration",
            Problem::Size => "bad_size",
            Problem::OutOfRange(_) => "out_of_range",
            Problem::Uuid => "bad_uuid",
            Problem::Amount => "bad_amount",
            Problem::SecretRef => "bad_secret_ref",
            Problem::Address => "bad_address",
            Problem::Plain => "address_not_https",
            Problem::AddressParts => "address_parts",
            Problem::Proxy => "bad_proxy",
            Problem::NotAbsolute => "path_not_absolute",
            Problem::Program => "bad_program",
            Problem::ToolRule => "bad_tool_rule",
            Problem::Name => "bad_name",
            Problem::WorkspaceRef => "bad_workspace_ref",
            Problem::Duplicate => "duplicate_entry",
            Problem::PatternSlash => "pattern_slash",
            Problem::PatternMissing(_) => "pattern_missing",
            Problem::RefusedVariable => "refused_variable",
            Problem::NoDirectory => "no_directory",
            Problem::NoFile => "no_file",
            Problem::RootOfAll => "root_of_all",
            Problem::StateAboveProjects => "state_above_projects",
            Problem::StateBelowProjects => "state_below_projects",
            Problem::CannotCreate => "cannot_create",
            Problem::Directory(fault) => fault.code(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Problem::Unreadable(_) => "the file cannot be read ",
            Problem::NoRegularFile => "this is no regular file; name the configuration file",
            Problem::FileTooLong => "the file is too long for a configuration; name the right file",
            Problem::NotText => "the file is not UTF-8 text; save it as UTF-8",
            Problem::Syntax => "this is not TOML; correct the line or the one before it",
            Problem::DuplicateKey => "the key or table stands here a second time; keep one of both",
            Problem::UnknownKey => "unknown key; correct its name or remove it",
            Problem::Missing => "required key is missing; add it",
            Problem::WrongType(_) => "wrong type; write ",
            Problem::Empty => "the value is empty; give one",
            Problem::LeadingDash => "the value must not begin with a hyphen",
            Problem::ControlCharacter => "the value holds a control or direction character; remove it",
            Problem::TooLong => "the value is too long; shorten it",
            Problem::NotOneOf(_) => "unknown value; write ",
            Problem::Duration => "not a duration; write a whole number and ms, s, m, h or d",
            Problem::Size => "not a size; write a whole number and B, KiB, MiB or GiB",
            Problem::OutOfRange(_) => "out of range; allowed is ",
            Problem::Uuid => "not a UUID; write it with hyphens",
            Problem::Amount => "not an amount; write a decimal number above zero",
            Problem::SecretRef => "not a secret reference; write file:/path or env:NAME",
            Problem::Address => "not an address; write https://host, with a port where needed",
            Problem::Plain => "http is allowed only for a loopback host; write https",
            Problem::AddressParts => "the address must have no credentials, query or fragment; remove them",
            Problem::Proxy => "not a proxy address; write http://host:port without credentials or path",
            Problem::NotAbsolute => "the path must be absolute",
            Problem::Program => "write a program name without a slash or an absolute path",
            Problem::ToolRule => "not a tool rule; write a tool's name, or name(rule)",
            Problem::Name => "not a valid name here; use letters, digits, hyphen and underscore",
            Problem::WorkspaceRef => "not a workspace ref; write a relative path of plain names",
            Problem::Duplicate => "the entry stands twice; remove one of them",
            Problem::PatternSlash => "a pattern matches one name; remove the slash",
            Problem::PatternMissing(_) => "a mandatory pattern is missing; add ",
            Problem::RefusedVariable => "this variable cannot be set for a turn; remove it",
            Problem::NoDirectory => "the directory does not exist; create it or name another",
            Problem::NoFile => "the file does not exist; create it or name another",
            Problem::RootOfAll => "the root of the file system cannot be the projects root; name a directory",
            Problem::StateAboveProjects => "the state directory must not be or contain the projects root",
            Problem::StateBelowProjects => {
                "the state directory must not lie below the projects root; name another"
            }
            Problem::CannotCreate => "the directory cannot be created; create it with mode 0700",
            Problem::Directory(_) => "",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.advice())?;
        match self {
            Problem::WrongType(text) | Problem::NotOneOf(text) | Problem::OutOfRange(text) => {
                out.write_str(text)
            }
            Problem::PatternMissing(pattern) => out.write_str(pattern),
            Problem::Unreadable(kind) => write!(out, "({kind}); check its path and its permissions"),
            Problem::Directory(fault) => fault.fmt(out),
            _ => Ok(()),
        }
    }
}

/// One fault: where it is and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file as it was named to the loader.
    pub file: String,
    /// Line, counted from 1; of a missing key the line of its section; none for a file that was not read.
    pub line: Option<usize>,
    /// The full key, empty for a fault of the text itself.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: ", self.file)?,
            None => write!(out, "{}: ", self.file)?,
        }
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        self.problem.fmt(out)
    }
}

/// All faults of a file in the order of their lines; never empty as an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// The one fault of a file that cannot be read as lines, and the line where that shows.
    pub(super) fn of_file(file: String, (problem, line): (Problem, Option<usize>)) -> Faults {
        Faults(vec![Fault { file, line, key: String::new(), problem }])
    }

    /// Stable code of the first fault.
    pub fn code(&self) -> &'static str {
        self.0.first().map_or("config_invalid", |fault| fault.problem.code())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(out, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
