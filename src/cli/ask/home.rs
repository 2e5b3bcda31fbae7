//! Where a question goes: to the `local` that runs in the data directory, or to a pair started for it.

use std::path::Path;

use uuid::Uuid;

use crate::cli::args::TurnOptions;
use crate::cli::exit::Failure;
use crate::cli::pair::{Pair, PairOptions};
use crate::cli::person::{Person, PersonError};
use crate::cli::project::ProjectDir;
use crate::cli::show;
use crate::local::Server;
use crate::sdk::wire::person::Project;

/// A server with a runner, and the project asked about.
pub struct Home {
    /// The person's side.
    pub person: Person,
    /// The project.
    pub project: Project,
    pair: Option<Pair>,
}

impl Home {
    /// The running server of `data_dir`, else a pair of its own; with writing turned on where `turns` says so.
    ///
    /// # Errors
    /// Why neither is possible, or that the running one does not serve the project.
    pub fn find_or_start(
        data_dir: &Path,
        project: &ProjectDir,
        turns: &TurnOptions,
    ) -> Result<Home, Failure> {
        let (person, pair) = match running(data_dir)? {
            Some(person) => {
                say_whose_options_hold(turns);
                (person, None)
            }
            None => {
                let projects = std::slice::from_ref(project);
                let pair = Pair::start(&PairOptions { data_dir, listen: None, projects, turns })?;
                match Person::of_data_dir(data_dir, pair.server().address()) {
                    Ok(person) => (person, Some(pair)),
                    Err(failure) => return Err(left(Some(pair), failure)),
                }
            }
        };
        match served(&person, project, turns.write) {
            Ok(project) => Ok(Home { person, project, pair }),
            Err(failure) => Err(left(pair, failure)),
        }
    }

    /// How to learn what becomes of a turn that nobody here waits for any more.
    pub fn way_on(&self, thread_id: Uuid) -> String {
        let who = match &self.pair {
            Some(_) => "the next `ask` or `local` of this data directory takes it up",
            None => {
                "the next `ask` or `local` of this data directory takes it up, if its runner has gone (what an `ask` \
                 started ends with it, `local` stays)"
            }
        };
        format!(
            "the turn goes on by itself and {who}; its answer comes into thread {thread_id}: open the page of `local`, or \
             go on with `ask --thread {thread_id} TEXT`"
        )
    }

    /// Why the runner of this process has ended, when it has.
    pub fn fault(&self) -> Option<Failure> {
        self.pair.as_ref().and_then(Pair::runner_fault)
    }

    /// Stops what was started for the question.
    pub fn leave(self) {
        if let Some(pair) = self.pair {
            pair.stop();
        }
    }
}

/// Who pays and what turns may do was said when the running server was started.
fn say_whose_options_hold(turns: &TurnOptions) {
    if turns.billing.is_some() {
        show::error_line(
            "A local server runs in this data directory: what it was started with decides who pays, the model and \
             the tools. Choose another --data-dir for other ones.",
        );
    }
}

fn left(pair: Option<Pair>, failure: Failure) -> Failure {
    if let Some(pair) = pair {
        pair.stop();
    }
    failure
}

/// The person of a server that runs in `data_dir` and answers; what a killed one left behind answers to nobody.
///
/// # Errors
/// A server that runs and says nothing: a second one cannot be started beside it.
fn running(data_dir: &Path) -> Result<Option<Person>, Failure> {
    let Some(address) = Server::running_in(data_dir) else { return Ok(None) };
    let Ok(person) = Person::of_data_dir(data_dir, address) else { return Ok(None) };
    match person.alive() {
        Ok(()) => Ok(Some(person)),
        Err(silent @ PersonError::Silent) => Err(silent.into()),
        Err(_) => Ok(None),
    }
}

fn served(person: &Person, project: &ProjectDir, write: bool) -> Result<Project, Failure> {
    let all = person.projects()?;
    let found = all.into_iter().find(|served| served.workspace_ref == project.reference);
    let found = found.ok_or_else(|| {
        Failure::new(format!(
            "the running local server does not serve {}; start it with --project for it too, or stop it",
            project.path.display()
        ))
    })?;
    if write && !found.workspace_write { Ok(person.allow_writing(&found)?) } else { Ok(found) }
}
