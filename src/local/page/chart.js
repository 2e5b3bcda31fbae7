// What a thread costs: a bar for each run, told apart by pattern and by words, and the same as a table.

import { dialog, el, svg } from "./dom.js";
import { clock, count, money, spent, stateWord, duration, tokens } from "./format.js";
import { runsOf } from "./store.js";

const WIDTH_MAX = 600;
const HEIGHT = 150;
const LEFT = 4;
const BASE = 124;
const BAR_MAX = 44;
const RUNS_MAX = 40;

/** Tokens and money of a thread as a short text. */
export function threadCost(thread) {
  const runs = runsOf(thread);
  const all = runs.reduce((sum, run) => sum + tokens(run).all, 0);
  const paid = money(runs.flatMap((run) => run.costs ?? []));
  return [all > 0 && `${count(all)} tokens`, paid].filter(Boolean).join(" \u00b7 ");
}

/** Shows the costs of a thread. */
export function showCosts(thread) {
  const runs = runsOf(thread);
  if (runs.length === 0) {
    dialog("Costs of this thread", el("p", { text: "Nothing has run here yet." }));
    return;
  }
  const unknown = runs.filter((run) => run.started_at && !run.costs?.length).length;
  const total = el("p", { class: "lead", text: threadCost(thread) || "No tokens were counted." });
  const missing = unknown > 0 && el("p", { class: "quiet", text: `The cost of ${unknown} ${unknown === 1 ? "run" : "runs"} is not known (yet).` });
  dialog("Costs of this thread", total, missing, drawing(runs.slice(-RUNS_MAX)), legend(), table(runs));
}

/** Bars over the runs, oldest first: fresh input, cached input and output on top of each other. */
function drawing(runs) {
  const width = Math.min(WIDTH_MAX, innerWidth - 76);
  const most = Math.max(1, ...runs.map((run) => tokens(run).all));
  const step = (width - LEFT) / runs.length;
  const thick = Math.min(BAR_MAX, step * 0.7);
  const bars = runs.map((run, index) => bar(run, LEFT + index * step + (step - thick) / 2, thick, most));
  const line = svg("line", { x1: 0, x2: width, y1: BASE, y2: BASE, class: "axis" });
  const label = `Tokens of ${runs.length} runs, at most ${count(most)} in one; the table below has the numbers`;
  return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label }, patterns(), ...bars, line);
}

function bar(run, x, width, most) {
  const used = tokens(run);
  const group = svg("g");
  let y = BASE;
  for (const part of ["cached", "fresh", "out"]) {
    const height = (used[part] / most) * (BASE - 20);
    y -= height;
    group.append(svg("rect", { x, y, width, height, class: part }));
  }
  const title = svg("title");
  title.textContent = `${clock(run.created_at)}: ${count(used.all)} tokens, ${money(run.costs) ?? "cost unknown"}`;
  const paid = money(run.costs);
  group.append(title);
  if (width > 24) {
    const top = svg("text", { x: x + width / 2, y: y - 4, "text-anchor": "middle" });
    top.textContent = count(used.all);
    const under = svg("text", { x: x + width / 2, y: BASE + 16, "text-anchor": "middle" });
    under.textContent = paid ?? "?";
    group.append(top, under);
  }
  return group;
}

function patterns() {
  const stripes = svg("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 6, height: 6, class: "ground" }), svg("rect", { width: 2, height: 6, class: "mark" }));
  const dots = svg("pattern", { id: "dots", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    svg("rect", { width: 6, height: 6, class: "ground" }), svg("circle", { cx: 2, cy: 2, r: 1.3, class: "mark" }));
  return svg("defs", {}, stripes, dots);
}

function legend() {
  const item = (part, text) => el("li", {}, svg("svg", { viewBox: "0 0 14 14", class: "chart key", "aria-hidden": "true" }, svg("rect", { width: 14, height: 14, class: part })), text);
  return el("ul", { class: "legend" }, item("fresh", "read"), item("cached", "read again or kept"), item("out", "written"));
}

function table(runs) {
  const heads = ["Begun", "State", "Time", "Read", "Cached", "Written", "Cost"];
  const head = el("tr", {}, heads.map((text, index) => el("th", { scope: "col", text, class: index > 1 ? "right" : null })));
  return el("div", { class: "table", tabindex: "0" }, el("table", {}, el("thead", {}, head), el("tbody", {}, runs.map(row))));
}

function row(run) {
  const used = tokens(run);
  const cells = [clock(run.created_at), stateWord(run.state), run.started_at ? duration(spent(run)) : "", count(used.fresh), count(used.cached), count(used.out), money(run.costs) ?? "unknown"];
  return el("tr", {}, cells.map((text, index) => el("td", { text, class: index > 1 ? "right" : null })));
}
