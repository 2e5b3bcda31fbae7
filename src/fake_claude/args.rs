//! The command lines the stand-in understands; what it does not know it refuses like the real CLI.

use std::collections::BTreeMap;

/// Flags with exactly one value.
const ONE_VALUE: &[&str] = &[
    "--input-format",
    "--output-format",
    "--model",
    "--session-id",
    "--resume",
    "--permission-mode",
    "--permission-prompts",
    "--system-prompt-snapshot",
    "--setting-sources",
    "--max-budget-usd",
    "--append-system-prompt-file",
];

/// Flags whose values run to the next flag.
const MANY_VALUES: &[&str] = &["--tools", "--allowedTools", "--disallowedTools", "--add-dir"];

/// Flags without a value.
const NO_VALUE: &[&str] = &["--verbose", "--replay-user-messages", "--strict-mcp-config", "--restricted"];

/// What the program was called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `--version`.
    Version,
    /// `auth status`.
    AuthStatus,
    /// `-p`.
    Turn(TurnCall),
}

/// The flags of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnCall {
    /// The session.
    pub session: String,
    /// Whether the session is resumed.
    pub resume: bool,
    /// The model.
    pub model: String,
    /// The first directory of `--add-dir`.
    pub add_dir: Option<String>,
    /// The permission mode.
    pub permission_mode: String,
    /// The rules of `--allowedTools`.
    pub allowed_tools: Vec<String>,
    /// The values of `--tools`, split at commas.
    pub tools: Vec<String>,
    /// The appended system prompt file.
    pub system_prompt_file: Option<String>,
}

impl TurnCall {
    /// Whether a tool may write into the project.
    pub fn writable(&self) -> bool {
        let writes = |rule: &String| {
            let base = rule.split('(').next().unwrap_or_default();
            matches!(base, "Write" | "Edit" | "Bash") && !rule.contains("(//")
        };
        self.permission_mode == "bypassPermissions" || self.allowed_tools.iter().any(writes)
    }
}

/// Reads the arguments behind the program's name. The error is the line for stderr.
pub fn parse(arguments: &[String]) -> Result<Call, String> {
    if arguments == ["--version"] {
        return Ok(Call::Version);
    }
    let mut flags: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut words = Vec::new();
    let mut print = false;
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let flag = argument.as_str();
        if flag == "-p" {
            print = true;
        } else if NO_VALUE.contains(&flag) {
            flags.insert(flag, Vec::new());
        } else if ONE_VALUE.contains(&flag) {
            let value = rest.next().ok_or_else(|| format!("error: option '{flag}' argument missing"))?;
            flags.insert(flag, vec![value.clone()]);
        } else if MANY_VALUES.contains(&flag) {
            let values = flags.entry(flag).or_default();
            while let Some(value) = rest.next_if(|value| !value.starts_with('-')) {
                values.push(value.clone());
            }
        } else if flag.starts_with('-') {
            return Err(format!("error: unknown option '{flag}'"));
        } else {
            words.push(flag);
        }
    }
    match (print, words.as_slice()) {
        (false, ["auth", "status"]) => Ok(Call::AuthStatus),
        (true, []) => turn(flags).map(Call::Turn),
        _ => Err("error: this stand-in knows --version, auth status and -p".to_owned()),
    }
}

fn turn(mut flags: BTreeMap<&str, Vec<String>>) -> Result<TurnCall, String> {
    if !flags.contains_key("--verbose") {
        return Err("Error: When using --print, --output-format=stream-json requires --verbose".to_owned());
    }
    let mut one = |flag: &str| flags.remove(flag).and_then(|values| values.into_iter().next());
    let (new, resumed) = (one("--session-id"), one("--resume"));
    if new.is_some() && resumed.is_some() {
        return Err("Error: --session-id with --continue or --resume also needs --fork-session.".to_owned());
    }
    let resume = resumed.is_some();
    let model = one("--model").unwrap_or_default();
    let add_dir = one("--add-dir");
    let permission_mode = one("--permission-mode").unwrap_or_else(|| "default".to_owned());
    let system_prompt_file = one("--append-system-prompt-file");
    let session = new.or(resumed).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    if !resume && uuid::Uuid::parse_str(&session).is_err() {
        return Err("Error: Invalid session ID. Must be a valid UUID.".to_owned());
    }
    let allowed_tools = flags.remove("--allowedTools").unwrap_or_default();
    let tools = flags.remove("--tools").unwrap_or_default();
    let tools = tools
        .iter()
        .flat_map(|list| list.split(','))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(TurnCall {
        session,
        resume,
        model,
        add_dir,
        permission_mode,
        allowed_tools,
        tools,
        system_prompt_file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "11111111-1111-4111-8111-111111111111";

    fn parsed(line: &[&str]) -> Result<Call, String> {
        parse(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn commands() {
        let rows: &[(&[&str], Result<Call, &str>)] = &[
            (&["--version"], Ok(Call::Version)),
            (&["auth", "status"], Ok(Call::AuthStatus)),
            (&["--setting-sources", "", "auth", "status"], Ok(Call::AuthStatus)),
            (&["--nope"], Err("error: unknown option '--nope'")),
            (
                &["-p", "--model", "m"],
                Err("Error: When using --print, --output-format=stream-json requires --verbose"),
            ),
            (
                &["-p", "--verbose", "--session-id", "x"],
                Err("Error: Invalid session ID. Must be a valid UUID."),
            ),
        ];
        for (line, expected) in rows {
            assert_eq!(parsed(line), expected.clone().map_err(str::to_owned), "{line:?}");
        }
    }

    #[test]
    fn turn_flags() {
        let line = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--replay-user-messages",
            "--model",
            "m",
            "--resume",
            SESSION,
            "--permission-mode",
            "dontAsk",
            "--allowedTools",
            "Read",
            "Write(//t/**)",
            "--strict-mcp-config",
            "--system-prompt-snapshot",
            "off",
            "--restricted",
            "--tools",
            "Read,Write",
            "--permission-prompts",
            "none",
            "--add-dir",
            "/i",
            "/t",
            "--append-system-prompt-file",
            "/s",
        ];
        let Ok(Call::Turn(turn)) = parsed(&line) else { unreachable!("a turn") };
        assert_eq!((turn.session.as_str(), turn.resume, turn.model.as_str()), (SESSION, true, "m"));
        assert_eq!(turn.add_dir.as_deref(), Some("/i"));
        assert_eq!(turn.tools, ["Read", "Write"]);
        assert!(!turn.writable());
        let host = TurnCall { permission_mode: "bypassPermissions".into(), ..turn.clone() };
        let writer = TurnCall { allowed_tools: vec!["Write(./**)".into()], ..turn };
        assert!(host.writable() && writer.writable());
    }
}
