// The runner's state and a project's permissions: what is so, and what to do about it.

import * as api from "./api.js";
import { button, byId, dialog, el, note, set, setText } from "./dom.js";
import { duration } from "./format.js";
import { on, putProject, store } from "./store.js";

// The version of Claude Code that this program was made with; a test compares it with the runner's own.
const PINNED_RUNTIME = "2.1.332";

const REASONS = {
  runtime_unreachable: ["Claude Code cannot be started.", "Check that it is installed and that the configured path leads to it."],
  runtime_version_unsupported: ["This version of Claude Code is too old.", "Update it; the runner notices by itself."],
  runtime_version_untested: ["This version of Claude Code is newer or older than the one the runner was tested with.", "It mostly works; if it does not, install the tested version."],
  gateway_superseded: ["Another runner took over the connection.", "Stop one of the two."],
  host_as_root: ["The runner may do everything, and runs as root.", "Start it as an ordinary user."],
};

const WORDS = {
  chat: "talk only, no tools",
  scoped: "named tools only",
  host: "everything its account may do",
  organization: "the API key",
  personal: "the login",
};

const pill = byId("runner");

export function startPanels() {
  set(pill, { click: showRunner });
  on("runner link", drawPill);
}

function runnerWord() {
  const state = store.runner;
  if (!state) return ["unknown", "Runner unknown"];
  if (!state.reachable) return ["offline", "Runner offline"];
  if (state.heartbeat.state === "degraded") return ["degraded", "Runner degraded"];
  return ["online", "Runner online"];
}

function drawPill() {
  const [state, word] = runnerWord();
  set(pill, { "data-state": state });
  setText(pill.lastElementChild, word);
}

// How the runner is.
export function showRunner() {
  const { body, box } = dialog("Runner");
  const stop = on("runner", () => drawRunner(body));
  box.addEventListener("close", stop);
  drawRunner(body);
}

function drawRunner(body) {
  const state = store.runner;
  const beat = state?.heartbeat;
  const [, word] = runnerWord();
  const parts = [el("p.lead", `${word}.`)];
  if (!beat) parts.push(el("p", "No runner has reported yet. Messages wait until one does."));
  else if (!state.reachable) parts.push(el("p", "It does not report any more. Messages wait; start the runner again."));
  for (const reason of beat?.details.degraded_reasons ?? []) parts.push(reasonElement(reason));
  if (beat) parts.push(facts(state, beat), readiness(beat));
  body.replaceChildren(...parts);
}

function reasonElement(reason) {
  const [what, todo] = REASONS[reason] ?? [`Reason: ${reason}.`, "The runner's log says more."];
  return el("p.reason", el("strong", what), ` ${todo}`);
}

function facts(state, beat) {
  const found = beat.runtime_version ?? "not found";
  const versions = found + (found === PINNED_RUNTIME ? " (the tested one)" : `, tested with ${PINNED_RUNTIME}`);
  const age = (state.age_ms ?? 0) + Date.now() - state.seen;
  return list([
    ["Claude Code", versions],
    ["Runner", `${beat.details.adapter.name} ${beat.details.adapter.version}`],
    ["Working runs", String(beat.details.active_runs)],
    ["May do", WORDS[beat.reported_tool_class]],
    ["Who pays", beat.billing_modes_supported?.map((mode) => WORDS[mode]).join(", ") || "unknown"],
    ["Last report", `${duration(age)} ago`],
  ]);
}

function readiness(beat) {
  const rows = [...store.projects.values()].map((project) => {
    const ready = beat.project_readiness.find((row) => row.channel_id === project.channel_id)?.ready;
    return [project.name, ready ? "ready" : "not ready: its directory is missing, or it is no Git working tree"];
  });
  return el("div", el("h3", "Projects"), list(rows));
}

const list = (rows) => el("dl", rows.flatMap(([name, value]) => [el("dt", name), el("dd", value)]));

// Permissions of a project.
export function showProject(channel) {
  const { body, box } = dialog(`Project ${store.projects.get(channel)?.name ?? ""}`);
  box.addEventListener("close", on("projects", draw));
  const write = toggle("Turns may change files of the project", "Off: answers and result files come all the same, the project stays as it is.", "workspace_write");
  const trust = toggle("Use the project's own settings", "Its hooks, tools and instructions for Claude Code are loaded. Only for projects you trust.", "trust_project_settings");
  const revision = el("p.quiet", { id: "revision" });
  const ready = el("p");
  body.append(ready, write.element, trust.element, revision);
  draw();

  function draw() {
    const project = store.projects.get(channel);
    if (!project) return;
    setText(ready, project.ready ? "The runner is ready to work here." : "The runner is not ready here: the directory is missing, it is no Git working tree, or the runner is offline. Messages are taken all the same.");
    write.show(project.workspace_write);
    trust.show(project.trust_project_settings);
    setText(revision, `Revision ${project.grant_revision} of the permissions. A run takes the ones of its start.`);
  }

  function toggle(name, about, member) {
    const knob = el("input", { type: "checkbox", role: "switch", change: () => change(knob, member) });
    const element = el("label.switch", knob, el("strong", name), el("span.quiet", about));
    return { element, show: (on) => (knob.checked = on) };
  }

  async function change(knob, member) {
    const project = store.projects.get(channel);
    set(knob, { disabled: true });
    try {
      putProject(await api.setGrant(project, { [member]: !project[member] }));
    } catch (error) {
      note(error.message);
      putProject(error.problem.current ?? project);
    } finally {
      set(knob, { disabled: false });
      knob.focus();
    }
  }
}

// Every key of the page.
export function showKeys() {
  const keys = {
    Enter: "send the message",
    "Shift+Enter": "begin a new line",
    "Alt+N": "new thread",
    "Alt+Up, Alt+Down": "previous and next thread",
    "Alt+W": "write: go to the message field",
    "Alt+S": "stop the work of this thread",
    "Alt+C": "costs of this thread",
    "Alt+R": "state of the runner",
    Escape: "close what is open",
  };
  dialog("Keys", list(Object.entries(keys)));
}
