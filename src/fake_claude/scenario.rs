//! The scenario file: what the stand-in answers, as serde types.
//!
//! ```json
//! {"turns": [
//!   {"when": {"nth": 1, "session": "new", "text": "hello"}, "steps": [
//!     {"tool": {"name": "Bash", "input": {"command": "ls"}, "do": [{"shell": "ls"}]}},
//!     {"text": "You wrote {{text}} in {{cwd}}"}
//!   ]}
//! ]}
//! ```
//!
//! For every user line the first entry of `turns` whose `when` holds is played; without one the line is answered
//! with a fixed text. Texts may hold the placeholders of [`super::template`]. Paths are relative to the turn's
//! working directory, those of markers (`hold`, `mark`, `until`) to the scenario file's directory.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The version the stand-in prints when the scenario names none.
pub const DEFAULT_VERSION: &str = "2.1.332";

/// A whole scenario.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Free text about the file: origin and source.
    pub fixture_meta: Option<Value>,
    /// The printed version.
    pub version: Option<String>,
    /// The whole answer of `--version`, when it is another one.
    pub version_output: Option<Answer>,
    /// The whole answer of `auth status`, when it is not read from the login files.
    pub auth: Option<Answer>,
    /// `apiKeySource` of the init line, when it is not read from the environment.
    pub key_source: Option<String>,
    /// `session_id` of every record, when it is another one than asked for.
    pub other_session: Option<String>,
    /// The exit code at the end of stdin, whatever the last result was.
    pub exit: Option<u8>,
    /// SIGINT changes nothing.
    pub ignore_sigint: bool,
    /// SIGTERM changes nothing.
    pub ignore_sigterm: bool,
    /// Bytes after which a stdin line is cut, which ends the process with a complaint.
    pub max_stdin_line: Option<usize>,
    /// Usage is counted per process and without a difference, as the minimum version does.
    pub usage_per_process: bool,
    /// Accept `--resume` of a session that nobody started.
    pub any_session: bool,
    /// What is played.
    pub turns: Vec<Turn>,
}

/// A fixed answer of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// Printed literally.
    pub stdout: String,
    /// Printed literally.
    pub stderr: String,
    /// The exit code.
    pub exit: u8,
    /// Never answer.
    pub hang: bool,
}

/// The steps for the lines that `when` describes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// The conditions; all of those given must hold.
    pub when: When,
    /// A title for the answer, put in front when the system prompt asks for one.
    pub title: Option<String>,
    /// `modelUsage` members of this turn for its model, in place of the fixed ones.
    pub usage: Option<BTreeMap<String, f64>>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Conditions of a turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The n-th `-p` call of this program, from 1 (needs a scenario file).
    pub nth: Option<usize>,
    /// The n-th user line of this process, from 1.
    pub line: Option<usize>,
    /// `new` or `resume`.
    pub session: Option<String>,
    /// Text that stands anywhere in the line's items.
    pub text: Option<String>,
    /// A file of this name lies below the first `--add-dir`.
    pub file: Option<String>,
}

/// One thing that happens in a turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// An assistant text; the last one is the result's text.
    Text(String),
    /// A tool call; lines that arrive meanwhile are taken into the turn.
    Tool(Tool),
    /// Work without a tool call.
    Do(Vec<Work>),
    /// Steps that are played only when a tool may write into the project.
    WhenWritable(Vec<Step>),
    /// A repeated request to the service.
    ApiRetry(Value),
    /// The service never answers; only a signal ends it.
    Hang(bool),
    /// A task that goes on after the result.
    Background(Background),
    /// Members that replace or extend those of the result line.
    Result(BTreeMap<String, Value>),
    /// An error of the service: a synthetic assistant line and an error result.
    Error(ApiError),
    /// No result line; the process waits for the end of stdin.
    NoResult(bool),
    /// The process exits at once with this code.
    Exit(u8),
    /// One record, with placeholders.
    Line(Value),
    /// Literal text on stdout, with placeholders, without a line feed of its own.
    Raw(String),
    /// Literal text on stderr.
    Stderr(String),
    /// Plays the records of a recording, its session and line ids replaced.
    PlayRecording(String),
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// Its id; made up when absent.
    pub id: Option<String>,
    /// Its input.
    pub input: Value,
    /// What really happens.
    #[serde(rename = "do")]
    pub work: Vec<Work>,
    /// The text of its result; the last work's output when absent.
    pub output: Option<String>,
    /// Whether the result is an error.
    pub is_error: bool,
}

/// Real work.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Waits until this marker file exists.
    Hold(String),
    /// Creates this marker file.
    Mark(String),
    /// Runs a shell command in a session of its own, as the real CLI does; its output is kept.
    Shell(String),
    /// Starts a process in a session of its own that ignores SIGINT and SIGTERM and touches this file every second.
    Helper(String),
    /// Writes a file.
    Write(WriteFile),
    /// Copies a file.
    Copy(FromTo),
    /// Finds the first file of a name (`*.csv` by ending) and keeps its path.
    Find(Find),
    /// Unpacks an archive.
    Unzip(FromTo),
    /// Packs files, flat.
    Zip(Zip),
    /// Counts the rows of a CSV file and adds up columns.
    SumCsv(SumCsv),
}

/// A file and its text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Where.
    pub path: String,
    /// What.
    pub content: String,
}

/// A source and a target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromTo {
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
}

/// What to look for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// The name, or a star and an ending.
    pub name: String,
    /// The directory.
    pub below: String,
    /// The name under which the path is kept, for `{{out.NAME}}`.
    #[serde(rename = "as")]
    pub keep: String,
}

/// An archive to make.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zip {
    /// The archive.
    pub to: String,
    /// The files.
    pub files: Vec<String>,
}

/// A table to add up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumCsv {
    /// The table.
    pub from: String,
    /// Words; each stands for the first column whose heading holds it. Kept as `{{out.WORD}}`, the rows as
    /// `{{out.rows}}`.
    pub columns: Vec<String>,
}

/// A background task.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Its id.
    pub task_id: String,
    /// What it does.
    pub description: String,
    /// The marker file that ends it; without one it ends right after the result.
    #[serde(default)]
    pub until: Option<String>,
    /// The answer of the turn that its end starts.
    #[serde(default)]
    pub answer: Option<String>,
}

/// An error of the service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiError {
    /// The class, as in the synthetic assistant line.
    pub error: String,
    /// The text.
    pub text: String,
    /// The status of the service's answer.
    #[serde(default)]
    pub status: Option<u16>,
    /// `terminal_reason`, `api_error` when absent.
    #[serde(default)]
    pub terminal_reason: Option<String>,
}

impl Scenario {
    /// The scenario beside `program`, and whether it came from a file. The error names the file.
    pub fn beside(program: &Path) -> Result<(Scenario, bool), String> {
        let mut own = program.as_os_str().to_owned();
        own.push(".scenario.json");
        for path in [Path::new(&own), &program.with_file_name("fake-claude.json")] {
            match std::fs::read_to_string(path) {
                Ok(text) => return parse(&text).map(|scenario| (scenario, true)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("the scenario cannot be read: {error}")),
            }
        }
        Ok((super::demo::scenario(), false))
    }

    /// The answer of `--version`.
    pub fn version_answer(&self) -> Answer {
        let version = self.version.as_deref().unwrap_or(DEFAULT_VERSION);
        let plain = Answer { stdout: format!("{version} (Claude Code)\n"), ..Answer::default() };
        self.version_output.clone().unwrap_or(plain)
    }
}

/// Reads a scenario; the error says where it is wrong.
pub fn parse(text: &str) -> Result<Scenario, String> {
    serde_json::from_str(text).map_err(|error| format!("the scenario is wrong: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_form() {
        let text = r#"{"fixture_meta": {"type": "fixture_meta", "origin": "constructed"}, "turns": [{"when": {"nth": 1, "text": "x"}, "steps": [
            {"text": "a"}, {"tool": {"name": "Bash", "input": {}, "do": [{"shell": "true"}, {"hold": "m"}, {"mark": "n"}]}},
            {"do": [{"write": {"path": "a", "content": "b"}}, {"copy": {"from": "a", "to": "b"}}, {"helper": "h"}]},
            {"when_writable": [{"text": "w"}]}, {"api_retry": {"attempt": 1}}, {"hang": true},
            {"background": {"task_id": "t", "description": "d"}}, {"result": {"is_error": true}},
            {"error": {"error": "billing_error", "text": "no credit", "status": 400}}, {"no_result": true}, {"exit": 3},
            {"line": {"type": "x"}}, {"raw": "{\n"}, {"stderr": "e"}, {"play_recording": "r.jsonl"}]}]}"#;
        assert_eq!(parse(text).unwrap().turns[0].steps.len(), 15);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse(r#"{"turn": []}"#).unwrap_err().contains("unknown field"));
        assert!(parse("{").is_err());
    }

    #[test]
    fn version_answer_follows_the_file() {
        assert_eq!(Scenario::default().version_answer().stdout, "2.1.332 (Claude Code)\n");
        let other = parse(r#"{"version": "2.1.258"}"#).unwrap();
        assert_eq!(other.version_answer().stdout, "2.1.258 (Claude Code)\n");
        let forced = parse(r#"{"version_output": {"stdout": "x", "exit": 2}}"#).unwrap();
        assert_eq!(forced.version_answer().exit, 2);
    }

    #[test]
    fn every_fixture_is_a_scenario_of_the_pinned_version() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude/scenarios");
        let mut count = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let scenario = parse(&std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{path:?}: {error}"));
            let meta = scenario.fixture_meta.unwrap_or_default();
            assert_eq!(
                (&meta["type"], &meta["cli_version"]),
                (&"fixture_meta".into(), &DEFAULT_VERSION.into()),
                "{path:?}"
            );
            assert!(
                ["recorded", "constructed"].contains(&meta["origin"].as_str().unwrap_or_default()),
                "{path:?}"
            );
            assert!(!scenario.turns.is_empty(), "{path:?}");
            count += 1;
        }
        assert!(count > 0);
    }
}
