// Projects with their threads, at the side; a drawer on a phone.

import * as api from "./api.js";
import { byId, el, note, set } from "./dom.js";
import { clock } from "./format.js";
import { showProject } from "./panels.js";
import { busy, on, putThreads, store, threadsOf } from "./store.js";

const nav = byId("nav");
const menu = byId("menu");
const list = byId("projects");

const shown = { thread: undefined, channel: undefined, timer: undefined };

export function startNav() {
  on("projects", later);
  on("threads", later);
  on("runs", later);
  menu.addEventListener("click", () => openDrawer(!nav.classList.contains("open")));
  byId("shade").addEventListener("click", () => openDrawer(false));
  nav.addEventListener("keydown", (event) => event.key === "Escape" && openDrawer(false));
}

/** Marks what is shown in the main part. */
export function markShown(channel, thread) {
  Object.assign(shown, { channel, thread });
  draw();
  openDrawer(false);
}

/** The address of the thread before (-1) or behind (1) the one shown. */
export function neighbour(step) {
  const all = [...store.projects.keys()].flatMap((channel) => threadsOf(channel)).map((thread) => thread.id);
  const next = all[all.indexOf(shown.thread) + step];
  return next && `#/t/${next}`;
}

function openDrawer(open) {
  const was = nav.classList.contains("open");
  nav.classList.toggle("open", open);
  set(menu, { "aria-expanded": String(open) });
  if (open) nav.querySelector("a, button")?.focus();
  else if (was && nav.contains(document.activeElement)) menu.focus();
}

/** Many changes at once are drawn once. */
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
  const settings = el("button", { type: "button", class: "plain project-state", "data-key": `s${channel}`, title: "Permissions and state",
    "aria-label": `Settings of ${project.name}: ${state}`, "data-ready": String(project.ready), text: state, click: () => showProject(channel) });
  const fresh = el("a", { class: "new", href: `#/p/${channel}`, "data-key": `p${channel}`, text: "+ New thread",
    "aria-label": `New thread in ${project.name}`, "aria-current": !shown.thread && shown.channel === channel ? "page" : null });
  const threads = el("ul", {}, threadsOf(channel).map((thread) => el("li", {}, link(thread))));
  const more = store.cursors.get(channel) && el("button", { type: "button", class: "plain", text: "Older threads", click: () => loadMore(channel) });
  return el("section", { "aria-label": project.name }, el("header", {}, el("h2", {}, el("bdi", { text: project.name })), settings), fresh, threads, more);
}

function link(thread) {
  const made = el("a", { href: `#/t/${thread.id}`, "data-key": thread.id, "aria-current": thread.id === shown.thread ? "page" : null });
  const works = busy(thread);
  set(made, { class: works ? "working" : null });
  made.append(el("bdi", { class: "title", text: titleOf(thread) }),
    works ? el("span", { class: "quiet", text: "working" }) : el("time", { class: "quiet", datetime: thread.updated_at, text: clock(thread.updated_at) }));
  return made;
}

/** A thread's title; one without is named by its beginning. */
export const titleOf = (thread) => thread?.title || (thread ? `Thread of ${clock(thread.created_at)}` : "New thread");

async function loadMore(channel) {
  try {
    putThreads(channel, await api.threads(channel, store.cursors.get(channel)));
  } catch (error) {
    note(error.message);
  }
}
