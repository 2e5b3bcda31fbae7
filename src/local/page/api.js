// The server's operations. Every failure is an ApiError with a sentence for people.

const SENTENCES = {
  offline: "The server cannot be reached.",
  unauthenticated: "This page's session has ended.",
  validation_failed: "The server does not take this.",
  payload_too_large: "This is too large for the server.",
  quota_exceeded: "There is no room left for files.",
  storage_full: "The disk is full.",
  file_not_ready: "The file is still being checked.",
  file_blocked: "The file was blocked.",
  channel_read_only: "This project is not served at the moment.",
  title_manual: "Somebody chose this title by hand.",
  version_conflict: "It was changed elsewhere meanwhile. Look at it and try again.",
  invalid_state_transition: "It has ended already.",
  not_found: "It does not exist any more.",
};

/** A request that did not succeed. `status` is 0 when no answer came. */
export class ApiError extends Error {
  constructor(status, problem = {}) {
    const code = problem.reason ?? problem.code ?? (status === 413 ? "payload_too_large" : undefined);
    super(SENTENCES[code] ?? SENTENCES[problem.code] ?? `The server answered ${status} (${code ?? "no code"}).`);
    Object.assign(this, { status, code: problem.code, problem });
  }
}

/** Without an answer, or with one that says it will be better soon. */
export const passing = (error) => [0, 429, 502, 503, 504].includes(error.status);

/** Is called when the session has ended. */
export const session = { lost: () => {} };

/** One request with its JSON answer. */
export async function call(method, path, { body, headers = {}, signal } = {}) {
  const options = { method, headers: { ...headers }, signal, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "offline" });
  }
  const text = await answer.text().catch(() => {
    throw new ApiError(0, { code: "offline" });
  });
  const value = text === "" ? undefined : parsed(text);
  if (answer.ok) return value;
  if (answer.status === 401 && path !== "/session") session.lost();
  throw new ApiError(answer.status, value);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(0, { code: "offline" });
  }
}

const version = (number) => ({ "If-Match": `"${number}"` });
const keyed = () => ({ "Idempotency-Key": uuid7() });

export const openSession = (secret) => call("POST", "/session", { body: { secret } });
export const closeSession = () => call("DELETE", "/session");
export const instance = () => call("GET", "/api/v1/instance");
export const runnerState = () => call("GET", "/api/v1/runner");
export const projects = () => call("GET", "/api/v1/projects");
export const setGrant = (project, change) =>
  call("PUT", `/api/v1/projects/${project.channel_id}/grant`, { body: change, headers: version(project.grant_revision) });
export const threads = (channel, cursor) =>
  call("GET", `/api/v1/projects/${channel}/threads${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`);
export const createThread = (channel) => call("POST", `/api/v1/projects/${channel}/threads`, { body: {} });
export const setTitle = (thread, title) =>
  call("PUT", `/api/v1/threads/${thread.id}/title`, { body: { title }, headers: version(thread.version) });
export const messages = (id, before, limit = 50) =>
  call("GET", `/api/v1/threads/${id}/messages?limit=${limit}${before ? `&before=${before}` : ""}`);
export const post = (id, message) => call("POST", `/api/v1/threads/${id}/messages`, { body: message });
export const runs = (id) => call("GET", `/api/v1/threads/${id}/runs`);
export const cancelRun = (id) => call("POST", `/api/v1/runs/${id}/cancel`);
export const changes = (after, wait, signal) =>
  call("GET", `/api/v1/changes?wait_ms=${wait}${after === undefined ? "" : `&after=${after}`}`, { signal });
export const createUpload = (channel, file) =>
  call("POST", `/api/v1/channels/${channel}/uploads`, { body: file, headers: keyed() });
export const completeUpload = (id, parts) =>
  call("POST", `/api/v1/uploads/${id}/complete`, { body: { parts }, headers: keyed() });
export const abortUpload = (id) => call("DELETE", `/api/v1/uploads/${id}`);
export const contentPath = (id) => `/api/v1/files/${id}/content`;

/** A UUID of version 7 (RFC 9562): ids in the order of their making. */
export function uuid7() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let index = 5; index >= 0; index -= 1) {
    random[index] = time % 256;
    time = Math.floor(time / 256);
  }
  random[6] = (random[6] & 0x0f) | 0x70;
  random[8] = (random[8] & 0x3f) | 0x80;
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
