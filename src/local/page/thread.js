// A thread: messages and runs in their order, kept at the end while one reads there, older ones when one scrolls up.

import * as api from "./api.js";
import { announce, byId, el, noted, set } from "./dom.js";
import { ended, followupWord, stateWord } from "./format.js";
import { RunBox } from "./live.js";
import { messageElement, pendingElement } from "./message.js";
import { deliver, drop, onOutbox, waitingIn } from "./outbox.js";
import { beginMessages, messagesOf, oldestSeq, on, putMessages, putRuns, putThreads, runsOf, store } from "./store.js";

// So near to the end one reads there, pixels.
const NEAR = 120;
// So near to the beginning older messages are loaded, pixels.
const EARLY = 400;

const scroll = byId("scroll");
const list = byId("messages");
const older = byId("older");

const view = { items: new Map(), boxes: new Map(), pinned: true, loading: false };

// `edit` gets the text of a message that was taken back.
export function startThread(edit) {
  view.edit = edit;
  on("messages", ({ thread, message, fresh }) => thread === view.thread && arrived(message, fresh));
  on("runs", ({ thread, run, before }) => thread === view.thread && ran(run, before));
  onOutbox((thread) => thread === view.thread && draw());
  set(older, { click: loadOlder });
  scroll.onscroll = () => {
    view.pinned = atEnd();
    lookOlder();
  };
  const sizes = new ResizeObserver(keepEnd);
  [list, scroll].forEach((place) => sizes.observe(place));
}

// Shows a thread; without one an empty place for a new one.
export async function openThread(id) {
  view.boxes.forEach((box) => box.gone());
  Object.assign(view, { thread: id, items: new Map(), boxes: new Map(), pinned: true });
  list.replaceChildren();
  set(older, { hidden: true });
  if (!id) return;
  if (store.messages.get(id)?.loaded) return draw();
  set(list, { "aria-busy": "true" });
  beginMessages(id);
  try {
    const [page, runs] = await Promise.all([api.messages(id), api.runs(id)]);
    putRuns(id, runs.runs);
    putMessages(id, page);
    if (!store.threads.has(id)) await stranger(id);
  } finally {
    set(list, { "aria-busy": false });
  }
}

// A thread beyond the first pages of the lists: the lists are read on until it shows.
async function stranger(id) {
  for (const [channel, start] of [...store.cursors]) {
    for (let cursor = start; cursor && !store.threads.has(id); cursor = store.cursors.get(channel)) {
      putThreads(channel, await api.threads(channel, cursor));
    }
  }
}

// Near the beginning the page before is loaded, as long as one stays there.
function lookOlder() {
  if (scroll.scrollTop < EARLY) loadOlder();
}

async function loadOlder() {
  const { thread } = view;
  if (!thread || view.loading || !store.messages.get(thread)?.more) return;
  view.loading = true;
  const page = await noted(api.messages(thread, oldestSeq(thread), 100));
  if (page) {
    const fromEnd = scroll.scrollHeight - scroll.scrollTop;
    putMessages(thread, page);
    if (thread === view.thread) scroll.scrollTop = scroll.scrollHeight - fromEnd;
    queueMicrotask(lookOlder);
  }
  view.loading = false;
}

function arrived(message, fresh) {
  if (fresh && message.author.kind === "agent") announce(`Answer from ${message.author.display_name}`);
  draw();
}

function ran(run, before) {
  if (!run) return draw();
  if (before && before.state !== run.state) announce(stateWord(run.state));
  const box = view.boxes.get(run.run_id);
  if (!box || (before && ended(before) !== ended(run))) draw();
  else box.update(run, answerOf(run));
  showFollowups(run);
}

// Puts everything in its order; what is there already stays the same element.
function draw() {
  const wanted = order();
  const gone = new Map(view.items);
  let at = list.firstElementChild;
  for (const { key, make } of wanted) {
    gone.delete(key);
    let item = view.items.get(key);
    if (!item) {
      item = el("li", make());
      view.items.set(key, item);
    }
    if (item === at) at = at.nextElementSibling;
    else list.insertBefore(item, at);
  }
  for (const [key, item] of gone) {
    item.remove();
    view.items.delete(key);
    view.boxes.get(key)?.gone();
    view.boxes.delete(key);
  }
  for (const run of runsOf(view.thread)) {
    const box = view.boxes.get(run.run_id);
    if (box && (box.run !== run || !ended(run))) box.update(run, answerOf(run));
    showFollowups(run);
  }
  set(older, { hidden: !store.messages.get(view.thread)?.more });
  keepEnd();
  lookOlder();
}

// Messages by position; an ended run behind its last message, a living one at the end, then what is not sent yet.
function order() {
  const messages = messagesOf(view.thread);
  const runs = runsOf(view.thread);
  const last = new Map(messages.map((message) => [message.run_id, message.message_id]));
  const behind = Map.groupBy(runs.filter(ended), (run) => last.get(run.run_id));
  const wanted = [];
  for (const message of messages) {
    wanted.push({ key: message.message_id, make: () => messageElement(message) });
    for (const run of behind.get(message.message_id) ?? []) wanted.push(boxEntry(run));
  }
  for (const run of runs.filter((run) => !ended(run))) wanted.push(boxEntry(run));
  for (const entry of waitingIn(view.thread)) {
    const state = entry.problem ? "problem" : entry.waiting ? "waiting" : "sending";
    const key = `${entry.message.client_msg_id} ${state}`;
    wanted.push({ key, make: () => pendingElement(entry, () => deliver(entry), () => takeBack(entry)) });
  }
  return wanted;
}

function takeBack(entry) {
  drop(entry);
  view.edit(entry.message.content_md);
}

function showFollowups(run) {
  for (const { message_id: id, state } of run.followups) {
    const mark = view.items.get(id)?.querySelector(".followup");
    if (mark) set(mark, { "data-state": state, text: followupWord(state) });
  }
}

// The newest text that a run gave to the thread.
function answerOf(run) {
  const given = messagesOf(view.thread).filter((one) => one.run_id === run.run_id && one.author.kind === "agent");
  return given.at(-1)?.content_md ?? "";
}

function boxEntry(run) {
  const make = () => {
    const box = new RunBox(run);
    view.boxes.set(run.run_id, box);
    return box.element;
  };
  return { key: run.run_id, make };
}

const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;

function keepEnd() {
  if (view.pinned) scroll.scrollTop = scroll.scrollHeight;
}

// Stops what works in the thread that is shown.
export function stopWork() {
  const run = runsOf(view.thread).find((one) => !ended(one));
  if (run) view.boxes.get(run.run_id)?.askStop();
}
