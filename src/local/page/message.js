// One message: author, time, rendered Markdown, files, what became of it.

import { el, nameElement, note, set, setText } from "./dom.js";
import { fileList } from "./files.js";
import { clock, followupWord } from "./format.js";

/** Longer messages are folded: letters and lines. */
const LONG_LETTERS = 4000;
const LONG_LINES = 60;

/** The only place where a text becomes markup: the server's own rendering, which holds known tags only. */
const policy = window.trustedTypes?.createPolicy("message", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

/** A message of the thread. */
export function messageElement(message) {
  const own = message.author.kind === "person";
  const state = el("span", { class: "followup", hidden: true });
  const head = el("header", {}, nameElement(message.author.display_name, "strong"),
    el("time", { datetime: message.created_at, text: clock(message.created_at) }), state);
  const made = el("article", { class: own ? "message own" : "message" }, head);
  if (message.content_md !== "") made.append(...content(message));
  if (message.attachments.length > 0) made.append(fileList(message.attachments));
  return made;
}

/** Shows what became of a follow-up. */
export function showFollowup(element, state) {
  const place = element.querySelector(".followup");
  set(place, { hidden: false, "data-state": state ?? "sent" });
  setText(place, followupWord(state));
}

function content(message) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(message.content_html);
  const body = el("div", { class: "content", dir: "auto" }, template.content);
  for (const block of body.querySelectorAll("pre")) addCopy(block);
  const lines = message.content_md.split("\n").length;
  if (message.content_md.length <= LONG_LETTERS && lines <= LONG_LINES) return [body];
  return fold(body, lines);
}

function addCopy(block) {
  const button = el("button", { type: "button", class: "copy", text: "Copy" });
  button.addEventListener("click", async () => {
    const done = await copy(block.textContent);
    if (!done) note("The browser does not let the page copy. Select the text and copy it by hand.");
    setText(button, done ? "Copied" : "Copy");
    setTimeout(() => setText(button, "Copy"), 2000);
  });
  const frame = el("div", { class: "code" });
  block.replaceWith(frame);
  set(block, { tabindex: "0" });
  frame.append(el("div", { class: "code-head" }, el("span", { text: block.dataset.language ?? "" }), button), block);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function fold(body, lines) {
  body.classList.add("folded");
  const words = `Show all (${lines} ${lines === 1 ? "line" : "lines"})`;
  const button = el("button", { type: "button", class: "unfold", "aria-expanded": "false", text: words });
  button.addEventListener("click", () => {
    const open = body.classList.toggle("folded") === false;
    set(button, { "aria-expanded": String(open) });
    setText(button, open ? "Show less" : words);
    if (!open) body.closest("li")?.scrollIntoView({ block: "nearest" });
  });
  return [body, button];
}

/** A message of this page that the server does not show yet. */
export function pendingElement(entry, again, edit) {
  const state = el("span", { class: "followup", "data-state": entry.problem ? "refused" : "sent" });
  setText(state, entry.problem ? "Not sent" : entry.waiting ? "Is sent when the server is back" : "Sending");
  const head = el("header", {}, el("strong", { text: "You" }), state);
  const made = el("article", { class: "message own pending" }, head);
  made.append(el("div", { class: "content plain-text", dir: "auto", text: entry.message.content_md.slice(0, LONG_LETTERS) }));
  if (entry.files.length > 0) made.append(el("p", { class: "quiet", text: entry.files.map((file) => file.name).join(", ") }));
  if (entry.problem) {
    made.append(el("p", { class: "problem", role: "alert", text: entry.problem }),
      el("div", { class: "row" }, el("button", { type: "button", text: "Try again", click: again }),
        el("button", { type: "button", text: "Edit", click: edit })));
  }
  return made;
}
