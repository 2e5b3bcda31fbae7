// Where messages are written. Every thread keeps its own draft and files; a draft survives a reload.

import * as api from "./api.js";
import { byId, note, set, setText } from "./dom.js";
import { Attachments, takeFiles } from "./files.js";
import { ended } from "./format.js";
import { send } from "./outbox.js";
import { on, putThread, runsOf, store } from "./store.js";

/** Highest the field grows, in shares of the window. */
const MOST_HEIGHT = 0.4;

const form = byId("composer");
const field = byId("text");
const picker = byId("picker");
const button = byId("send");
const hint = byId("hint");

const place = { channel: undefined, thread: undefined, files: undefined, kept: new Map(), opened: () => {}, sending: false };

/** `opened` is called with the thread that the first message of a new one made. */
export function startComposer(opened) {
  place.opened = opened;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener("input", () => {
    keepDraft();
    grow();
    refresh();
  });
  field.addEventListener("keydown", (event) => {
    const plain = event.key === "Enter" && !event.shiftKey && !event.isComposing;
    if (!plain || (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey)) return;
    event.preventDefault();
    submit();
  });
  byId("attach").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    take([...picker.files]);
    picker.value = "";
  });
  takeFiles(byId("main"), field, take);
  on("runs", refresh);
  on("link", refresh);
}

/** The composer now writes to this thread, or to a new one of the project. */
export function writeTo(channel, thread) {
  Object.assign(place, { channel, thread });
  const key = draftKey();
  if (!place.kept.has(key)) place.kept.set(key, new Attachments(channel, refresh));
  place.files = place.kept.get(key);
  byId("chips").replaceChildren(place.files.element);
  field.value = sessionStorage.getItem(key) ?? "";
  grow();
  refresh();
}

/** Puts a text back into the field. */
export function edit(text) {
  field.value = field.value === "" ? text : `${text}\n${field.value}`;
  keepDraft();
  grow();
  refresh();
  field.focus();
}

export const focusComposer = () => field.focus();

const draftKey = () => `draft ${place.thread ?? place.channel}`;

function keepDraft() {
  try {
    sessionStorage.setItem(draftKey(), field.value);
  } catch {
    // A draft this long lives only as long as the page.
  }
}

function take(files) {
  if (!place.channel || files.length === 0) return;
  const most = store.limits?.message_max_attachments ?? Infinity;
  const room = most - place.files.uploads.size;
  if (files.length > room) note(`A message carries at most ${most} files.`);
  place.files.add(files.slice(0, Math.max(0, room)));
  field.focus();
}

function grow() {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * MOST_HEIGHT)}px`;
}

function refresh() {
  if (!place.files) return;
  const works = place.thread && runsOf(place.thread).some((run) => !ended(run) && run.state === "running");
  const full = field.value.trim() !== "" || place.files.ids.length > 0;
  set(button, { disabled: !full || place.files.busy || place.files.failed || place.sending });
  setText(button, works ? "Follow up" : "Send");
  const words = works ? "The agent reads it while it works" : place.thread ? "Write a message" : "What should be done?";
  set(field, { placeholder: words });
  setText(hint, hintText());
}

function hintText() {
  if (place.files.failed) return "A file could not be sent. Remove it to go on.";
  if (place.files.busy) return "Files are on their way";
  if (store.link === "behind") return "The message is kept and sent when the server is back";
  return "Enter sends, Shift+Enter begins a line";
}

async function submit() {
  if (button.disabled) return;
  const text = field.value;
  const { files, channel } = place;
  const thread = place.thread ?? (await newThread(channel));
  if (!thread) return;
  send(thread, text, files.infos);
  files.clear();
  sessionStorage.removeItem(draftKey());
  field.value = "";
  grow();
  if (place.thread !== thread) place.opened(thread);
  refresh();
}

async function newThread(channel) {
  place.sending = true;
  refresh();
  try {
    const made = await api.createThread(channel);
    putThread(made);
    return made.id;
  } catch (error) {
    note(error.message);
    return undefined;
  } finally {
    place.sending = false;
    refresh();
  }
}
