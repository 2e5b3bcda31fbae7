//! A server with a project and everything that a service needs beside it, in a temporary directory.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::broken;
use crate::cli::exit::Failure;
use crate::cli::person::Person;
use crate::local::{Hooks, Options, Server};
use crate::sdk::wire::person::MessagePost;
use crate::sdk::wire::run::{BillingMode, ToolClass};
use crate::sys::atomic_file;
use crate::sys::private::{self, TempDir};

/// Looks like a key and opens nothing.
const MADE_UP_KEY: &str = "made-up-key-of-the-bench";

/// The place; dropped, everything of it is gone.
pub struct Place {
    /// The server.
    pub server: Server,
    /// What it was asked.
    pub hooks: Hooks,
    /// The person.
    pub person: Person,
    dir: TempDir,
}

impl Place {
    /// Makes the place; the stand-in plays `scenario`.
    pub fn new(scenario: &str) -> Result<Place, Failure> {
        let dir = TempDir::new().map_err(broken("no temporary directory"))?;
        for name in ["projects/website/.git", "bin", "home"] {
            private::create_dir_all(&dir.path().join(name)).map_err(broken("no directory"))?;
        }
        let program = stand_in()?;
        symlink(program, dir.path().join("bin/claude")).map_err(broken("no link"))?;
        let write = |name: &str, text: &str| {
            atomic_file::write(&dir.path().join(name), text.as_bytes()).map_err(broken("no file"))
        };
        write("bin/claude.scenario.json", scenario)?;
        write("key", MADE_UP_KEY)?;
        let hooks = Hooks::new();
        let server = Server::start(Options {
            data_dir: dir.path().join("d"),
            listen: None,
            projects: vec![("website".to_owned(), dir.path().join("projects/website"))],
            tool_class: ToolClass::Scoped,
            billing_mode: BillingMode::Organization,
            hooks: hooks.clone(),
        })
        .map_err(|fault| Failure::new(fault.to_string()))?;
        let person = Person::of_data_dir(&dir.path().join("d"), server.address())?;
        let place = Place { server, hooks, person, dir };
        write_config(&place)?;
        Ok(place)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Opens a thread and writes into it.
    pub fn ask(&self) -> Result<Uuid, Failure> {
        let channel = self.server.channel_of("website").ok_or_else(|| Failure::new("bench: no forum"))?;
        let thread = self.person.create_thread(channel)?;
        let message = MessagePost {
            client_msg_id: Uuid::now_v7(),
            content_md: "How many orders?".to_owned(),
            attachment_file_ids: None,
        };
        let posted = self.person.post_message(thread.id, &message)?;
        posted.run_id.ok_or_else(|| Failure::new("bench: the message opened no run"))
    }
}

/// The configuration of a service at home.
fn write_config(place: &Place) -> Result<(), Failure> {
    let path = |name: &str| place.path(name).display().to_string();
    let text = format!(
        "[runner]\nserver_url = \"{}\"\ninstance_id = \"{}\"\nagent_token_ref = \"file:{}\"\n\
         projects_root = \"{}\"\nstate_dir = \"{}\"\nclaude_bin = \"{}\"\ndefault_model = \"stand-in\"\n\
         tool_class = \"scoped\"\nscoped_allowed_tools = [\"Read\"]\nanthropic_api_key_ref = \"file:{}\"\n",
        place.server.url(),
        place.server.instance_id(),
        place.server.agent_token_file().display(),
        path("projects"),
        path("s"),
        path("bin/claude"),
        path("key"),
    );
    atomic_file::write(&place.path("runner.toml"), text.as_bytes()).map_err(broken("no configuration"))
}

/// The stand-in beside this program.
fn stand_in() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(broken("where is this program"))?;
    let program = own.with_file_name("fake-claude");
    let there = Path::new(&program).is_file();
    there
        .then_some(program)
        .ok_or_else(|| Failure::new("bench: build both programs with `cargo build --bins`"))
}
