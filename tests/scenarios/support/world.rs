//! The world of a scenario: a server, a runner in the same process, the stand-in CLI, projects, a person.
//!
//! `Projekt-A` has the binding `website`, a Git working tree; `Projekt-B` the binding `docs`, made on demand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use claude_code_runner::config;
use claude_code_runner::local::{Hooks, Options, Server};
use claude_code_runner::run::workspace::Workspaces;
use claude_code_runner::runner::{Runner, RunnerFault, StopHandle};
use claude_code_runner::sdk::wire::person::{Message, RunDocument};
use claude_code_runner::sdk::wire::run::{BillingMode, RunState, ToolClass};
use claude_code_runner::sys::atomic_file;
use claude_code_runner::sys::private::TempDir;
use uuid::Uuid;

use super::logs;
use super::person::Person;
use super::stand_in::StandIn;
use super::wait::eventually;

/// The API key of every scenario, a canary that must show up nowhere but in the CLI's environment.
pub const API_KEY: &str = "sk-example-canary-key-0001";

/// How a world differs from the usual one.
pub struct Setup {
    /// What the server lets turns do.
    pub server_class: ToolClass,
    /// Who pays, as the server says.
    pub billing: BillingMode,
    /// What the runner is configured to do.
    pub runner_class: ToolClass,
    /// Lines of the runner's configuration beside the usual ones, by section.
    pub runner: Vec<String>,
    /// The same for `[adapter]`.
    pub adapter: Vec<String>,
    /// The same for `[sdk]`.
    pub sdk: Vec<String>,
    /// `agent.run_update_min_interval`.
    pub patch_interval: &'static str,
    /// Variables of the runner's own environment beside PATH, HOME and USER.
    pub environment: Vec<(String, String)>,
    /// Workspace references beside `website`; their directories are made, without a Git working tree.
    pub projects: Vec<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            server_class: ToolClass::Scoped,
            billing: BillingMode::Organization,
            runner_class: ToolClass::Scoped,
            runner: Vec::new(),
            adapter: Vec::new(),
            sdk: Vec::new(),
            patch_interval: "20ms",
            environment: Vec::new(),
            projects: Vec::new(),
        }
    }
}

/// A server, a runner and everything around them.
pub struct World {
    pub dir: TempDir,
    pub hooks: Hooks,
    pub server: Server,
    pub claude: StandIn,
    pub person: Person,
    setup: Setup,
    runner: Option<Running>,
}

struct Running {
    stop: StopHandle,
    thread: JoinHandle<Result<(), RunnerFault>>,
}

impl World {
    /// The usual world with a running runner.
    pub fn new() -> World {
        World::with(Setup::default())
    }

    /// A world with a running runner.
    pub fn with(setup: Setup) -> World {
        let mut world = World::without_runner(setup);
        world.start_runner();
        world
    }

    /// A world whose runner does not run yet.
    pub fn without_runner(setup: Setup) -> World {
        logs::install();
        let dir = TempDir::new().unwrap();
        for made in ["projects/website/.git", "home", "bin"] {
            std::fs::create_dir_all(dir.join(made)).unwrap();
        }
        for project in &setup.projects {
            std::fs::create_dir_all(dir.join("projects").join(project)).unwrap();
        }
        private_file(&dir.join("api-key"), API_KEY);
        let claude = StandIn::install(&dir.join("bin"));
        let hooks = Hooks::new();
        let server = start_server(&dir, &setup, &hooks);
        let person = Person::new(&server.url(), server.person_secret_file());
        World { dir, hooks, server, claude, person, setup, runner: None }
    }

    /// Starts the runner.
    pub fn start_runner(&mut self) {
        self.start(|runner| runner);
    }

    /// Starts a runner that gives up when its polls are superseded for that long.
    pub fn start_runner_that_gives_up_after(&mut self, limit: Duration) {
        self.start(|runner| runner.give_up_superseded_after(limit));
    }

    fn start(&mut self, prepared: impl FnOnce(Runner) -> Runner) {
        let config =
            config::parse(&self.config_text(), "scenario.toml").unwrap_or_else(|faults| panic!("{faults}"));
        // A process that another scenario is just starting may hold the last runner's lock until it is loaded.
        let runner = eventually("the state directory is free", || {
            let workspaces = Workspaces::Root(config.runner.projects_root.clone());
            match Runner::new(config.clone(), workspaces, self.environment()) {
                Err(RunnerFault::StateDirInUse) => None,
                made => Some(made.unwrap_or_else(|fault| panic!("{fault}"))),
            }
        });
        let runner = prepared(runner);
        let stop = runner.stop_handle();
        let thread = std::thread::Builder::new().name("runner".into()).spawn(move || runner.run()).unwrap();
        self.runner = Some(Running { stop, thread });
    }

    /// Stops the runner orderly; its turns live on.
    pub fn stop_runner(&mut self) -> Result<(), RunnerFault> {
        let Some(running) = self.runner.take() else { return Ok(()) };
        running.stop.stop();
        running.thread.join().unwrap()
    }

    /// What a runner that gave up by itself said.
    pub fn runner_gave_up(&mut self) -> RunnerFault {
        let running = self.runner.take().unwrap();
        running.thread.join().unwrap().unwrap_err()
    }

    /// Starts the server again on its data and its port; its secret is a new one.
    pub fn restart_server(&mut self) {
        self.server.stop();
        self.server = start_server(&self.dir, &self.setup, &self.hooks);
        self.person = Person::new(&self.server.url(), self.server.person_secret_file());
    }

    /// The runner's configuration as a file.
    pub fn config_text(&self) -> String {
        let path = |name: &str| self.dir.join(name).display().to_string();
        let class = format!("{:?}", self.setup.runner_class).to_lowercase();
        let own =
            |key: &str| self.setup.runner.iter().any(|line| line.split('=').next().unwrap().trim() == key);
        let mut runner = vec![
            format!("server_url = \"{}\"", self.server.url().trim_end_matches('/')),
            format!("instance_id = \"{}\"", self.server.instance_id()),
            format!("agent_token_ref = \"file:{}\"", self.server.agent_token_file().display()),
            format!("projects_root = \"{}\"", path("projects")),
            format!("state_dir = \"{}\"", path("s")),
            format!("claude_bin = \"{}\"", self.claude.program().display()),
            "default_model = \"claude-sonnet-4-5\"".to_owned(),
            format!("tool_class = \"{class}\""),
            "scoped_allowed_tools = [\"Read\", \"Edit(./**)\"]".to_owned(),
            format!("anthropic_api_key_ref = \"file:{}\"", path("api-key")),
            "poll_interval = \"20ms\"".to_owned(),
            "followup_grace = \"50ms\"".to_owned(),
        ];
        runner.retain(|line| !own(line.split('=').next().unwrap().trim()));
        runner.extend(self.setup.runner.clone());
        let mut sdk = vec!["poll_wait = \"5s\"".to_owned(), "retry_max_delay = \"50ms\"".to_owned()];
        sdk.extend(self.setup.sdk.clone());
        format!(
            "[runner]\n{}\n[adapter]\n{}\n[agent]\nrun_update_min_interval = \"{}\"\n[sdk]\n{}\n",
            runner.join("\n"),
            self.setup.adapter.join("\n"),
            self.setup.patch_interval,
            sdk.join("\n")
        )
    }

    /// Changes the setup for the next start of the runner.
    pub fn change_setup(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.dir.join("home").display().to_string();
        let usual = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", home.as_str()), ("USER", "runner")];
        let own = self.setup.environment.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        usual.into_iter().chain(own).map(|(key, value)| (key.into(), value.into())).collect()
    }

    /// The runner's state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.join("s")
    }

    /// The project of `Projekt-A`.
    pub fn project(&self) -> PathBuf {
        self.dir.join("projects/website")
    }

    /// The channel of `Projekt-A`.
    pub fn channel(&self) -> Uuid {
        self.server.channel_of("website").unwrap()
    }

    /// Opens a thread in `Projekt-A`.
    pub fn thread(&self) -> Uuid {
        self.person.thread(self.channel())
    }

    /// Opens a thread, writes `text` and gives thread and run.
    pub fn asks(&self, text: &str) -> (Uuid, Uuid) {
        let thread = self.thread();
        (thread, self.person.says(thread, text).run_id.expect("the message opens a run"))
    }

    /// Waits until the run has ended.
    #[track_caller]
    pub fn ends(&self, run: Uuid) -> RunDocument {
        eventually("the run has ended", || {
            let found = self.person.run(run);
            found.state.is_final().then_some(found)
        })
    }

    /// Waits until the run has ended and checks how.
    #[track_caller]
    pub fn ends_as(&self, run: Uuid, state: RunState, reason: Option<&str>) -> RunDocument {
        let found = self.ends(run);
        let said = logs::of(run).join("\n");
        assert_eq!((found.state, found.reason.as_deref()), (state, reason), "{run}:\n{said}");
        found
    }

    /// The agent's messages of a thread.
    pub fn answers(&self, thread: Uuid) -> Vec<Message> {
        let all = self.person.messages(thread);
        all.into_iter().filter(|message| message.author.principal_id == self.server.agent_id()).collect()
    }

    /// The texts of the agent's messages of a thread.
    pub fn answer_texts(&self, thread: Uuid) -> Vec<String> {
        self.answers(thread).into_iter().map(|message| message.content_md).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let stopped = self.stop_runner();
        if !std::thread::panicking() {
            assert!(stopped.is_ok(), "{stopped:?}");
        }
    }
}

fn start_server(dir: &TempDir, setup: &Setup, hooks: &Hooks) -> Server {
    let refs = std::iter::once("website").chain(setup.projects.iter().map(String::as_str));
    Server::start(Options {
        data_dir: dir.join("local"),
        listen: None,
        projects: refs.map(|name| (name.to_owned(), dir.join("projects").join(name))).collect(),
        tool_class: setup.server_class,
        billing_mode: setup.billing,
        hooks: hooks.clone(),
    })
    .unwrap()
}

/// A file that only its owner may read. A program that reads it meanwhile sees all of the old text or of the new.
pub fn private_file(path: &Path, text: &str) {
    atomic_file::show(path, text.as_bytes()).unwrap();
}
