//! `ask`: one message from the terminal, its run, its answer and its files.
//!
//! Uses the `local` that runs in the data directory, or starts a server and runner for as long as it takes. `demo`
//! is built of the same parts: [`home`] to find them, [`converse`] to ask.

pub mod converse;
pub mod home;
pub mod interrupts;
pub mod reasons;
pub mod report;
pub mod save;
pub mod track;
pub mod upload;

use std::path::Path;

use super::args::AskOptions;
use super::data_dir;
use super::exit::Failure;
use super::project::ProjectDir;
use super::show::Live;
use super::{logging, run};
use crate::config::LogFormat;
use converse::Question;
use home::Home;
use interrupts::Interrupts;

/// Asks, shows and prints.
///
/// # Errors
/// What kept the question from being asked or followed; how the run ended is the exit code. A script reads the
/// failure as an object too.
pub fn ask(options: &AskOptions) -> Result<u8, Failure> {
    asked(options).inspect_err(|failure| {
        if options.json {
            failure.print_object(failure.word());
        }
    })
}

fn asked(options: &AskOptions) -> Result<u8, Failure> {
    let attachments = upload::check(&options.attach)?;
    save::check(&options.out)?;
    let project = ProjectDir::of(options.project.as_deref().unwrap_or(Path::new(".")))?;
    let data_dir = data_dir::choose(options.data_dir.as_deref(), |name| std::env::var_os(name))?;
    data_dir::outside(&data_dir, std::slice::from_ref(&project))?;
    logging::install_with(LogFormat::Text, options.turns.log_level);
    run::hide_memory();
    let interrupts = Interrupts::listen()?;
    let home = Home::find_or_start(&data_dir, &project, &options.turns)?;
    let mut live = Live::new(options.json);
    let reply = converse::converse(
        &Question {
            home: &home,
            thread: options.thread,
            text: &options.text,
            attachments: &attachments,
            out: &options.out,
            interrupts: &interrupts,
        },
        &mut live,
    );
    live.clear();
    home.leave();
    let reply = reply?;
    report::print(&reply, options.json);
    Ok(reply.exit())
}
