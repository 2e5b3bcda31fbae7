// Messages on their way: each has an id of its own, so sending it again is the same as sending it once, also after a
// reload. They wait here while the server is away.

import * as api from "./api.js";
import { keep } from "./dom.js";
import { on, store } from "./store.js";

const KEY = "outbox";
const FIRST_RETRY = 500;
const LAST_RETRY = 5_000;

const entries = read();
const listeners = [];

// Calls `listener` with the thread whose waiting messages changed.
export const onOutbox = (listener) => listeners.push(listener);

// The messages of a thread that the server does not show yet.
export const waitingIn = (thread) => entries.filter((entry) => entry.thread === thread);

// Sends a message; it is kept until the server shows it. `files` are what the server said of its files.
export function send(thread, text, files) {
  const message = { client_msg_id: api.uuid7(), content_md: text };
  if (files.length > 0) message.attachment_file_ids = files.map((file) => file.file_id);
  const entry = { thread, message, files };
  entries.push(entry);
  changed(entry);
  deliver(entry);
}

// Takes a message back.
export function drop(entry) {
  const at = entries.indexOf(entry);
  if (at >= 0) entries.splice(at, 1);
  changed(entry);
}

// Sends what an earlier visit left.
export const resume = () => entries.filter((entry) => !entry.problem).forEach(deliver);

// Tries until the message is there or refused.
export async function deliver(entry) {
  entry.problem = tooLong(entry);
  if (entry.problem) return changed(entry);
  for (let attempt = 0; entries.includes(entry); attempt += 1) {
    changed(entry);
    try {
      const posted = await api.post(entry.thread, entry.message);
      entry.posted = posted.message_id;
      changed(entry);
      return settle(entry);
    } catch (error) {
      if (error.status !== 401 && !api.passing(error) && error.code !== "request_in_progress") {
        entry.problem = error.message;
        return changed(entry);
      }
      entry.waiting = true;
      changed(entry);
      await new Promise((done) => setTimeout(done, Math.min(LAST_RETRY, FIRST_RETRY * 2 ** attempt)));
    }
  }
}

function tooLong(entry) {
  const most = api.limits.message_max_content_bytes;
  const size = new TextEncoder().encode(entry.message.content_md).length;
  return size > most ? `The message is too long (${size} bytes, at most ${most}). Send it as a file.` : undefined;
}

// Goes when the server's own copy is on the page, so that nothing shows twice or not at all.
function settle(entry) {
  if (entry.posted && store.messages.get(entry.thread)?.byId.has(entry.posted)) drop(entry);
}

on("messages", ({ thread }) => waitingIn(thread).forEach(settle));

function changed(entry) {
  keep(KEY, JSON.stringify(entries));
  listeners.forEach((listener) => listener(entry.thread));
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? [];
  } catch {
    return [];
  }
}
