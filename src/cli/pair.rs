//! The embedded server and a runner in one process, talking over real HTTP: what `local`, `ask` and `demo` start.
//!
//! Knows nothing of messages. The runner's configuration is written as text and read like any other, so that every
//! check of `run` holds here too.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::args::{Billing, TurnOptions};
use super::data_dir;
use super::exit::Failure;
use super::project::ProjectDir;
use super::run;
use super::show::one_line;
use crate::claude::environment::{clean_path, find_program, passwd_home};
use crate::config::{self, Config, SecretRef};
use crate::local::{Hooks, LocalError, Options, Server};
use crate::run::workspace::Workspaces;
use crate::runner::{Runner, RunnerFault, StopHandle};
use crate::sdk::wire::run::{BillingMode, ToolClass};
use crate::sys::private;
use crate::sys::process;
use crate::sys::signals::SignalSeen;

/// How faults of the written configuration call it.
const CONFIG_NAME: &str = "local";

/// Tools of class scoped here: files of the project, no shell (local-server.md).
const SCOPED_TOOLS: [&str; 3] = ["Read", "Edit", "Write"];

/// The directory that stands for a projects root; the projects themselves lie anywhere.
const PROJECTS: &str = "projects";

/// Least time between two patches of a run: the server is in this very process, and a step should show on the page
/// within 200 milliseconds of its line.
const PATCH_INTERVAL: &str = "100ms";

/// What a pair is started with.
pub struct PairOptions<'a> {
    /// Where everything is kept.
    pub data_dir: &'a Path,
    /// Where to listen; absent: the port of the first start.
    pub listen: Option<SocketAddr>,
    /// The projects to serve.
    pub projects: &'a [ProjectDir],
    /// What turns may do.
    pub turns: &'a TurnOptions,
}

/// A running server and runner.
pub struct Pair {
    server: Server,
    stop: StopHandle,
    signals: Sender<SignalSeen>,
    ended: Receiver<Result<(), RunnerFault>>,
    thread: JoinHandle<()>,
}

impl Pair {
    /// Starts both.
    ///
    /// # Errors
    /// Why one of them does not start; nothing is left running.
    pub fn start(options: &PairOptions<'_>) -> Result<Pair, Failure> {
        let billing = chosen(options.turns.billing.as_ref())?;
        check(options.turns, billing, std::env::var_os("PATH").as_deref())?;
        let variables: Vec<_> = std::env::vars_os().collect();
        run::check_home(&variables, passwd_home())?;
        let server =
            Server::start(server_options(options, billing)).map_err(|fault| local_failure(&fault))?;
        let config = runner_config(options, billing, &server)?;
        let map = options.projects.iter().map(|project| (project.reference.clone(), project.path.clone()));
        let workspaces = Workspaces::Map(BTreeMap::from_iter(map));
        let runner = Runner::new(config, workspaces, variables).map_err(|fault| run::failure(&fault))?;
        let (stop, signals) = (runner.stop_handle(), runner.signal_sender());
        let (tell, ended) = bounded(1);
        // Nobody listens any more when the pair was dropped: its end interests nobody then.
        let work = move || drop(tell.send(runner.run()));
        let thread = std::thread::Builder::new().name("runner".into()).spawn(work);
        let thread = thread.map_err(|fault| run::failure(&RunnerFault::System(fault)))?;
        Ok(Pair { server, stop, signals, ended, thread })
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where the operating system's signals for the runner go.
    pub fn signal_sender(&self) -> Sender<SignalSeen> {
        self.signals.clone()
    }

    /// Why the runner has ended, when it has.
    pub fn runner_fault(&self) -> Option<Failure> {
        match self.ended.try_recv() {
            Ok(Err(fault)) => Some(run::failure(&fault)),
            Ok(Ok(())) => Some(Failure::new("the runner has stopped")),
            Err(_) => None,
        }
    }

    /// Waits until the runner ends by itself or by a signal, then stops the server.
    ///
    /// # Errors
    /// Why the runner gave up.
    pub fn wait(mut self) -> Result<(), Failure> {
        let result = self.ended.recv();
        self.server.stop();
        let _ = self.thread.join();
        match result {
            Ok(result) => result.map_err(|fault| run::failure(&fault)),
            // The thread ended without a word: it panicked, which is in the log.
            Err(_) => Err(Failure::new("the runner broke; the log says where")),
        }
    }

    /// Stops both in order.
    pub fn stop(self) {
        self.stop.stop();
        // What it says now, the command has already said or does not mind.
        let _ = self.wait();
    }
}

/// The choice of who pays, which nobody makes silently.
///
/// # Errors
/// Both choices, when none was made.
pub fn chosen(billing: Option<&Billing>) -> Result<&Billing, Failure> {
    billing.ok_or_else(|| {
        Failure::usage(
            "say who pays for turns: --billing personal (the Claude login of this account), or --billing organization \
             --api-key-ref REF (an API key; REF is file:/path or env:NAME)",
        )
    })
}

/// What would fail every run is said before anything starts.
fn check(turns: &TurnOptions, billing: &Billing, path: Option<&OsStr>) -> Result<(), Failure> {
    if turns.class == ToolClass::Host && process::effective_uid() == 0 {
        return Err(Failure::usage("--tool-class host is refused for root; use an ordinary account"));
    }
    if turns.class == ToolClass::Host && !turns.write {
        return Err(Failure::usage(
            "--tool-class host works only with the write permission of the project; add --write, or take the class scoped",
        ));
    }
    check_key(billing)?;
    check_program(&turns.claude_bin, path)
}

fn check_key(billing: &Billing) -> Result<(), Failure> {
    let Billing::Organization { key_ref } = billing else { return Ok(()) };
    let key = SecretRef::parse(key_ref).map_err(|fault| Failure::usage(format!("--api-key-ref: {fault}")))?;
    key.read_token().map(drop).map_err(|fault| Failure::usage(format!("--api-key-ref: {fault}")))
}

fn check_program(name: &str, path: Option<&OsStr>) -> Result<(), Failure> {
    let missing = || {
        Failure::usage(format!(
            "--claude-bin: {} is on no trusted directory of PATH, or cannot be executed; install Claude Code or name its \
             absolute path",
            one_line(name)
        ))
    };
    find_program(name, &clean_path(path)).map(drop).ok_or_else(missing)
}

fn server_options(options: &PairOptions<'_>, billing: &Billing) -> Options {
    let project = |project: &ProjectDir| (project.reference.clone(), project.path.clone());
    Options {
        data_dir: options.data_dir.to_owned(),
        listen: options.listen,
        projects: options.projects.iter().map(project).collect(),
        tool_class: options.turns.class,
        billing_mode: match billing {
            Billing::Organization { .. } => BillingMode::Organization,
            Billing::Personal => BillingMode::Personal,
        },
        hooks: Hooks::default(),
    }
}

fn local_failure(fault: &LocalError) -> Failure {
    log::error!("code={}", fault.code());
    match fault {
        LocalError::DataDirInUse => Failure::new(format!(
            "{fault}; keep `local` running and let every `ask` use it, or give each its own --data-dir"
        )),
        LocalError::NotLoopback(_) | LocalError::ProjectRef(_) | LocalError::ProjectMissing(_) => {
            Failure::usage(fault.to_string())
        }
        _ => Failure::new(fault.to_string()),
    }
}

/// The runner's configuration, through the same reader and checks as a file's.
fn runner_config(options: &PairOptions<'_>, billing: &Billing, server: &Server) -> Result<Config, Failure> {
    let projects_root = options.data_dir.join(PROJECTS);
    private::create_dir_all(&projects_root)
        .map_err(|fault| Failure::new(format!("the data directory cannot be used ({})", fault.kind())))?;
    let text = config_text(&ConfigParts {
        server_url: &server.url(),
        instance_id: &server.instance_id().to_string(),
        agent_token: server.agent_token_file(),
        projects_root: &projects_root,
        state_dir: &data_dir::state(options.data_dir),
        turns: options.turns,
        billing,
    })?;
    config::parse(&text, CONFIG_NAME).map_err(|faults| Failure::usage(faults.to_string()))
}

struct ConfigParts<'a> {
    server_url: &'a str,
    instance_id: &'a str,
    agent_token: &'a Path,
    projects_root: &'a Path,
    state_dir: &'a Path,
    turns: &'a TurnOptions,
    billing: &'a Billing,
}

fn config_text(parts: &ConfigParts<'_>) -> Result<String, Failure> {
    let class = match parts.turns.class {
        ToolClass::Chat => "chat",
        ToolClass::Scoped => "scoped",
        ToolClass::Host => "host",
    };
    let mut lines = vec![
        pair("server_url", parts.server_url),
        pair("instance_id", parts.instance_id),
        pair("agent_token_ref", &format!("file:{}", text(parts.agent_token)?)),
        pair("projects_root", text(parts.projects_root)?),
        pair("state_dir", text(parts.state_dir)?),
        pair("claude_bin", &parts.turns.claude_bin),
        pair("default_model", &parts.turns.model),
        pair("tool_class", class),
    ];
    if parts.turns.class == ToolClass::Scoped {
        let tools: Vec<_> = SCOPED_TOOLS.iter().map(|tool| quoted(tool)).collect();
        lines.push(format!("scoped_allowed_tools = [{}]", tools.join(", ")));
    }
    lines.push(match parts.billing {
        Billing::Organization { key_ref } => pair("anthropic_api_key_ref", key_ref),
        Billing::Personal => "allow_personal = true".to_owned(),
    });
    let agent = pair("run_update_min_interval", PATCH_INTERVAL);
    Ok(format!("[runner]\n{}\n[agent]\n{agent}\n", lines.join("\n")))
}

fn pair(key: &str, value: &str) -> String {
    format!("{key} = {}", quoted(value))
}

/// A TOML basic string: its escapes hold those of JSON, and what else TOML forbids is refused as a value anyway.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage("the path of the data directory is not UTF-8; choose another with --data-dir")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::LevelFilter;

    fn turns(class: ToolClass) -> TurnOptions {
        TurnOptions {
            class,
            billing: None,
            model: "mo\"del".into(),
            claude_bin: "/opt/claude".into(),
            write: false,
            log_level: LevelFilter::Off,
        }
    }

    fn read(class: ToolClass, billing: &Billing) -> Config {
        let text = config_text(&ConfigParts {
            server_url: "http://127.0.0.1:4000",
            instance_id: "00000000-0000-7000-8000-000000000001",
            agent_token: Path::new("/d/a \"b\" \\ token"),
            projects_root: Path::new("/d/projects"),
            state_dir: Path::new("/d/s"),
            turns: &turns(class),
            billing,
        });
        config::parse(&text.unwrap(), CONFIG_NAME).unwrap()
    }

    #[test]
    fn the_written_configuration_is_read_back() {
        let key = Billing::Organization { key_ref: "file:/k".into() };
        for class in [ToolClass::Chat, ToolClass::Scoped, ToolClass::Host] {
            let config = read(class, &key);
            assert_eq!(config.runner.tool_class, class);
            assert_eq!(config.runner.default_model, "mo\"del");
            assert_eq!(config.runner.agent_token_ref, SecretRef::file(Path::new("/d/a \"b\" \\ token")));
            assert_eq!(
                config.runner.scoped_allowed_tools.len(),
                if class == ToolClass::Scoped { 3 } else { 0 }
            );
            assert!(config.runner.anthropic_api_key_ref.is_some() && !config.runner.allow_personal);
        }
        let personal = read(ToolClass::Scoped, &Billing::Personal);
        assert!(personal.runner.anthropic_api_key_ref.is_none() && personal.runner.allow_personal);
    }

    #[test]
    fn without_a_choice_both_are_named() {
        let failure = chosen(None).unwrap_err();
        assert_eq!(failure.exit, super::super::exit::USAGE);
        assert!(
            failure.message.contains("--billing personal")
                && failure.message.contains("--billing organization")
        );
    }

    #[test]
    fn a_program_that_cannot_be_found_is_refused() {
        for (name, good) in
            [("/bin/sh", true), ("sh", true), ("/nonexistent/claude", false), ("no-such-claude", false)]
        {
            let turns = TurnOptions { claude_bin: name.into(), ..turns(ToolClass::Chat) };
            let found = check(&turns, &Billing::Personal, Some("/usr/bin:/bin".as_ref()));
            assert_eq!(found.is_ok(), good, "{name}");
            assert!(found.is_ok() || found.unwrap_err().message.contains("--claude-bin"), "{name}");
        }
    }

    #[test]
    fn keys_that_cannot_be_read_are_refused() {
        for (key_ref, said) in [("nonsense", "--api-key-ref"), ("file:/nonexistent/key", "does not exist")] {
            let billing = Billing::Organization { key_ref: key_ref.into() };
            let failure = check(&turns(ToolClass::Chat), &billing, None).unwrap_err();
            assert!(failure.message.contains(said), "{}", failure.message);
        }
    }
}
