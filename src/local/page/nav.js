// Projects with their threads, at the side; a drawer on a phone.

import * as api from "./api.js";
import { button, byId, el, noted, plainName, set } from "./dom.js";
import { clock } from "./format.js";
import { showProject } from "./panels.js";
import { busy, on, putThreads, store, threadsOf } from "./store.js";

const nav = byId("nav");
const menu = byId("menu");
const list = byId("projects");

const shown = {};

export function startNav() {
  on("projects threads runs", later);
  set(menu, { click: () => openDrawer(!nav.classList.contains("open")) });
  set(byId("shade"), { click: () => openDrawer(false) });
  set(nav, { keydown: (event) => event.key === "Escape" && openDrawer(false) });
}

// Marks what is shown in the main part.
export function markShown(channel, thread) {
  Object.assign(shown, { channel, thread });
  draw();
  openDrawer(false);
}

// The address of the thread before (-1) or behind (1) the one shown.
export function neighbour(step) {
  const all = [...store.projects.keys()].flatMap(threadsOf).map((thread) => thread.id);
  const next = all[all.indexOf(shown.thread) + step];
  return next ? `#/t/${next}` : location.hash;
}

function openDrawer(open) {
  const was = nav.classList.contains("open");
  nav.classList.toggle("open", open);
  set(menu, { "aria-expanded": String(open) });
  if (open) nav.querySelector("a, button")?.focus();
  else if (was && nav.contains(document.activeElement)) menu.focus();
}

// Many changes at once are drawn once.
function later() {
  shown.timer ??= requestAnimationFrame(() => {
    shown.timer = undefined;
    draw();
  });
}

function draw() {
  const focused = document.activeElement?.dataset?.key;
  list.replaceChildren(...[...store.projects.values()].map(section));
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function section(project) {
  const channel = project.channel_id;
  const state = [project.ready ? "ready" : "not ready", project.workspace_write ? "writing on" : "writing off"].join(", ");
  const settings = button(state, () => showProject(channel), { class: "plain project-state", title: "Permissions and state",
    label: `Settings of ${project.name}: ${state}`, "data-key": `s${channel}`, "data-ready": String(project.ready) });
  const fresh = el("a.new", { href: `#/p/${channel}`, "data-key": `p${channel}`, label: `New thread in ${project.name}`,
    "aria-current": !shown.thread && shown.channel === channel && "page" }, "+ New thread");
  const threads = el("ul", threadsOf(channel).map((thread) => el("li", link(thread))));
  const more = store.cursors.get(channel) && button("Older threads", () => noted(loadMore(channel)), { class: "plain" });
  return el("section", { label: project.name }, el("header", el("h2", el("bdi", project.name)), settings), fresh, threads, more);
}

function link(thread) {
  const works = busy(thread);
  return el(works ? "a.working" : "a", { href: `#/t/${thread.id}`, "data-key": thread.id, "aria-current": thread.id === shown.thread && "page" }, el("bdi.title", titleOf(thread)),
    works ? el("span.quiet", "working") : el("time.quiet", { datetime: thread.updated_at }, clock(thread.updated_at)));
}

// A thread's title; one without is named by its beginning.
export const titleOf = (thread) => (thread ? plainName(thread.title) || `Thread of ${clock(thread.created_at)}` : "New thread");

const loadMore = async (channel) => putThreads(channel, await api.threads(channel, store.cursors.get(channel)));
