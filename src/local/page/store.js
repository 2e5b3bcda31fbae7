// What the page knows. Everything arrives here, from answers and from changes alike, and older news never replaces
// newer; whoever shows something listens to its topic: `projects`, `threads`, `messages`, `runs`, `runner`, `link`.

import { compare, ended } from "./format.js";

const RANKS = { queued: 0, running: 1, cancelling: 2, completed: 3, failed: 3, cancelled: 3, interrupted: 3 };

export const store = {
  projects: new Map(),
  threads: new Map(),
  // Where the next page of a project's threads starts.
  cursors: new Map(),
  // By thread: `{byId, more}`, the messages known and whether older ones exist.
  messages: new Map(),
  // By thread: runs by id.
  runs: new Map(),
  runner: undefined,
  // The connection: `loading`, `live`, `behind`, `expired`.
  link: "loading",
};

const listeners = new Set();

// Calls `listener` with every piece of news of these topics, until the function that is given back is called.
export function on(topics, listener) {
  const entry = { topics: topics.split(" "), listener };
  listeners.add(entry);
  return () => listeners.delete(entry);
}

function emit(topic, detail) {
  for (const { topics, listener } of listeners) if (topics.includes(topic)) listener(detail);
}

export function setLink(link) {
  if (store.link === link) return;
  store.link = link;
  emit("link", link);
}

export function putProjects(list) {
  store.projects = new Map(list.map((project) => [project.channel_id, project]));
  emit("projects");
}

export function putProject(project) {
  const known = store.projects.get(project.channel_id);
  if (known && known.grant_revision > project.grant_revision) return;
  store.projects.set(project.channel_id, project);
  emit("projects", project);
}

export function putThreads(channel, page) {
  for (const thread of page.threads) keepThread(thread);
  store.cursors.set(channel, page.next_cursor);
  emit("threads");
}

export function putThread(thread) {
  keepThread(thread);
  emit("threads", thread);
}

function keepThread(thread) {
  const known = store.threads.get(thread.id);
  if (known && known.version > thread.version) return;
  const later = known?.updated_at > thread.updated_at ? known : thread;
  store.threads.set(thread.id, { ...thread, updated_at: later.updated_at });
}

// The threads of a project, the newest first.
export function threadsOf(channel) {
  const own = [...store.threads.values()].filter((thread) => thread.channel_id === channel);
  return own.sort((a, b) => compare(b.updated_at, a.updated_at) || compare(b.id, a.id));
}

// From now on the messages of a thread are kept.
export function beginMessages(thread) {
  if (!store.messages.has(thread)) store.messages.set(thread, { byId: new Map(), more: false, loaded: false });
  return store.messages.get(thread);
}

// A page of messages: the newest of a thread, or those before the ones known.
export function putMessages(thread, page) {
  const known = beginMessages(thread);
  const first = page.messages[0]?.seq ?? Infinity;
  if (first < oldestSeq(thread)) known.more = page.has_more;
  for (const message of page.messages) {
    if (!known.byId.has(message.message_id)) known.byId.set(message.message_id, message);
  }
  known.loaded = true;
  emit("messages", { thread });
}

// The messages known of a thread, in order.
export function messagesOf(thread) {
  return [...(store.messages.get(thread)?.byId.values() ?? [])].sort((a, b) => a.seq - b.seq);
}

// The position of the oldest message known of a thread.
export const oldestSeq = (thread) => messagesOf(thread)[0]?.seq ?? Infinity;

function putMessage(message, { thread_id: thread }) {
  const known = store.messages.get(thread);
  const bump = store.threads.get(thread);
  if (bump && bump.updated_at < message.created_at) {
    bump.updated_at = message.created_at;
    emit("threads", bump);
  }
  if (!known || (known.more && message.seq < oldestSeq(thread))) return;
  const fresh = !known.byId.has(message.message_id);
  known.byId.set(message.message_id, message);
  emit("messages", { thread, message, fresh });
}

export function putRuns(thread, list) {
  list.forEach(keepRun);
  emit("runs", { thread });
}

function putRun(run) {
  const news = keepRun(run);
  if (news) emit("runs", news);
}

function keepRun(run) {
  const { thread_id: thread, run_id: id } = run;
  if (!store.runs.has(thread)) store.runs.set(thread, new Map());
  const before = store.runs.get(thread).get(id);
  if (before && (before.version > run.version || RANKS[before.state] > RANKS[run.state])) return undefined;
  store.runs.get(thread).set(id, run);
  const shown = store.threads.get(thread);
  if (shown?.active_run_id === id && ended(run)) delete shown.active_run_id;
  return { thread, run, before };
}

function putFollowup(followup, ids) {
  const run = store.runs.get(ids.thread_id)?.get(ids.run_id);
  if (!run) return;
  const others = run.followups.filter((other) => other.followup_id !== followup.followup_id);
  run.followups = [...others, followup];
  emit("runs", { thread: ids.thread_id, run, before: run });
}

// The runs of a thread, oldest first.
export function runsOf(thread) {
  const own = [...(store.runs.get(thread)?.values() ?? [])];
  return own.sort((a, b) => compare(a.created_at, b.created_at) || compare(a.run_id, b.run_id));
}

// Whether something works or waits in a thread.
export function busy(thread) {
  const runs = runsOf(thread.id);
  return runs.some((run) => !ended(run)) || (thread.active_run_id && !runs.some((run) => run.run_id === thread.active_run_id));
}

export function putRunner(state) {
  store.runner = { ...state, seen: Date.now() };
  emit("runner");
}

// One change of `pollChanges`; the same change twice is the same as once.
export function apply({ type, ids, payload }) {
  const takers = { message: putMessage, thread: putThread, run: putRun, followup: putFollowup, project: putProject, runner: putRunner };
  takers[type]?.(payload, ids);
}

// Forgets what came from the server, for loading it anew.
export function forget() {
  for (const map of [store.threads, store.cursors, store.messages, store.runs]) map.clear();
}
