// Keeps the store fresh: loads once, then follows the changes. A position is taken before anything is loaded, so
// nothing can fall between the two; what is seen twice changes nothing.

import * as api from "./api.js";
import { apply, forget, putProjects, putRunner, putThreads, setLink, store } from "./store.js";

// How long one question waits for news.
const WAIT = 25_000;
// When an answer is overdue: the machine slept, or the line is dead without saying so.
const OVERDUE = WAIT + 10_000;
// A hidden tab leaves the browser's few connections to the visible ones and looks now and then.
const HIDDEN_PAUSE = 15_000;
const FIRST_RETRY = 250;
const LAST_RETRY = 5_000;
// The runner falls silent without a change; its state is asked for.
const RUNNER_EVERY = 30_000;

const state = { wake: () => {}, abort: () => {} };

// Looks at once: the page is visible again, the network is back, the session is new.
export function lookNow() {
  state.abort();
  state.wake();
}

// Follows the changes for as long as the page lives; `loaded` runs whenever everything was loaded.
export async function follow(loaded) {
  document.addEventListener("visibilitychange", () => !document.hidden && lookNow());
  window.addEventListener("online", lookNow);
  window.addEventListener("pageshow", (event) => event.persisted && lookNow());
  let failures = 0;
  for (;;) {
    try {
      if (state.after === undefined) await loadAll(loaded);
      else if (failures > 0) await sameServer();
      await followOnce(failures > 0);
      failures = 0;
    } catch (error) {
      if (error.name === "AbortError") continue;
      failures += 1;
      await afterFailure(error, failures);
    }
  }
}

async function loadAll(loaded) {
  setLink(store.link === "live" ? "behind" : store.link);
  const position = await api.changes(undefined, 0);
  const { instance_id: id, limits } = await api.instance();
  state.instance = id;
  Object.assign(api.limits, limits);
  const { projects } = await api.projects();
  const pages = await Promise.all(projects.map((project) => api.threads(project.channel_id)));
  const runner = await api.runnerState();
  forget();
  putRunner(runner);
  putProjects(projects);
  projects.forEach((project, index) => putThreads(project.channel_id, pages[index]));
  await loaded();
  state.after = position.changes.at(-1)?.seq ?? position.oldest_seq;
}

// Another server at the same address has other data: begin anew.
async function sameServer() {
  const { instance_id: id } = await api.instance();
  if (id !== state.instance) location.reload();
  putRunner(await api.runnerState());
}

async function followOnce(catchingUp) {
  const hidden = document.hidden;
  if (hidden) await pause(HIDDEN_PAUSE);
  const control = new AbortController();
  state.abort = () => control.abort();
  const signal = AbortSignal.any([control.signal, AbortSignal.timeout(OVERDUE)]);
  const answer = await api.changes(state.after, catchingUp || hidden ? 0 : WAIT, signal);
  if (state.after < answer.oldest_seq) {
    state.after = undefined;
    return;
  }
  for (const change of answer.changes) {
    apply(change);
    state.after = change.seq;
  }
  setLink("live");
  if (Date.now() - (store.runner?.seen ?? 0) > RUNNER_EVERY) putRunner(await api.runnerState());
}

async function afterFailure(error, failures) {
  setLink(error.status === 401 ? "expired" : "behind");
  const most = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** failures);
  await pause(most * (0.5 + Math.random() / 2));
}

// Waits until then, or until `lookNow`.
function pause(time) {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    state.wake = () => {
      clearTimeout(timer);
      done();
    };
  });
}
