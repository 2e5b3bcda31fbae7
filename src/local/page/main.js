// Puts everything together: the first visit, the address of what is shown, the head of the thread, the keys.

import * as api from "./api.js";
import { follow, lookNow } from "./changes.js";
import { showCosts, threadCost } from "./chart.js";
import { edit, focusComposer, startComposer, writeTo } from "./composer.js";
import { byId, el, note, noted, set, setText } from "./dom.js";
import { compare } from "./format.js";
import { markShown, neighbour, startNav, titleOf } from "./nav.js";
import { resume } from "./outbox.js";
import { showKeys, showProject, showRunner, startPanels } from "./panels.js";
import { busy, on, putThread, setLink, store, threadsOf } from "./store.js";
import { openThread, startThread, stopWork } from "./thread.js";

const banner = byId("banner");
// Is out of the page while its title is being changed.
const heading = byId("title");
const shown = {};
// Tells the other tabs that the session is new.
const tabs = new BroadcastChannel("page");

// What stands behind the `#`: a secret on the first visit, else what is shown.
function route() {
  const [, kind, id] = /^#\/([tp])\/([0-9a-f-]{36})$/.exec(location.hash) ?? [];
  return { kind, id, secret: /^#([^/].{20,})/.exec(location.hash)?.[1] };
}

// Trades the secret for the session and takes it out of the address.
async function signIn(secret) {
  history.replaceState(null, "", shown.thread ? `#/t/${shown.thread}` : location.pathname);
  try {
    await api.openSession(secret);
    tabs.postMessage("session");
    lookNow();
  } catch (error) {
    if (api.passing(error)) return setTimeout(() => signIn(secret), 1000);
    setLink("expired");
    note("This address is not the newest. Copy it anew from the terminal.");
  }
}

async function show() {
  const { kind, id, secret } = route();
  if (secret) return signIn(secret);
  shown.endRename?.();
  const thread = kind === "t" ? id : undefined;
  const same = thread === shown.thread && (!thread || store.messages.get(thread)?.loaded);
  shown.thread = thread;
  try {
    if (!same || !thread) await openThread(thread);
  } catch (error) {
    if (error.status === 404) location.hash = "";
    else note(error.message);
  }
  if (shown.thread !== thread) return;
  const { channel_id: channel = id } = store.threads.get(thread) ?? {};
  shown.channel = store.projects.has(channel) ? channel : store.projects.keys().next().value;
  writeTo(shown.channel, shown.thread);
  markShown(shown.channel, shown.thread);
  drawHead();
}

// Without an address the newest thread is shown.
function firstAddress() {
  if (route().kind) return;
  const newest = [...store.projects.keys()].flatMap(threadsOf).sort((a, b) => compare(b.updated_at, a.updated_at))[0];
  const first = store.projects.keys().next().value;
  const address = newest ? `#/t/${newest.id}` : first ? `#/p/${first}` : "";
  if (address) history.replaceState(null, "", address);
}

function drawHead() {
  const thread = store.threads.get(shown.thread);
  const project = store.projects.get(shown.channel);
  setText(heading, titleOf(thread));
  set(byId("rename"), { hidden: !thread });
  setText(byId("project"), project?.name);
  const writing = Boolean(project?.workspace_write);
  set(byId("write"), { hidden: !project, "data-on": String(writing), text: writing ? "Writing on" : "Writing off" });
  set(byId("cost"), { hidden: !thread, text: (thread && threadCost(thread.id)) || "Costs" });
  const works = [...store.threads.values()].some((one) => busy(one));
  document.title = `${works ? "\u25cf " : ""}${titleOf(thread)}`;
  set(byId("welcome"), { hidden: Boolean(thread) || store.link === "loading" });
}

const BANNERS = {
  behind: "The server cannot be reached. What you see may be out of date; it goes on by itself.",
  expired: "This page's session has ended, or the server was started again. The terminal shows a new address: open it in this browser, or paste it here. Nothing is lost.",
};

function drawLink(link) {
  set(banner, { hidden: !BANNERS[link] });
  setText(banner.querySelector("p"), BANNERS[link]);
  set(byId("paste-address"), { hidden: link !== "expired" });
  set(document.body, { "data-link": link });
  drawHead();
}

// The title becomes a field where it stands.
function rename() {
  const thread = store.threads.get(shown.thread);
  if (!thread) return;
  const end = async (keep = true) => {
    if (!shown.endRename) return;
    shown.endRename = undefined;
    field.replaceWith(heading);
    byId("rename").focus();
    const title = field.value.trim();
    if (!keep || title === "" || title === thread.title) return;
    const known = store.threads.get(thread.id);
    const renamed = await noted(api.setTitle(known, title));
    if (renamed) putThread({ ...known, ...renamed });
  };
  const keydown = (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    // Else the Enter key would press the button that is focused now.
    event.preventDefault();
    end(event.key === "Enter");
  };
  const field = el("input", { value: thread.title, maxlength: 200, label: "Title of the thread", keydown, blur: () => end() });
  shown.endRename = end;
  heading.replaceWith(field);
  field.focus();
  field.select();
}

const KEYS = {
  KeyN: () => (location.hash = `#/p/${shown.channel}`),
  KeyW: focusComposer,
  KeyS: stopWork,
  KeyC: () => shown.thread && showCosts(shown.thread),
  KeyR: showRunner,
  ArrowUp: () => (location.hash = neighbour(-1)),
  ArrowDown: () => (location.hash = neighbour(1)),
};

function startKeys() {
  document.addEventListener("keydown", (event) => {
    const plainAlt = event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!plainAlt || !KEYS[event.code] || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    KEYS[event.code]();
  });
}

function pasteAddress(event) {
  event.preventDefault();
  const field = byId("address");
  const secret = field.value.trim().split("#").at(-1);
  field.value = "";
  if (secret) signIn(secret);
}

function start() {
  startNav();
  startPanels();
  startKeys();
  startThread(edit);
  startComposer((thread) => (location.hash = `#/t/${thread}`));
  on("link", drawLink);
  on("threads projects runs", drawHead);
  const clicks = { rename, cost: KEYS.KeyC, write: () => showProject(shown.channel), keys: showKeys, skip: focusComposer };
  for (const [id, click] of Object.entries(clicks)) set(byId(id), { click });
  set(byId("paste-address"), { submit: pasteAddress });
  window.addEventListener("hashchange", show);
  tabs.addEventListener("message", lookNow);
  api.session.lost = () => setLink("expired");
}

async function begin() {
  start();
  const { secret } = route();
  if (secret) await signIn(secret);
  let first = true;
  await follow(async () => {
    firstAddress();
    await show();
    setLink("live");
    if (first) resume();
    first = false;
  });
}

begin();
