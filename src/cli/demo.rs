//! `demo`: `ask` with the stand-in for the CLI on a temporary project, and a look at everything that came of it.
//!
//! Nothing leaves the machine: the key is made up, the project temporary, the stand-in this package's own program.

pub mod tracer;
pub mod verify;
mod workplace;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::args::{Billing, DemoOptions, TurnOptions};
use super::ask::converse::{self, Question};
use super::ask::home::Home;
use super::ask::interrupts::Interrupts;
use super::ask::report::Reply;
use super::ask::upload;
use super::data_dir;
use super::exit::{self, Failure};
use super::project::ProjectDir;
use super::show::{self, Live};
use super::{logging, run};
use crate::config::LogFormat;
use crate::sdk::wire::run::ToolClass;
use crate::sys::atomic_file;
use crate::sys::private;
use workplace::Workplace;

/// The stand-in, beside this program.
const STAND_IN: &str = "fake-claude";

/// What is asked.
const QUESTION: &str = "Please unpack orders.zip, add up the orders and send me the results.";

/// Looks like a key and opens nothing.
const MADE_UP_KEY: &str = "made-up-key-of-the-demo";

/// The data directory when nobody named one; one letter, so that the CLI's socket has room below it.
const DATA: &str = "d";

/// Model that the stand-in is asked to be.
const MODEL: &str = "stand-in";

/// What the demo works on.
struct Stage {
    /// Owns project, results and what is kept when nobody named a data directory; removed at the end.
    work: Workplace,
    /// Where server and runner keep everything.
    data_dir: PathBuf,
}

/// Runs and checks the demo.
///
/// # Errors
/// What kept it from running; what differs from what was expected is printed and gives exit code 1.
pub fn demo(options: &DemoOptions) -> Result<u8, Failure> {
    let program = stand_in()?;
    logging::install_with(LogFormat::Text, options.log_level);
    run::hide_memory();
    let stage = Stage::set(options.data_dir.as_deref())?;
    let (project, archive) = furnish(&stage)?;
    let turns = turn_options(&stage.data_dir, &program, options)?;
    show::line(&format!(
        "A project in {}, an archive of orders, a stand-in for Claude Code.",
        project.path.display()
    ));
    let interrupts = Interrupts::listen()?;
    let home = Home::find_or_start(&stage.data_dir, &project, &turns)?;
    show::line("Server and runner are at work; the project may be written to.");
    let reply = ask(&home, &stage, &archive, &interrupts);
    home.leave();
    judge(&reply?, &stage, &project, &archive)
}

impl Stage {
    fn set(data_dir: Option<&Path>) -> Result<Stage, Failure> {
        let given = data_dir.map(|given| data_dir::choose(Some(given), |_| None)).transpose()?;
        workplace::clear_left_ones();
        let work = Workplace::make().map_err(|fault| temporary(&fault))?;
        let data_dir = given.unwrap_or_else(|| work.join(DATA));
        Ok(Stage { work, data_dir })
    }

    fn results(&self) -> PathBuf {
        self.work.join("results")
    }
}

fn temporary(fault: &std::io::Error) -> Failure {
    Failure::new(format!("the temporary directory cannot be used ({})", fault.kind()))
}

/// The stand-in beside this program.
fn stand_in() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|fault| Failure::new(format!("where is this program? ({})", fault.kind())))?;
    let program = own.with_file_name(STAND_IN);
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::new(format!(
        "the stand-in {} is missing; build both programs with `cargo build --bins`",
        program.display()
    )))
}

/// Makes the project and the archive.
fn furnish(stage: &Stage) -> Result<(ProjectDir, PathBuf), Failure> {
    let directory = stage.work.join("orders");
    private::create_dir_all(&directory).map_err(|fault| temporary(&fault))?;
    git_init(&directory)?;
    let archive = stage.work.join(tracer::ARCHIVE);
    let bytes = tracer::archive().map_err(|fault| temporary(&fault))?;
    std::fs::write(&archive, bytes).map_err(|fault| temporary(&fault))?;
    Ok((ProjectDir::of(&directory)?, archive))
}

/// A Git working tree as `git init` makes it, with nobody's settings.
fn git_init(directory: &Path) -> Result<(), Failure> {
    let mut command = Command::new("git");
    command.args(["init", "--quiet"]).arg(directory).stdin(Stdio::null()).stdout(Stdio::null());
    let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").status();
    match done {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failure::new("`git init` failed in the temporary directory")),
        Err(_) => Err(Failure::new("Git is missing; the demo makes its project with it")),
    }
}

fn turn_options(data_dir: &Path, program: &Path, options: &DemoOptions) -> Result<TurnOptions, Failure> {
    let key = data_dir.join("made-up-key");
    private::create_dir_all(data_dir)
        .and_then(|()| atomic_file::write(&key, MADE_UP_KEY.as_bytes()))
        .map_err(|fault| {
            Failure::new(format!(
                "{}: the data directory cannot be used ({})",
                data_dir.display(),
                fault.kind()
            ))
        })?;
    Ok(TurnOptions {
        class: ToolClass::Scoped,
        billing: Some(Billing::Organization { key_ref: format!("file:{}", key.display()) }),
        model: MODEL.to_owned(),
        claude_bin: program.display().to_string(),
        write: true,
        log_level: options.log_level,
    })
}

fn ask(home: &Home, stage: &Stage, archive: &Path, interrupts: &Interrupts) -> Result<Reply, Failure> {
    let attachments = upload::check(&[archive.to_owned()])?;
    let results = stage.results();
    let mut live = Live::new(false);
    show::line(&format!("You: {QUESTION}"));
    let question =
        Question { home, thread: None, text: QUESTION, attachments: &attachments, out: &results, interrupts };
    converse::converse(&question, &mut live)
}

/// Prints the answer and what is right and wrong with everything.
fn judge(reply: &Reply, stage: &Stage, project: &ProjectDir, archive: &Path) -> Result<u8, Failure> {
    show::line(&format!("Answer: {}", show::plain(&reply.text())));
    for file in &reply.saved {
        show::line(&format!("File: {} ({})", show::one_line(&file.name), show::size(file.size_bytes)));
    }
    if reply.interrupted {
        return Err(Failure { exit: exit::INTERRUPTED, message: "the demo was stopped".to_owned() });
    }
    let differences = verify::differences(&verify::Outcome {
        reply,
        archive,
        state_dir: &data_dir::state(&stage.data_dir),
        project: &project.path,
    });
    for difference in &differences {
        show::line(&format!("Wrong: {difference}"));
    }
    if differences.is_empty() {
        show::line("demo ok: 3 orders, 7 pieces, 60 in all; 3 files came back; the archive is unchanged");
        return Ok(exit::OK);
    }
    show::line(&format!("demo failed: {} of the expected things differ", differences.len()));
    Ok(exit::FAILED)
}
