//! `local`: the embedded server and the runner until a signal stops both.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::args::LocalOptions;
use super::data_dir;
use super::exit::{self, Failure};
use super::pair::{self, Pair, PairOptions};
use super::person::Person;
use super::project::ProjectDir;
use super::run;
use super::{logging, show};
use crate::config::LogFormat;
use crate::sys::signals::{self, SignalSeen};

/// Serves until a signal stops it.
///
/// # Errors
/// Why it could not start, or gave up.
pub fn local(options: &LocalOptions) -> Result<u8, Failure> {
    pair::chosen(options.turns.billing.as_ref())?;
    let projects = distinct(options)?;
    let data_dir = data_dir::choose(options.data_dir.as_deref(), |name| std::env::var_os(name))?;
    data_dir::outside(&data_dir, &projects)?;
    logging::install_with(LogFormat::Text, options.turns.log_level);
    run::hide_memory();
    // Before anything is started, so that a signal never finds it without an order of ending.
    let (tell, heard) = unbounded();
    let signals = signals::spawn(tell).map_err(|fault| run::no_signals(&fault))?;
    let pair = Pair::start(&PairOptions {
        data_dir: &data_dir,
        listen: options.listen,
        projects: &projects,
        turns: &options.turns,
    })?;
    let passing = pass_on(heard, pair.signal_sender())?;
    let introduced = introduce(&pair, &projects, options.turns.write, &data_dir);
    if let Err(failure) = introduced {
        pair.stop();
        return Err(failure);
    }
    let result = pair.wait();
    signals.stop();
    // Ends with the signals it waits for; a panic of it was printed already.
    let _ = passing.join();
    show::line("Stopped. Threads and files are kept.");
    result.map(|()| exit::OK)
}

/// Gives the runner the signals heard so far and later.
fn pass_on(heard: Receiver<SignalSeen>, runner: Sender<SignalSeen>) -> Result<JoinHandle<()>, Failure> {
    let work = move || heard.iter().map(|seen| runner.send(seen)).take_while(Result::is_ok).for_each(drop);
    std::thread::Builder::new()
        .name("signals-passed".into())
        .spawn(work)
        .map_err(|fault| run::no_signals(&fault))
}

fn distinct(options: &LocalOptions) -> Result<Vec<ProjectDir>, Failure> {
    let mut projects: Vec<ProjectDir> = Vec::new();
    for dir in &options.projects {
        let project = ProjectDir::of(dir)?;
        if !projects.contains(&project) {
            projects.push(project);
        }
    }
    Ok(projects)
}

/// Turns writing on where asked, and says where everything is.
fn introduce(
    pair: &Pair,
    projects: &[ProjectDir],
    write: bool,
    data_dir: &std::path::Path,
) -> Result<(), Failure> {
    let person = Person::of_data_dir(data_dir, pair.server().address())?;
    for project in person.projects()? {
        if write && !project.workspace_write {
            person.allow_writing(&project)?;
        }
    }
    for project in projects {
        show::line(&format!("Project {} in {}", project.reference, project.path.display()));
    }
    if person.has_page() {
        show::line(&format!("Open {}", pair.server().page_address()));
    } else {
        show::line(&format!("Server {} (this version has no page yet)", pair.server().url()));
    }
    show::line(
        "From a terminal, in a project's directory: claude-code-runner ask \"What does this project do?\"",
    );
    if data_dir::choose(None, |name| std::env::var_os(name)).ok().as_deref() != Some(data_dir) {
        show::line(&format!("(with --data-dir {})", data_dir.display()));
    }
    show::line("Ctrl-C stops it.");
    Ok(())
}
