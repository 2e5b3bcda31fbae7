//! One turn: from the line that starts it to its result.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

use super::super::recording::{Next, Recording};
use super::super::scenario::{ApiError, Background, Step, Tool, Turn, When};
use super::super::session::{self, Counts};
use super::super::{events, events::Event, shapes, steps};
use super::{Halt, Player, UserLine};

/// What the real CLI says to a tool call that was interrupted.
const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

/// The answer where the scenario has none.
const DEFAULT_ANSWER: &str = "This is the answer of the stand-in.";

/// The command that compacts the session.
const COMPACT: &str = "/compact";

/// The turn at hand.
#[derive(Default)]
struct Running {
    /// The lines it answers, the first one started it.
    lines: Vec<UserLine>,
    /// Whether the first line was echoed.
    echoed: bool,
    title: Option<String>,
    text: String,
    members: BTreeMap<String, Value>,
    error: Option<ApiError>,
    /// The call that is under way.
    tool: Option<String>,
    silent: bool,
    used: BTreeMap<String, Counts>,
    /// A turn that a background task started.
    origin: Option<Value>,
}

impl Running {
    fn uuids(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.uuid.clone()).collect()
    }
}

impl<W: Write> Player<'_, W> {
    /// Plays the turn that `line` starts.
    pub(super) fn turn(&mut self, line: UserLine) -> Result<(), Halt> {
        self.lines += 1;
        let words = texts(&line.content);
        self.values.set("uuid", &line.uuid);
        // The last item is the caller's fixed closing; the person's words stand before it.
        self.values
            .set("text", words.iter().rev().nth(usize::from(words.len() > 1)).cloned().unwrap_or_default());
        self.session.save();
        let compact = words == [COMPACT];
        let chosen = self.choose(&words, compact);
        let recorded =
            matches!(chosen.as_ref().and_then(|turn| turn.steps.first()), Some(Step::PlayRecording(_)));
        let mut running = Running { lines: vec![line], ..Running::default() };
        if !recorded {
            self.emit(&self.ids.lifecycle(&running.lines[0].uuid, "started"));
        }
        let plan = chosen.unwrap_or_else(|| Turn {
            steps: vec![Step::Text(DEFAULT_ANSWER.to_owned())],
            ..Turn::default()
        });
        let counts = plan.usage.clone().unwrap_or_else(shapes::turn_usage);
        running.used = BTreeMap::from([(self.ids.model.clone(), counts)]);
        running.title = plan.title.clone().filter(|_| self.stage.title_wanted);
        if compact && plan.when.text.is_none() {
            return self.compact(running);
        }
        if !recorded {
            self.init(&running.uuids());
        }
        self.guarded(&plan.steps, running)
    }

    /// Plays `steps` and ends the turn, also when it is interrupted.
    fn guarded(&mut self, steps: &[Step], mut running: Running) -> Result<(), Halt> {
        self.in_turn = true;
        let outcome = self.play_steps(steps, &mut running);
        self.in_turn = false;
        match outcome {
            Ok(()) => {
                self.finish(running);
                Ok(())
            }
            Err(Halt::Interrupted { stays }) => {
                self.interrupted(running);
                Err(Halt::Interrupted { stays })
            }
            Err(exit) => Err(exit),
        }
    }

    /// The turn that the end of a background task starts.
    pub(super) fn notify(&mut self, task_id: &str) -> Result<(), Halt> {
        let Some(position) = self.tasks.iter().position(|task| task.task_id == task_id) else {
            return Ok(());
        };
        let task = self.tasks.remove(position);
        let id = &task.task_id;
        self.emit(&self.ids.system("task_updated", json!({"task_id": id, "patch": {"status": "completed"}})));
        let summary = format!("Background command \"{}\" completed (exit code 0)", task.description);
        let members = json!({"task_id": id, "tool_use_id": id, "status": "completed", "output_file": "", "summary": summary});
        self.emit(&self.ids.system("task_notification", members));
        self.emit_tasks();
        let Some(answer) = task.answer else { return Ok(()) };
        self.init(&[]);
        let origin = json!({"kind": "task-notification", "producer": "session-task"});
        let used = BTreeMap::from([(self.ids.model.clone(), shapes::turn_usage())]);
        self.guarded(
            &[Step::Text(answer)],
            Running { echoed: true, origin: Some(origin), used, ..Running::default() },
        )
    }

    /// The first entry of the scenario whose conditions hold. A compact command needs an entry that names it.
    fn choose(&self, words: &[String], compact: bool) -> Option<Turn> {
        let fits = |turn: &&Turn| self.holds(&turn.when, words) && (!compact || turn.when.text.is_some());
        self.scenario.turns.iter().find(fits).cloned()
    }

    fn holds(&self, when: &When, words: &[String]) -> bool {
        let session = if self.call.resume { "resume" } else { "new" };
        let file = |name: &String| {
            self.call.add_dir.as_ref().and_then(|dir| steps::find(dir.as_ref(), name)).is_some()
        };
        when.nth.is_none_or(|nth| nth == self.stage.nth)
            && when.line.is_none_or(|line| line == self.lines)
            && when.session.as_ref().is_none_or(|wanted| wanted == session)
            && when.text.as_ref().is_none_or(|text| words.iter().any(|word| word.contains(text)))
            && when.file.as_ref().is_none_or(file)
    }

    fn init(&mut self, uuids: &[String]) {
        let source = self.scenario.key_source.clone().unwrap_or_else(|| self.stage.key_source.clone());
        let version = self
            .scenario
            .version
            .clone()
            .unwrap_or_else(|| super::super::scenario::DEFAULT_VERSION.to_owned());
        let members = json!({
            "cwd": self.stage.cwd.to_string_lossy(), "model": self.ids.model, "apiKeySource": source, "tools": self.call.tools,
            "mcp_servers": [], "permissionMode": self.call.permission_mode, "slash_commands": ["clear", "compact"], "claude_code_version": version,
            "output_style": "default", "agents": [], "skills": [], "plugins": [], "user_message_uuids": uuids,
        });
        self.emit(&self.ids.system("init", members));
    }

    fn play_steps(&mut self, steps: &[Step], running: &mut Running) -> Result<(), Halt> {
        steps.iter().try_for_each(|step| self.play_step(step, running))
    }

    fn play_step(&mut self, step: &Step, running: &mut Running) -> Result<(), Halt> {
        match step {
            Step::Text(text) => self.say(text, running),
            Step::Tool(tool) => self.tool(tool, running)?,
            Step::Do(works) => drop(self.do_all(works)?),
            Step::WhenWritable(steps) if self.call.writable() => self.play_steps(steps, running)?,
            Step::WhenWritable(_) | Step::Hang(false) => {}
            Step::ApiRetry(members) => self.emit(&self.ids.system("api_retry", members.clone())),
            Step::Hang(true) => drop(self.wait()?),
            Step::Background(task) => self.background(task),
            Step::Result(members) => running.members.extend(members.clone()),
            Step::Error(error) => self.api_error(error, running),
            Step::NoResult(silent) => running.silent = *silent,
            Step::Exit(code) => return Err(Halt::Exit(*code)),
            Step::Line(record) => self.emit(&self.values.fill_json(record)),
            Step::Raw(text) => self.print(&self.values.fill(text)),
            Step::Stderr(text) => drop(std::io::stderr().write_all(text.as_bytes())),
            Step::PlayRecording(path) => self.recorded(path, running)?,
        }
        Ok(())
    }

    /// The echo comes with the service's first answer; from then on the line counts as taken.
    fn echo(&mut self, running: &mut Running) {
        if running.echoed {
            return;
        }
        running.echoed = true;
        for line in &running.lines {
            self.emit(&self.ids.replay(&line.uuid, &line.content));
            self.session.take(&line.uuid);
        }
    }

    fn say(&mut self, text: &str, running: &mut Running) {
        self.echo(running);
        let title = running.title.take().map(|title| format!("TITLE: {title}\n\n")).unwrap_or_default();
        running.text = title + &self.values.fill(text);
        self.emit(&self.ids.assistant(json!({"type": "text", "text": running.text}), &running.uuids()));
    }

    fn tool(&mut self, tool: &Tool, running: &mut Running) -> Result<(), Halt> {
        self.echo(running);
        let id = tool.id.clone().unwrap_or_else(|| format!("toolu_{}", shapes::fresh().replace('-', "")));
        let input = self.values.fill_json(&tool.input);
        let block = json!({"type": "tool_use", "id": id, "name": tool.name, "input": input});
        self.emit(&self.ids.assistant(block, &running.uuids()));
        running.tool = Some(id.clone());
        let (output, failed) = self.do_all(&tool.work)?;
        running.tool = None;
        let output = tool.output.as_ref().filter(|_| !failed).map_or(output, |text| self.values.fill(text));
        self.emit(&self.ids.tool_result(&id, &output, tool.is_error || failed));
        self.absorb(running);
        Ok(())
    }

    /// Takes the lines that came while the tool worked into this turn; a command keeps a turn of its own.
    fn absorb(&mut self, running: &mut Running) {
        let (commands, lines): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|line| texts(&line.content) == [COMPACT]);
        self.queue.extend(commands);
        for line in lines {
            self.emit(&self.ids.replay(&line.uuid, &line.content));
            self.emit(&self.ids.lifecycle(&line.uuid, "started"));
            self.session.take(&line.uuid);
            running.lines.push(line);
        }
    }

    fn background(&mut self, task: &Background) {
        self.tasks.push(task.clone());
        self.emit_tasks();
        let members = json!({
            "task_id": task.task_id, "tool_use_id": task.task_id, "description": task.description, "is_backgrounded": true, "task_type": "local_bash",
        });
        self.emit(&self.ids.system("task_started", members));
        let done = Event::TaskDone(task.task_id.clone());
        match &task.until {
            Some(marker) => events::when_exists(self.marker(marker), done, self.sender.clone()),
            None => self.ended.push_back(task.task_id.clone()),
        }
    }

    fn emit_tasks(&mut self) {
        let one = |task: &Background| json!({"task_id": task.task_id, "task_type": "local_bash", "description": task.description});
        let tasks: Vec<Value> = self.tasks.iter().map(one).collect();
        self.emit(&self.ids.system("background_tasks_changed", json!({"tasks": tasks})));
    }

    fn api_error(&mut self, error: &ApiError, running: &mut Running) {
        self.echo(running);
        self.emit(&self.ids.synthetic(&error.error, &error.text, error.status));
        running.text = error.text.clone();
        running.error = Some(error.clone());
        running.used.clear();
    }

    fn recorded(&mut self, path: &str, running: &mut Running) -> Result<(), Halt> {
        running.silent = true;
        let text = std::fs::read_to_string(self.marker(path)).map_err(|_| Halt::Exit(1))?;
        let mut recording = Recording::new(&text, &self.ids.session);
        let mut waiting = running.lines.first().map(|line| line.uuid.clone());
        loop {
            match recording.next() {
                Next::Print(line) => self.print(&format!("{line}\n")),
                Next::NeedLine(recorded) => {
                    let uuid = match waiting.take() {
                        Some(uuid) => uuid,
                        None => self.next_line()?.uuid,
                    };
                    self.session.take(&uuid);
                    recording.stand_in(recorded, uuid);
                }
                Next::End { last_error } => {
                    self.last_error = last_error;
                    return Ok(());
                }
            }
        }
    }

    fn next_line(&mut self) -> Result<UserLine, Halt> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Ok(line);
            }
            if self.eof {
                return Err(Halt::Exit(u8::from(self.last_error)));
            }
            self.take_event()?;
        }
    }

    /// The ordinary end.
    fn finish(&mut self, running: Running) {
        if running.silent {
            return;
        }
        let uuids = running.uuids();
        for uuid in uuids.iter().skip(1) {
            self.emit(&self.ids.lifecycle(uuid, "completed"));
        }
        let mut members = json!({"result": running.text});
        if let Some(error) = &running.error {
            let reason = error.terminal_reason.as_deref().unwrap_or("api_error");
            shapes::merge(
                &mut members,
                json!({"is_error": true, "terminal_reason": reason, "api_error_status": error.status, "stop_reason": "stop_sequence"}),
            );
        }
        if let Some(origin) = &running.origin {
            members["origin"] = origin.clone();
        }
        let wanted = running.members.iter().map(|(name, value)| (name.clone(), self.values.fill_json(value)));
        shapes::merge(&mut members, Value::Object(wanted.collect()));
        let is_error = members["is_error"] == true;
        self.result(&running.used, &uuids, members);
        self.last_error = is_error;
        if let Some(first) = uuids.first() {
            let state = if is_error { "cancelled" } else { "completed" };
            self.emit(&self.ids.lifecycle(first, state));
        }
    }

    /// The end by SIGINT: what was under way is said to be refused, and nothing of the queue is played.
    fn interrupted(&mut self, mut running: Running) {
        self.echo(&mut running);
        let (text, reason) = match running.tool.take() {
            Some(id) => {
                self.emit(&self.ids.tool_result(&id, REJECTED, true));
                ("[Request interrupted by user for tool use]", "aborted_tools")
            }
            None => ("[Request interrupted by user]", "aborted_streaming"),
        };
        self.emit(&self.ids.interruption(text));
        let members = json!({
            "subtype": "error_during_execution", "is_error": true, "terminal_reason": reason, "stop_reason": null, "errors": ["[ede_diagnostic] interrupted"],
        });
        let uuids = running.uuids();
        self.result(&BTreeMap::new(), &uuids, members);
        self.last_error = false;
        let waiting: Vec<String> = self.queue.drain(..).map(|line| line.uuid).collect();
        for uuid in uuids.iter().chain(&waiting) {
            self.emit(&self.ids.lifecycle(uuid, "cancelled"));
        }
    }

    fn compact(&mut self, running: Running) -> Result<(), Halt> {
        let uuids = running.uuids();
        self.emit(&self.ids.system("status", json!({"status": "compacting"})));
        self.emit(&self.ids.system("status", json!({"status": null, "compact_result": "success"})));
        self.init(&uuids);
        let metadata = json!({"trigger": "manual", "pre_tokens": 7297, "post_tokens": 441});
        self.emit(&self.ids.system("compact_boundary", json!({"compact_metadata": metadata})));
        self.emit(&self.ids.replay(
            &shapes::fresh(),
            &json!("This session is being continued from a previous conversation."),
        ));
        for line in &running.lines {
            self.emit(&self.ids.replay(&line.uuid, &line.content));
            self.session.take(&line.uuid);
        }
        let members = json!({"result": "", "num_turns": 0, "local_command": "compact", "terminal_reason": null, "stop_reason": null});
        self.result(&running.used, &uuids, members);
        self.last_error = false;
        for uuid in &uuids {
            self.emit(&self.ids.lifecycle(uuid, "completed"));
        }
        Ok(())
    }

    fn result(&mut self, used: &BTreeMap<String, Counts>, uuids: &[String], members: Value) {
        self.session.add_usage(used);
        session::add(&mut self.used, used);
        let per_process = self.scenario.usage_per_process;
        let shown = if per_process { self.used.clone() } else { self.session.usage().clone() };
        let usage = shapes::Usage { shown: &shown, turn: used, with_difference: !per_process };
        let record = self.ids.result(self.results, &usage, uuids, members);
        self.results += 1;
        self.emit(&record);
    }
}

/// The texts of a line's content, which may be one plain text.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => {
            items.iter().filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
