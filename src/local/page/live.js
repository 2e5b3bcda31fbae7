// The box of a run: what it does while it works, what it did when it has ended.

import { cancelRun } from "./api.js";
import { button, el, note, set, setText } from "./dom.js";
import { compare, count, duration, ended, money, plural, reasonSentence, spent, stateWord, tokens } from "./format.js";

// Most steps shown at once.
const STEPS_MAX = 200;
// Letters by which an excerpt is the answer.
const SAME = 80;
const SIGNS = { queued: "\u25cb", running: "\u25cf", completed: "\u2713", failed: "\u2715", interrupted: "\u2715", cancelling: "\u25a0", cancelled: "\u25a0" };
const KINDS = { tool_call: "", subagent: "Agent", background_job: "In the background", status: "" };

const ticking = new Set();
setInterval(() => ticking.forEach((box) => box.tick()), 1000);

const stepsOf = (run) => Object.values(run.document?.steps ?? {}).sort((a, b) => compare(a.started_at, b.started_at));

// A run on the page.
export class RunBox {
  constructor(run) {
    this.nodes = new Map();
    this.allSteps = false;
    this.sign = el("span.sign", { "aria-hidden": "true" });
    this.state = el("span.run-state");
    this.model = el("span.quiet");
    this.time = el("span.quiet.time");
    this.stop = button("Stop", () => this.askStop(), { class: "stop" });
    this.line = el("p.status-line");
    this.why = el("p.why");
    this.excerpt = el("div.excerpt", { dir: "auto", tabindex: "0", label: "Text so far" });
    this.summary = el("summary");
    this.more = button("", () => this.showAllSteps(), { class: "plain" });
    this.list = el("ul.steps");
    this.frame = el("div.steps-frame", { tabindex: "0", label: "Steps" }, this.more, this.list);
    this.details = el("details", { open: !ended(run) }, this.summary, this.frame);
    this.context = el("meter", { min: 0, max: 100, low: 70, high: 90, optimum: 0 });
    this.contextText = el("span");
    this.numbers = el("span.numbers");
    this.retries = el("p.retries");
    const head = el("header", this.sign, this.state, this.model, this.time, this.stop);
    const foot = el("footer", el("label.context", this.contextText, this.context), this.numbers);
    this.element = el("section.run", head, this.line, this.retries, this.excerpt, this.details, this.why, foot);
    this.update(run);
    requestAnimationFrame(() => [this.excerpt, this.frame].forEach(toEnd));
  }

  // Shows the run as it is now; `answer`: the newest text it gave to the thread.
  update(run, answer = "") {
    const over = ended(run);
    if (over && this.run && !ended(this.run)) this.details.open = run.state === "failed";
    this.run = run;
    const document = run.document ?? {};
    set(this.element, { "data-state": run.state, label: `Run: ${stateWord(run.state)}` });
    setText(this.sign, SIGNS[run.state]);
    setText(this.state, stateWord(run.state));
    setText(this.model, document.model);
    set(this.stop, { hidden: over, disabled: run.state === "cancelling" });
    set(this.line, { hidden: over, text: over ? "" : statusLine(run) });
    set(this.why, { hidden: !over || !run.reason, text: reasonSentence(run.reason) });
    this.showExcerpt(document.last_text_excerpt ?? "", answer, !over && run.state !== "queued");
    this.showSteps(stepsOf(run));
    this.showNumbers(run, document.metrics ?? {});
    this.tick();
    if (over) ticking.delete(this);
    else ticking.add(this);
  }

  // The box has left the page.
  gone() {
    ticking.delete(this);
  }

  tick() {
    setText(this.time, this.run.started_at ? duration(spent(this.run)) : "");
    for (const { step, time } of this.nodes.values()) if (step.status === "running") setText(time, duration(spent(step)));
  }

  // Its place is kept from the start, so that nothing moves; what stands in the answer is not shown a second time.
  showExcerpt(text, answer, works) {
    const known = answer !== "" && answer.startsWith(text.slice(0, SAME));
    set(this.excerpt, { hidden: !works || known });
    atEnd(this.excerpt, () => setText(this.excerpt, text));
  }

  showSteps(steps) {
    set(this.details, { hidden: steps.length === 0 });
    if (steps.length === 0) return;
    const hidden = this.allSteps ? 0 : Math.max(0, steps.length - STEPS_MAX);
    set(this.more, { hidden: hidden === 0, text: `Show ${hidden} earlier steps` });
    atEnd(this.frame, () => steps.slice(hidden).forEach((step) => this.showStep(step)));
    if (!this.allSteps) for (const step of steps.slice(0, hidden)) this.dropStep(step.id);
    setText(this.summary, summaryOf(steps));
  }

  showStep(step) {
    let node = this.nodes.get(step.id);
    if (!node) {
      node = stepNode();
      this.nodes.set(step.id, node);
      const parent = step.parent_step_id && this.nodes.get(step.parent_step_id);
      (parent ? parent.children : this.list).append(node.element);
    }
    const known = node.step;
    node.step = step;
    if (known && known.status === step.status && known.title === step.title && known.finished_at === step.finished_at) return;
    set(node.element, { "data-state": step.status });
    const detail = Object.entries(step.detail ?? {}).map(([key, value]) => `${key}: ${value}`).join(", ");
    const texts = {
      sign: SIGNS[step.status],
      word: stateWord(step.status),
      name: [KINDS[step.kind], step.name.replaceAll("_", " ")].filter(Boolean).join(": "),
      title: step.title || detail,
      time: duration(spent(step)),
    };
    for (const [part, text] of Object.entries(texts)) setText(node[part], text);
  }

  dropStep(id) {
    const node = this.nodes.get(id);
    if (!node || node.children.childElementCount > 0) return;
    node.element.remove();
    this.nodes.delete(id);
  }

  showAllSteps() {
    this.allSteps = true;
    this.nodes.clear();
    this.list.replaceChildren();
    this.showSteps(stepsOf(this.run));
  }

  showNumbers(run, metrics) {
    const share = metrics.context_pct;
    set(this.context.parentElement, { hidden: share === undefined });
    if (share !== undefined) {
      this.context.value = share;
      setText(this.contextText, `Context ${share.toFixed(0)} %`);
    }
    const used = tokens(run);
    const parts = [
      used.all > 0 && `${count(used.all)} tokens (${count(used.fresh)} in, ${count(used.cached)} cached${used.out ? `, ${count(used.out)} out` : ""})`,
      money(run.costs) ?? (run.started_at && (ended(run) ? "cost unknown" : "cost at the end")),
      metrics.subagents > 0 && plural(metrics.subagents, "agent"),
      metrics.background_jobs > 0 && `${metrics.background_jobs} in the background`,
    ];
    setText(this.numbers, parts.filter(Boolean).join(" \u00b7 "));
    set(this.retries, { hidden: !metrics.api_retries, text: retriesText(metrics, ended(run)) });
  }

  async askStop() {
    set(this.stop, { disabled: true });
    try {
      await cancelRun(this.run.run_id);
    } catch (error) {
      note(error.message);
      set(this.stop, { disabled: this.run.state === "cancelling" });
    }
  }
}

// Changes a place whose end stays in view, unless somebody scrolled away from it.
function atEnd(place, change) {
  const end = place.scrollHeight - place.scrollTop - place.clientHeight < 30;
  change();
  if (end) toEnd(place);
}

const toEnd = (place) => (place.scrollTop = place.scrollHeight);

function statusLine(run) {
  const said = run.document?.status_line;
  if (run.state === "cancelling") return "Stopping the work";
  if (run.state === "queued") return said ? said.replace(/^queued \((\d+) ahead\)$/, "$1 ahead") : "Waits for its turn";
  if (said) return said;
  const last = stepsOf(run).findLast((step) => step.status === "running");
  return last ? [last.name, last.title].filter(Boolean).join(": ") : "Thinking";
}

function retriesText({ api_retries: all, last_api_retry: last }, over) {
  const times = `The service was asked again ${all === 1 ? "once" : `${all} times`}`;
  if (!last || over) return `${times}.`;
  const why = last.error_status ? `${last.error}, ${last.error_status}` : last.error;
  return `${times}; last: try ${last.attempt} of ${last.max_retries} after ${duration(last.retry_delay_ms)} (${why}).`;
}

function summaryOf(steps) {
  const some = (status, word) => {
    const { length } = steps.filter((step) => step.status === status);
    return length > 0 && `${length} ${word}`;
  };
  return [plural(steps.length, "step"), some("running", "at work"), some("failed", "failed")].filter(Boolean).join(", ");
}

function stepNode() {
  const parts = {
    sign: el("span.sign", { "aria-hidden": "true" }),
    word: el("span.unseen"),
    name: el("strong"),
    title: el("span.step-title", { dir: "auto" }),
    time: el("span.time.quiet"),
  };
  const children = el("ul");
  return { ...parts, children, element: el("li", el("div.step", Object.values(parts)), children) };
}
