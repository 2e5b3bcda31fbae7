//! The real work of the steps.

use std::io::{self, Write};
use std::process::Stdio;
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::super::events::{self, Event};
use super::super::scenario::{Find, SumCsv, Work};
use super::super::steps;
use super::{Halt, Player};

impl<W: Write> Player<'_, W> {
    /// Does all of `works`; the last output, an error's text included.
    pub(super) fn do_all(&mut self, works: &[Work]) -> Result<(String, bool), Halt> {
        let mut last = String::new();
        for work in works {
            match self.do_one(work)? {
                Ok(output) => last = output,
                Err(error) => return Ok((error.to_string(), true)),
            }
        }
        Ok((last, false))
    }

    fn do_one(&mut self, work: &Work) -> Result<io::Result<String>, Halt> {
        match work {
            Work::Hold(marker) => {
                events::when_exists(self.marker(marker), Event::Done(String::new()), self.sender.clone());
                self.wait().map(Ok)
            }
            Work::Shell(script) => self.shell(script),
            other => Ok(self.quick(other)),
        }
    }

    /// Work that does not wait for anything.
    fn quick(&mut self, work: &Work) -> io::Result<String> {
        match work {
            Work::Mark(marker) => steps::write(&self.marker(marker), "")?,
            Work::Write(file) => steps::write(&self.path(&file.path), &self.values.fill(&file.content))?,
            Work::Copy(paths) => steps::copy(&self.path(&paths.from), &self.path(&paths.to))?,
            Work::Unzip(paths) => steps::unzip(&self.path(&paths.from), &self.path(&paths.to))?,
            Work::Zip(archive) => {
                let files: Vec<_> = archive.files.iter().map(|file| self.path(file)).collect();
                steps::zip(&self.path(&archive.to), &files)?;
            }
            Work::Find(find) => return self.find(find),
            Work::SumCsv(sum) => return self.sum(sum),
            Work::Helper(file) => self.start_helper(file)?,
            Work::Hold(_) | Work::Shell(_) => {}
        }
        Ok(String::new())
    }

    fn find(&mut self, find: &Find) -> io::Result<String> {
        let found = steps::find(&self.path(&find.below), &find.name);
        let path = found.ok_or_else(|| io::Error::other(format!("{} is not there", find.name)))?;
        let text = path.to_string_lossy().into_owned();
        self.values.set(&format!("out.{}", find.keep), text.clone());
        Ok(text)
    }

    fn sum(&mut self, sum: &SumCsv) -> io::Result<String> {
        let text = std::fs::read_to_string(self.path(&sum.from))?;
        let (rows, sums) = steps::sum_csv(&text, &sum.columns)?;
        self.values.set("out.rows", rows.to_string());
        for (word, value) in sum.columns.iter().zip(sums) {
            self.values.set(&format!("out.{word}"), value.to_string());
        }
        Ok(rows.to_string())
    }

    /// Runs a shell and waits for it; its output becomes `{{out.shell}}`.
    fn shell(&mut self, script: &str) -> Result<io::Result<String>, Halt> {
        let script = format!("exec 2>&1\n{}", self.values.fill(script));
        let mut command = steps::shell(self.stage.helper.as_deref(), &script, &self.stage.cwd);
        let child = match command.stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        self.child = i32::try_from(child.id()).ok();
        let sender = self.sender.clone();
        thread::spawn(move || {
            let output = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
            let _ = sender.send(Event::Done(String::from_utf8_lossy(&output).trim_end().to_owned()));
        });
        let output = self.wait()?;
        self.values.set("out.shell", output.clone());
        Ok(Ok(output))
    }

    fn start_helper(&mut self, file: &str) -> io::Result<()> {
        let script = steps::stubborn_script(&self.marker(file));
        let mut command = steps::shell(self.stage.helper.as_deref(), &script, &self.stage.cwd);
        command.stdout(Stdio::null()).spawn().map(drop)
    }

    /// Ends the shell a step waited for, with everything in its group.
    pub(super) fn kill_child(&mut self) {
        let Some(pid) = self.child.take().map(Pid::from_raw) else { return };
        // Before its session is made the shell has no group of its own; then the process itself is meant.
        if killpg(pid, Signal::SIGKILL).is_err() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}
