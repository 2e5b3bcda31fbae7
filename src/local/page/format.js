// Numbers, times and states in words.

// A size: `1536` is `1.5 KB`.
export function bytes(size) {
  const unit = Math.floor(Math.log10(Math.max(1, size)) / 3);
  const value = size / 1000 ** unit;
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${["B", "KB", "MB", "GB", "TB"][unit]}`;
}

// A count that stays short: `12.3K`.
export const count = (value) => new Intl.NumberFormat("en", { notation: "compact" }).format(value);

// Milliseconds as `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
export function duration(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// The time of day, with the date when it is another day.
export function clock(time) {
  const date = new Date(time);
  const hours = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const today = date.toDateString() === new Date().toDateString();
  return today ? hours : `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${hours}`;
}

// Cost reports as one text; undefined when the cost is not known.
export function money(reports) {
  if (!reports || reports.length === 0) return undefined;
  const sums = new Map();
  for (const { currency, amount_micros: micros } of reports) sums.set(currency, (sums.get(currency) ?? 0) + micros);
  return [...sums].map(([currency, micros]) => amount(currency, micros / 1e6)).join(" + ");
}

// Small amounts keep the digits that tell them apart.
function amount(currency, value) {
  const digits = value !== 0 && value < 0.1 ? 4 : 2;
  return value.toLocaleString([], { style: "currency", currency, minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// `3 steps`, `1 step`.
export const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

// Tokens of a run: from its cost when it has ended, from its numbers while it works.
export function tokens(run) {
  const sources = run.costs?.length ? run.costs : [run.document?.metrics ?? {}];
  const sum = (name) => sources.reduce((total, source) => total + (source[name] ?? 0), 0);
  const found = { fresh: sum("tokens_in"), cached: sum("tokens_cache_read") + sum("tokens_cache_write"), out: sum("tokens_out") };
  return { ...found, all: found.fresh + found.cached + found.out };
}

// The order of two texts.
export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// Whether a run has ended.
export const ended = (run) => ["completed", "failed", "cancelled", "interrupted"].includes(run.state);

// How long a run or step took or has taken, milliseconds.
export function spent(thing) {
  if (!thing.started_at) return 0;
  const end = thing.finished_at ? new Date(thing.finished_at).getTime() : Date.now();
  return end - new Date(thing.started_at).getTime();
}

const STATES = {
  queued: "Waiting",
  running: "Working",
  cancelling: "Stopping",
  completed: "Done",
  failed: "Failed",
  cancelled: "Stopped",
  interrupted: "Interrupted",
};

// A run's state in a word.
export const stateWord = (state) => STATES[state] ?? state;

const REASONS = {
  user_stop: "You stopped it.",
  owner_stop: "Its owner stopped it.",
  cancel_timeout: "The stop took too long and was forced.",
  agent_disabled: "The agent was switched off.",
  shutdown: "The runner was shut down.",
  invalid_invocation_token: "The runner did not trust the request. Restart the server and send it again.",
  tool_class_mismatch: "The request allowed more than this runner may do. Check --tool-class.",
  billing_mode_mismatch: "Who pays is not what the request said. Check --billing.",
  runtime_not_authenticated: "Claude Code is not logged in, or its key is missing. Log in or give --api-key-ref, then send it again.",
  runtime_error: "Claude Code ended with an error. Send the message again; the steps say how far it came.",
  adapter_error: "The runner met an error of its own. Its log says which one.",
  runtime_limit: "A limit of time or cost was reached. Send a message to go on from here.",
  context_full: "The conversation is too long for the model. Open a new thread.",
  event_too_old: "The message waited for too long. Send it again.",
  runner_restarted: "The runner was gone for too long. Send the message again.",
  runner_silent: "The runner was not heard of for too long. Look at its state.",
};

// Why a run ended, in a sentence.
export const reasonSentence = (reason) => (reason ? (REASONS[reason] ?? `Reason: ${reason}.`) : "");

const FOLLOWUPS = {
  delivered: "The agent has it",
  answered: "Answered",
  absorbed: "Taken into the work",
  refused: "Waits for the next run",
};

// What became of a follow-up.
export const followupWord = (state) => FOLLOWUPS[state] ?? "On its way to the agent";
