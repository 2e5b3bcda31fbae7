//! Between the turns: what arrives, and what is played next.

use std::io::Write;

use serde_json::{Value, json};

use super::{COMPLAINT, Event, Halt, Player, TERMINATED, UserLine};

impl<W: Write> Player<'_, W> {
    /// Plays until stdin has ended and nothing is left to do; the exit code.
    pub(super) fn play(&mut self) -> u8 {
        loop {
            match self.play_next() {
                Ok(false) => {}
                Ok(true) => return self.scenario.exit.unwrap_or_else(|| u8::from(self.last_error)),
                Err(Halt::Exit(code)) => return code,
                Err(Halt::Interrupted { stays: true }) => {}
                Err(Halt::Interrupted { stays: false }) => return 0,
            }
        }
    }

    /// Plays one thing; true when all is done.
    fn play_next(&mut self) -> Result<bool, Halt> {
        if let Some(task) = self.ended.pop_front() {
            self.notify(&task)?;
        } else if let Some(line) = self.queue.pop_front() {
            self.turn(line)?;
        } else if self.eof && self.tasks.is_empty() {
            return Ok(true);
        } else {
            self.take_event()?;
        }
        Ok(false)
    }

    /// Waits until the step at hand is done and gives its output.
    pub(super) fn wait(&mut self) -> Result<String, Halt> {
        let outcome = loop {
            match self.take_event() {
                Ok(None) => {}
                Ok(Some(output)) => break Ok(output),
                Err(halt) => break Err(halt),
            }
        };
        if outcome.is_err() {
            self.kill_child();
        }
        self.child = None;
        outcome
    }

    /// Waits for one event and deals with it; the output of a finished step.
    pub(super) fn take_event(&mut self) -> Result<Option<String>, Halt> {
        // The player holds a sender, so the channel is never closed.
        let Ok(event) = self.events.recv() else { return Err(Halt::Exit(0)) };
        match event {
            Event::Line(bytes) => self.arrive(&bytes)?,
            Event::Eof => self.eof = true,
            Event::TaskDone(task) => self.ended.push_back(task),
            Event::Done(output) => return Ok(Some(output)),
            Event::Interrupt => {
                self.signalled("SIGINT", self.scenario.ignore_sigint, Halt::Interrupted { stays: false })?
            }
            Event::Terminate => {
                self.signalled("SIGTERM", self.scenario.ignore_sigterm, Halt::Exit(TERMINATED))?
            }
        }
        Ok(None)
    }

    fn signalled(&mut self, name: &str, ignored: bool, halt: Halt) -> Result<(), Halt> {
        self.capture.add(&json!({"kind": "signal", "pid": std::process::id(), "name": name}));
        if ignored { Ok(()) } else { Err(halt) }
    }

    /// Takes a line of stdin.
    fn arrive(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Ok(());
        }
        self.capture.add(&json!({"kind": "stdin", "pid": std::process::id(), "line": text}));
        let Ok(line) = serde_json::from_str::<Value>(&text) else {
            let count = text.chars().count();
            let _ = writeln!(std::io::stderr(), "{COMPLAINT} (type=unknown, {count} chars): SyntaxError");
            return Err(Halt::Exit(1));
        };
        match line["type"].as_str() {
            Some("user") => self.arrive_user(&line),
            Some("control_request") => self.arrive_control(&line)?,
            _ => {}
        }
        Ok(())
    }

    fn arrive_user(&mut self, line: &Value) {
        let named = line["uuid"].as_str().map(str::to_owned);
        let uuid = named.clone().unwrap_or_else(super::shapes::fresh);
        let content = line["message"]["content"].clone();
        if self.known.contains(&uuid) {
            self.emit(&self.ids.replay(&uuid, &content));
        } else if self.session.has_taken(&uuid) {
            self.known.insert(uuid.clone());
            self.emit(&self.ids.replay(&uuid, &content));
            self.emit(&self.ids.lifecycle(&uuid, "completed"));
        } else {
            self.known.insert(uuid.clone());
            self.emit(&self.ids.lifecycle(&uuid, "queued"));
            self.queue.push_back(UserLine { uuid, content });
        }
    }

    fn arrive_control(&mut self, line: &Value) -> Result<(), Halt> {
        let response =
            json!({"subtype": "success", "request_id": line["request_id"], "response": {"still_queued": []}});
        self.emit(&json!({"type": "control_response", "response": response}));
        let interrupts = line["request"]["subtype"] == "interrupt" && self.in_turn;
        if interrupts { Err(Halt::Interrupted { stays: true }) } else { Ok(()) }
    }
}
