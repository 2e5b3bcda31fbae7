//! The built program as a person calls it: demo, ask, local, check-config, and what it says to wrong input.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use claude_code_runner::sys::private::TempDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PROGRAM: &str = env!("CARGO_BIN_EXE_claude-code-runner");
const STAND_IN: &str = env!("CARGO_BIN_EXE_fake-claude");

pub fn program(words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(words: &[&str]) -> Output {
    program(words).output().unwrap()
}

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A temporary directory with the project `p`, a key and a stand-in that plays `scenario`.
pub struct Place {
    pub top: TempDir,
}

impl Place {
    pub fn new(scenario: &str) -> Place {
        let top = TempDir::new().unwrap();
        fs::create_dir_all(top.join("p/.git")).unwrap();
        fs::create_dir_all(top.join("bin")).unwrap();
        fs::copy(STAND_IN, top.join("bin/claude")).unwrap();
        fs::write(top.join("bin/fake-claude.json"), scenario).unwrap();
        fs::write(top.join("key"), "made-up-key-0001").unwrap();
        fs::set_permissions(top.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        Place { top }
    }

    pub fn path(&self, name: &str) -> String {
        self.top.join(name).display().to_string()
    }

    /// The words of `command` with this place's project, data directory, stand-in and key.
    pub fn words(&self, command: &str, more: &[&str]) -> Vec<String> {
        let key = format!("file:{}", self.path("key"));
        let (project, data, program) = (self.path("p"), self.path("d"), self.path("bin/claude"));
        let fixed = [
            command,
            "--project",
            &project,
            "--data-dir",
            &data,
            "--claude-bin",
            &program,
            "--billing",
            "organization",
            "--api-key-ref",
            &key,
        ];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    pub fn start(&self, command: &str, more: &[&str]) -> Child {
        let words = self.words(command, more);
        program(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap()
    }

    pub fn run(&self, command: &str, more: &[&str]) -> Output {
        self.start(command, more).wait_with_output().unwrap()
    }
}

pub fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Reads lines until one holds `wanted`; the rest stays readable.
pub fn read_until(lines: &mut impl BufRead, wanted: &str) -> String {
    let mut all = String::new();
    while !all.contains(wanted) {
        assert_ne!(lines.read_line(&mut all).unwrap(), 0, "{wanted:?} never came: {all}");
    }
    all
}

pub const HELLO: &str = r#"{"turns": [{"steps": [{"text": "Hello, Alex."}]}]}"#;
pub const HANG: &str = r#"{"turns": [{"steps": [{"text": "I think."}, {"hang": true}]}]}"#;

#[test]
fn demo_works_twice_with_the_same_data_directory() {
    let top = TempDir::new().unwrap();
    let data = top.join("d").display().to_string();
    for round in 1..=2 {
        let output = run(&["demo", "--data-dir", &data]);
        assert_eq!(output.status.code(), Some(0), "round {round}: {}", said(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("demo ok"), "{}", said(&output));
    }
    assert!(!fs::read_to_string(top.join("d/made-up-key")).unwrap().is_empty());
}

#[test]
fn demo_works_after_a_killed_one() {
    let top = TempDir::new().unwrap();
    let data = top.join("d").display().to_string();
    // What the killed one cannot remove is removed with everything else here.
    let mut first = program(&["demo", "--data-dir", &data]).env("TMPDIR", top.path()).spawn().unwrap();
    read_until(&mut BufReader::new(first.stderr.take().unwrap()), "started");
    first.kill().unwrap();
    first.wait().unwrap();
    let output = run(&["demo", "--data-dir", &data]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn ask_prints_the_answer_and_goes_on_in_its_thread() {
    let place = Place::new(HELLO);
    let output = place.run("ask", &["--json", "Hi"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let first: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&first["state"], &first["answer"]), (&"completed".into(), &"Hello, Alex.".into()));
    let thread = first["thread_id"].as_str().unwrap();
    let output = place.run("ask", &["--thread", thread, "And again"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, Alex.\n");
    assert!(said(&output).contains(thread), "{}", said(&output));
    let none = place.run("ask", &["--thread", "01890a5d-ac96-774b-bcce-b302099a8057", "Hi"]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
}

#[test]
fn ask_says_why_a_run_failed() {
    let place = Place::new(r#"{"turns": [{"steps": [{"error": {"class": "rate_limit", "status": 429}}]}]}"#);
    let output = place.run("ask", &["Hi"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("The run failed: "), "{}", said(&output));
}

#[test]
fn ctrl_c_stops_the_run_and_exits_130() {
    let place = Place::new(HANG);
    let mut child = place.start("ask", &["Hi"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut lines, "model ");
    signal(&child, Signal::SIGINT);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("The run was stopped"), "{rest}");
}

#[test]
fn local_serves_ask_until_sigterm() {
    let place = Place::new(HELLO);
    let mut local = place.start("local", &[]);
    let mut lines = BufReader::new(local.stdout.take().unwrap());
    let introduction = read_until(&mut lines, "Ctrl-C");
    assert!(introduction.contains("http://127.0.0.1:"), "{introduction}");
    let (project, data) = (place.path("p"), place.path("d"));
    let output = run(&["ask", "--project", &project, "--data-dir", &data, "Hi"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, Alex.\n");
    let second = place.run("local", &[]);
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    fs::create_dir_all(place.top.join("other/.git")).unwrap();
    let other = run(&["ask", "--project", &place.path("other"), "--data-dir", &data, "Hi"]);
    assert!(other.status.code() == Some(1) && said(&other).contains("does not serve"), "{}", said(&other));
    signal(&local, Signal::SIGTERM);
    assert_eq!(local.wait().unwrap().code(), Some(0));
    let port = |text: &str| {
        text.split("127.0.0.1:")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
    };
    let mut again = place.start("local", &[]);
    let second = read_until(&mut BufReader::new(again.stdout.take().unwrap()), "Ctrl-C");
    assert_eq!(port(&introduction), port(&second));
    signal(&again, Signal::SIGINT);
    assert_eq!(again.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_input_is_refused_before_anything_starts() {
    let place = Place::new(HELLO);
    fs::create_dir(place.top.join("plain")).unwrap();
    fs::write(place.top.join("empty"), "").unwrap();
    let (project, plain, data) = (place.path("p"), place.path("plain"), place.path("d"));
    let (missing, empty, key) = (place.path("missing"), place.path("empty"), place.path("key"));
    let rows: &[(&[&str], &str)] = &[
        (&["ask", "--project", &project, "Hi"], "--billing personal"),
        (&["local", "--project", &project], "--billing organization"),
        (&["local", "--project", &plain, "--billing", "personal"], "no Git working tree"),
        (&["ask", "--project", &missing, "Hi"], "no directory"),
        (&["ask", "--project", &plain, "Hi"], "no Git working tree"),
        (&["ask", "--project", &project, "--attach", &missing, "Hi"], "no such file"),
        (&["ask", "--project", &project, "--attach", &empty, "Hi"], "empty"),
        (&["ask", "--project", &project, "--out", &key, "Hi"], "no directory"),
        (
            &["ask", "--project", &project, "--billing", "organization", "--api-key-ref", "nonsense", "Hi"],
            "--api-key-ref",
        ),
        (
            &["ask", "--project", &project, "--billing", "personal", "--claude-bin", &missing, "Hi"],
            "--claude-bin",
        ),
        (
            &["local", "--project", &project, "--billing", "personal", "--claude-bin", &missing],
            "--claude-bin",
        ),
        (&["local", "--project", &project, "--billing", "personal", "--listen", "192.0.2.1:0"], "loopback"),
    ];
    for (words, expected) in rows {
        let mut all = words.to_vec();
        all.extend(["--data-dir", &data]);
        let output = run(&all);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
        assert!(output.stdout.is_empty(), "{words:?}");
        assert!(!Path::new(&data).join("s").exists(), "{words:?}");
    }
}

/// A script reads one object whatever happened.
#[test]
fn a_question_that_cannot_be_asked_is_an_object_for_a_script_too() {
    let place = Place::new(HELLO);
    let output = run(&["ask", "--json", "--project", &place.path("missing"), "Hi"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!(found["fault"], "usage");
    assert!(found["sentence"].as_str().unwrap().contains("no directory"), "{found}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no directory"), "people read it too");
}

#[test]
fn demo_without_the_stand_in_says_how_to_build_it() {
    let top = TempDir::new().unwrap();
    let alone: PathBuf = top.join("claude-code-runner");
    fs::copy(PROGRAM, &alone).unwrap();
    let output = Command::new(&alone).arg("demo").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cargo build --bins"), "{}", said(&output));
}

#[test]
fn a_configuration_that_cannot_be_used_exits_78_with_every_line() {
    let top = TempDir::new().unwrap();
    let file = top.join("config.toml");
    fs::write(&file, "[runner]\nserver_url = 7\nflag = true\npoll_interval = \"soon\"\n").unwrap();
    let file = file.display().to_string();
    for command in ["run", "check-config"] {
        let output = run(&[command, "--config", &file]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        for line in ["config.toml:2:", "config.toml:3:", "config.toml:4:", "runner.instance_id"] {
            assert!(said(&output).contains(line), "{command} {line}: {}", said(&output));
        }
    }
    let missing = run(&["run", "--config", &top.join("none.toml").display().to_string()]);
    assert_eq!(missing.status.code(), Some(78));
}

#[test]
fn run_names_an_unreadable_token_file() {
    let top = TempDir::new().unwrap();
    fs::create_dir(top.join("projects")).unwrap();
    let home = top.path().display();
    let text = format!(
        "[runner]\nserver_url = \"http://127.0.0.1:9\"\ninstance_id = \"00000000-0000-7000-8000-000000000001\"\n\
         agent_token_ref = \"file:{home}/token\"\nprojects_root = \"{home}/projects\"\nstate_dir = \"{home}/s\"\n\
         default_model = \"sonnet\"\n"
    );
    fs::write(top.join("config.toml"), text).unwrap();
    let output = run(&["run", "--config", &top.join("config.toml").display().to_string()]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(said(&output).contains("runner.agent_token_ref: the secret does not exist"), "{}", said(&output));
}
