// The server's operations. Every failure is an ApiError with a sentence for people.

const SENTENCES = {
  offline: "The server cannot be reached.",
  quota_exceeded: "There is no room left for files.",
  storage_full: "The disk is full.",
  channel_read_only: "This project is not served at the moment.",
  version_conflict: "It was changed elsewhere meanwhile. Look at it and try again.",
};

// A request that did not succeed (RFC 9457). `status` is 0 when no answer came.
export class ApiError extends Error {
  constructor(status, problem = {}) {
    super(SENTENCES[problem.reason ?? problem.code] ?? problem.title ?? `The server answered ${status}.`);
    Object.assign(this, { status, code: problem.code, problem });
  }
}

// Without an answer, or with one that says it will be better soon.
export const passing = (error) => [0, 429, 502, 503, 504].includes(error.status);

// Is called when the session has ended.
export const session = { lost: () => {} };

// What the server allows (`InstanceLimits`).
export const limits = {};

// One request with its JSON answer; its body is JSON too, or bytes as they are.
async function call(method, path, { body, bytes, headers = {}, signal } = {}) {
  const options = { method, headers, signal, cache: "no-store", body: bytes };
  if (body) Object.assign(options, { body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } });
  let answer;
  let value;
  try {
    answer = await fetch(path.startsWith("/") ? path : `/api/v1/${path}`, options);
    const text = await answer.text();
    value = text === "" ? undefined : JSON.parse(text);
  } catch (error) {
    // Also an answer that is cut.
    throw error.name === "AbortError" ? error : new ApiError(0, { code: "offline" });
  }
  if (answer.ok) return value;
  if (answer.status === 401 && path !== "/session") session.lost();
  throw new ApiError(answer.status, value);
}

const get = (path) => call("GET", path);

const version = (number) => ({ "If-Match": `"${number}"` });
const keyed = () => ({ "Idempotency-Key": uuid7() });

export const openSession = (secret) => call("POST", "/session", { body: { secret } });
export const instance = () => get("instance");
export const runnerState = () => get("runner");
export const projects = () => get("projects");
export const setGrant = (project, change) =>
  call("PUT", `projects/${project.channel_id}/grant`, { body: change, headers: version(project.grant_revision) });
export const threads = (channel, cursor) => get(`projects/${channel}/threads${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`);
export const createThread = (channel) => call("POST", `projects/${channel}/threads`, { body: {} });
export const setTitle = (thread, title) =>
  call("PUT", `threads/${thread.id}/title`, { body: { title }, headers: version(thread.version) });
export const messages = (id, before, limit = 50) => get(`threads/${id}/messages?limit=${limit}${before ? `&before=${before}` : ""}`);
export const post = (id, message) => call("POST", `threads/${id}/messages`, { body: message });
export const runs = (id) => get(`threads/${id}/runs`);
export const cancelRun = (id) => call("POST", `runs/${id}/cancel`);
export const changes = (after, wait, signal) =>
  call("GET", `changes?wait_ms=${wait}${after === undefined ? "" : `&after=${after}`}`, { signal });
export const createUpload = (channel, file) =>
  call("POST", `channels/${channel}/uploads`, { body: file, headers: keyed() });
export const putPart = (id, number, part) => call("PUT", `uploads/${id}/parts/${number}`, part);
export const completeUpload = (id, parts) =>
  call("POST", `uploads/${id}/complete`, { body: { parts }, headers: keyed() });
export const abortUpload = (id) => call("DELETE", `uploads/${id}`);
export const contentPath = (id) => `/api/v1/files/${id}/content`;

// A UUID of version 7 (RFC 9562): ids in the order of their making.
export function uuid7() {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
