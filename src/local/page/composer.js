// Where messages are written. Every thread keeps its own draft and files; a draft survives a reload.

import * as api from "./api.js";
import { byId, keep, note, noted, set, setText } from "./dom.js";
import { Attachments, takeFiles } from "./files.js";
import { send } from "./outbox.js";
import { on, putThread, runsOf, store } from "./store.js";

const field = byId("text");
const picker = byId("picker");
const button = byId("send");
const hint = byId("hint");

const place = { kept: new Map(), sending: false };

// `opened` is called with the thread that the first message of a new one made.
export function startComposer(opened) {
  place.opened = opened;
  set(byId("composer"), { submit });
  set(field, { input: typed, keydown: key });
  set(byId("attach"), { click: () => picker.click() });
  set(picker, { change: () => take([...picker.files]), click: () => (picker.value = "") });
  takeFiles(byId("main"), field, take);
  on("runs link", refresh);
}

function key(event) {
  const plain = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  const phone = matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey;
  if (plain && !phone) submit(event);
}

function typed() {
  keep(draftKey(), field.value);
  fit();
}

// The field and the button follow what is written.
function fit() {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
  refresh();
}

// The composer now writes to this thread, or to a new one of the project.
export function writeTo(channel, thread) {
  Object.assign(place, { channel, thread });
  const key = draftKey();
  if (!place.kept.has(key)) place.kept.set(key, new Attachments(channel, refresh));
  place.files = place.kept.get(key);
  byId("chips").replaceChildren(place.files.element);
  field.value = sessionStorage.getItem(key) ?? "";
  fit();
}

// Puts a text back into the field.
export function edit(text) {
  field.value = field.value === "" ? text : `${text}\n${field.value}`;
  typed();
  field.focus();
}

export const focusComposer = () => field.focus();

const draftKey = () => `draft ${place.thread ?? place.channel}`;

function take(files) {
  if (!place.channel || files.length === 0) return;
  const most = api.limits.message_max_attachments ?? Infinity;
  const room = most - place.files.uploads.size;
  if (files.length > room) note(`A message carries at most ${most} files.`);
  place.files.add(files.slice(0, Math.max(0, room)));
  field.focus();
}

function refresh() {
  if (!place.files) return;
  const works = place.thread && runsOf(place.thread).some((run) => run.state === "running");
  const full = field.value.trim() !== "" || place.files.infos.length > 0;
  set(button, { disabled: !full || place.files.busy || place.files.failed || place.sending, text: works ? "Follow up" : "Send" });
  set(field, { placeholder: works ? "The agent reads it while it works" : place.thread ? "Write a message" : "What should be done?" });
  setText(hint, hintText());
}

function hintText() {
  if (place.files.failed) return "A file could not be sent. Remove it to go on.";
  if (place.files.busy) return "Files are on their way";
  if (store.link === "behind") return "The message is kept and sent when the server is back";
  return "Enter sends, Shift+Enter begins a line";
}

async function submit(event) {
  event.preventDefault();
  if (button.disabled) return;
  const text = field.value;
  const { files, channel } = place;
  const thread = place.thread ?? (await newThread(channel));
  if (!thread) return;
  send(thread, text, files.infos);
  files.clear();
  sessionStorage.removeItem(draftKey());
  field.value = "";
  fit();
  if (place.thread !== thread) place.opened(thread);
}

async function newThread(channel) {
  place.sending = true;
  refresh();
  const made = await noted(api.createThread(channel));
  place.sending = false;
  refresh();
  if (made) putThread(made);
  return made?.id;
}
