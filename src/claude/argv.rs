//! The command line of one turn, as an exact list of arguments.
//!
//! Pure: it looks at no file, no environment and no configuration. What a turn may do is decided here and only
//! here, so the whole list is checked before the first argument leaves this file (M2-34 note 9, R-1, R-1a, IN-8).
//! It must not know what is asked of the turn; the words travel over stdin.

mod rules;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::sdk::wire::run::{BillingMode, ToolClass};

pub use rules::{base_names, scoped_tools};

/// Tools of class host that reach other sessions, outlive the turn or leave the project.
pub const HOST_DISALLOWED_TOOLS: &[&str] =
    &["SendMessage", "ListAgents", "CronCreate", "ScheduleWakeup", "EnterWorktree"];

/// Everything that the command line of a turn depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnArgs {
    /// The program, found in the cleaned PATH; absolute.
    pub claude_bin: PathBuf,
    /// The model, see [`choose_model`].
    pub model: String,
    /// The session to create or to go on with.
    pub session: SessionArg,
    /// The configured tool class.
    pub class: ToolClass,
    /// Who pays; decides which settings may load.
    pub billing: BillingMode,
    /// The final rules of class scoped, see [`scoped_tools`]; without effect in the other classes.
    pub tools: Vec<String>,
    /// Operator and binding both trust the project's own settings (R-1a).
    pub trusted_project: bool,
    /// The system prompt file; absolute.
    pub system_prompt_file: PathBuf,
    /// The thread's inbox; absolute, exists.
    pub inbox_dir: PathBuf,
    /// The run's temporary directory; absolute, exists.
    pub temp_dir: PathBuf,
    /// `runner.max_budget_usd`: a decimal number of dollars, as text.
    pub max_budget_usd: Option<String>,
}

/// The flag that names the session (M2-34 note 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionArg {
    /// A session that the runtime does not know yet.
    New(Uuid),
    /// A session that the runtime has confirmed.
    Resume(Uuid),
}

impl SessionArg {
    /// Chooses the flag from the event's session: `known` is its reference and whether it was started.
    ///
    /// No session gives a new random one. `session_ref_not_uuid` when the reference is not a UUID, because the
    /// runtime would take other text for a session title.
    pub fn choose(known: Option<(&str, bool)>) -> Result<SessionArg, ArgvFault> {
        let Some((reference, started)) = known else { return Ok(SessionArg::New(Uuid::new_v4())) };
        let id = Uuid::parse_str(reference).map_err(|_| ArgvFault::new("session_ref_not_uuid", "session"))?;
        Ok(if started { SessionArg::Resume(id) } else { SessionArg::New(id) })
    }

    /// The session's id.
    pub fn id(self) -> Uuid {
        match self {
            SessionArg::New(id) | SessionArg::Resume(id) => id,
        }
    }
}

/// Why no command line was built. Names the place, never the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgvFault {
    code: &'static str,
    place: &'static str,
}

impl ArgvFault {
    pub(crate) fn new(code: &'static str, place: &'static str) -> ArgvFault {
        ArgvFault { code, place }
    }

    /// The stable log code.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for ArgvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the value for {} cannot be an argument", self.code, self.place)
    }
}

impl std::error::Error for ArgvFault {}

/// The binding's model, else `runner.default_model` (M2-34 note 9).
pub fn choose_model<'a>(binding: Option<&'a str>, default: &'a str) -> &'a str {
    binding.unwrap_or(default)
}

/// The arguments of one turn, without the program.
///
/// Fails when a value cannot be an argument (`argument_empty`, `argument_leading_dash`,
/// `argument_control_character`, `path_not_absolute`), a rule has no form the runtime reads as one rule
/// (`rule_malformed`), or a trusted project meets a file rule without a path (`rule_without_path`, R-1a).
pub fn build(turn: &TurnArgs) -> Result<Vec<OsString>, ArgvFault> {
    check(turn)?;
    let mut args = words(&[
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--replay-user-messages",
        "--model",
    ]);
    args.push(turn.model.clone().into());
    args.extend(session_flag(turn.session));
    args.extend(words_of(class_flags(turn.class, &turn.tools)));
    args.extend(words_of(guard_flags(turn)));
    args.extend(words(&["--permission-prompts", "none"]));
    if let Some(limit) = &turn.max_budget_usd {
        args.extend([OsString::from("--max-budget-usd"), limit.clone().into()]);
    }
    args.extend(add_dir(turn));
    args.extend([OsString::from("--append-system-prompt-file"), turn.system_prompt_file.clone().into()]);
    Ok(args)
}

/// The flags that make the tool class, exactly the cell of the seed's table (M2-34 note 9).
pub fn class_flags(class: ToolClass, tools: &[String]) -> Vec<String> {
    let mut flags = vec!["--permission-mode"];
    match class {
        ToolClass::Chat => flags.extend(["dontAsk", "--tools", "", "--disallowedTools", "mcp__*"]),
        ToolClass::Scoped if tools.is_empty() => flags.push("dontAsk"),
        ToolClass::Scoped => {
            flags.extend(["dontAsk", "--allowedTools"]);
            flags.extend(tools.iter().map(String::as_str));
        }
        ToolClass::Host => flags.push("bypassPermissions"),
    }
    flags.into_iter().map(String::from).collect()
}

/// The value of `--setting-sources`; none where `--restricted` stands instead (R-1, R-1a).
///
/// The local settings of a project are never a source, and class chat never trusts a project.
pub fn setting_sources(
    class: ToolClass,
    billing: BillingMode,
    trusted_project: bool,
) -> Option<&'static str> {
    match (class, billing) {
        (ToolClass::Chat, _) => None,
        (_, BillingMode::Organization) if trusted_project => Some("project"),
        (_, BillingMode::Personal) if trusted_project => Some("user,project"),
        (ToolClass::Scoped, _) => None,
        (ToolClass::Host, BillingMode::Organization) => Some(""),
        (ToolClass::Host, BillingMode::Personal) => Some("user"),
    }
}

/// What R-1 adds behind the class flags, so that a repository or another session cannot widen the class.
fn guard_flags(turn: &TurnArgs) -> Vec<String> {
    let trusted = turn.trusted_project && turn.class != ToolClass::Chat;
    let mut flags = Vec::new();
    if !trusted {
        flags.push("--strict-mcp-config".to_owned());
    }
    flags.extend(["--system-prompt-snapshot".to_owned(), "off".to_owned()]);
    match setting_sources(turn.class, turn.billing, turn.trusted_project) {
        None => flags.push("--restricted".to_owned()),
        Some(sources) => flags.extend(["--setting-sources".to_owned(), sources.to_owned()]),
    }
    match turn.class {
        ToolClass::Chat => {}
        ToolClass::Scoped => flags.extend(["--tools".to_owned(), base_names(&turn.tools).join(",")]),
        ToolClass::Host => {
            flags.push("--disallowedTools".to_owned());
            flags.extend(HOST_DISALLOWED_TOOLS.iter().map(|tool| (*tool).to_owned()));
        }
    }
    flags
}

fn session_flag(session: SessionArg) -> [OsString; 2] {
    match session {
        SessionArg::New(id) => ["--session-id".into(), id.to_string().into()],
        SessionArg::Resume(id) => ["--resume".into(), id.to_string().into()],
    }
}

/// Later turns must read earlier files, so the directories are named whether or not this message has files.
fn add_dir(turn: &TurnArgs) -> Vec<OsString> {
    if turn.class == ToolClass::Chat {
        return Vec::new();
    }
    vec!["--add-dir".into(), turn.inbox_dir.clone().into(), turn.temp_dir.clone().into()]
}

fn check(turn: &TurnArgs) -> Result<(), ArgvFault> {
    check_value(&turn.model, "model")?;
    if let Some(limit) = &turn.max_budget_usd {
        check_value(limit, "max_budget_usd")?;
    }
    check_path(&turn.claude_bin, "claude_bin")?;
    check_path(&turn.system_prompt_file, "system_prompt_file")?;
    check_path(&turn.inbox_dir, "inbox_dir")?;
    check_path(&turn.temp_dir, "temp_dir")?;
    if turn.class == ToolClass::Scoped {
        rules::check(&turn.tools, turn.trusted_project)?;
    }
    Ok(())
}

/// Refuses text that could be read as a flag or that hides what it says (M2-34 notes 2 and 9).
///
/// `place` names the value in the fault: `argument_empty`, `argument_leading_dash` or `argument_control_character`.
pub fn check_value(value: &str, place: &'static str) -> Result<(), ArgvFault> {
    if value.trim().is_empty() {
        return Err(ArgvFault::new("argument_empty", place));
    }
    if value.starts_with('-') {
        return Err(ArgvFault::new("argument_leading_dash", place));
    }
    if value.chars().any(|c| c.is_control() || is_bidi(c)) {
        return Err(ArgvFault::new("argument_control_character", place));
    }
    Ok(())
}

fn check_path(path: &Path, place: &'static str) -> Result<(), ArgvFault> {
    if path.is_absolute() { Ok(()) } else { Err(ArgvFault::new("path_not_absolute", place)) }
}

/// Characters that change the direction of what a reader sees (Unicode UAX 9).
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

fn words_of(list: Vec<String>) -> Vec<OsString> {
    list.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests;
