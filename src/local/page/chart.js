// What a thread costs: a bar for each run, told apart by pattern and by words, and the same as a table.

import { dialog, el, svg } from "./dom.js";
import { clock, count, duration, money, plural, spent, stateWord, tokens } from "./format.js";
import { runsOf } from "./store.js";

const WIDTH_MAX = 600;
const HEIGHT = 150;
const BASE = 124;
const BAR_MAX = 44;
const RUNS_MAX = 40;

// Tokens and money of a thread as a short text.
export function threadCost(thread) {
  const runs = runsOf(thread);
  const all = runs.reduce((sum, run) => sum + tokens(run).all, 0);
  const paid = money(runs.flatMap((run) => run.costs ?? []));
  return [all > 0 && `${count(all)} tokens`, paid].filter(Boolean).join(" \u00b7 ");
}

// Shows the costs of a thread.
export function showCosts(thread) {
  const runs = runsOf(thread);
  if (runs.length === 0) return dialog("Costs of this thread", el("p", "Nothing has run here yet."));
  const unknown = runs.filter((run) => run.started_at && !run.costs?.length).length;
  const total = el("p.lead", threadCost(thread) || "No tokens were counted.");
  const missing = unknown > 0 && el("p.quiet", `The cost of ${plural(unknown, "run")} is not known (yet).`);
  return dialog("Costs of this thread", total, missing, drawing(runs.slice(-RUNS_MAX)), legend(), table(runs));
}

// Bars over the runs, oldest first: fresh input, cached input and output on top of each other.
function drawing(runs) {
  const width = Math.min(WIDTH_MAX, innerWidth - 76);
  const most = Math.max(1, ...runs.map((run) => tokens(run).all));
  const step = width / runs.length;
  const thick = Math.min(BAR_MAX, step * 0.7);
  const bars = runs.map((run, index) => bar(run, index * step + (step - thick) / 2, thick, most));
  const line = svg("line.axis", { x1: 0, x2: width, y1: BASE, y2: BASE });
  const label = `Tokens of ${runs.length} runs, at most ${count(most)} in one; numbers below`;
  return svg("svg.chart", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", label }, patterns(), ...bars, line);
}

function bar(run, x, width, most) {
  const used = tokens(run);
  const group = svg("g");
  let y = BASE;
  for (const part of ["cached", "fresh", "out"]) {
    const height = (used[part] / most) * (BASE - 20);
    y -= height;
    group.append(svg(`rect.${part}`, { x, y, width, height }));
  }
  const paid = money(run.costs);
  const words = (y, text) => svg("text", { x: x + width / 2, y, "text-anchor": "middle" }, text);
  group.append(svg("title", `${clock(run.created_at)}: ${count(used.all)} tokens, ${paid ?? "cost unknown"}`));
  if (width > 24) group.append(words(y - 4, count(used.all)), words(BASE + 16, paid ?? "?"));
  return group;
}

function patterns() {
  const pattern = (id, angle, mark) =>
    svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
      svg("rect.ground", { width: 6, height: 6 }), mark);
  return svg("defs", pattern("stripes", 45, svg("rect.mark", { width: 2, height: 6 })),
    pattern("dots", 0, svg("circle.mark", { cx: 2, cy: 2, r: 1.3 })));
}

function legend() {
  const item = (part, text) => el("li", svg("svg.chart.key", { "aria-hidden": "true" }, svg(`rect.${part}`, { width: 14, height: 14 })), text);
  return el("ul.legend", item("fresh", "read"), item("cached", "read again or kept"), item("out", "written"));
}

function table(runs) {
  const heads = ["Begun", "State", "Time", "Read", "Cached", "Written", "Cost"];
  const head = el("tr", heads.map((text, index) => el("th", { scope: "col", class: index > 1 && "right" }, text)));
  return el("div.table", { tabindex: "0" }, el("table", el("thead", head), el("tbody", runs.map(row))));
}

function row(run) {
  const used = tokens(run);
  const cells = [clock(run.created_at), stateWord(run.state), run.started_at ? duration(spent(run)) : "", count(used.fresh), count(used.cached), count(used.out), money(run.costs) ?? "unknown"];
  return el("tr", cells.map((text, index) => el("td", { class: index > 1 && "right" }, text)));
}
