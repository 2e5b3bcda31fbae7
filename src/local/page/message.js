// One message: author, time, rendered Markdown, files, what became of it.

import { button, el, nameElement, note, plainName, set, setText } from "./dom.js";
import { fileList } from "./files.js";
import { clock, followupWord, plural } from "./format.js";

// Longer messages are folded: letters and lines.
const LONG_LETTERS = 4000;
const LONG_LINES = 60;

// The only place where a text becomes markup: the server's own rendering, which holds known tags only.
const rules = { createHTML: (html) => html };
const policy = window.trustedTypes?.createPolicy("message", rules) ?? rules;

// A message of the thread.
export function messageElement(message) {
  const own = message.author.kind === "person";
  const head = el("header", nameElement(message.author.display_name, "strong"),
    el("time", { datetime: message.created_at }, clock(message.created_at)),
    el("span.followup", { hidden: !message.followup_id }, followupWord()));
  return el(own ? "article.message.own" : "article.message", head, message.content_md && content(message),
    message.attachments.length > 0 && fileList(message.attachments));
}

function content(message) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(message.content_html);
  const body = el("div.content", { dir: "auto" }, template.content);
  for (const block of body.querySelectorAll("pre")) addCopy(block);
  const lines = message.content_md.split("\n").length;
  if (message.content_md.length <= LONG_LETTERS && lines <= LONG_LINES) return [body];
  return fold(body, lines);
}

function addCopy(block) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      setText(copy, "Copied");
      setTimeout(() => setText(copy, "Copy"), 2000);
    } catch {
      note("The browser does not let the page copy. Select the text and copy it by hand.");
    }
  }, { class: "copy" });
  const frame = el("div.code", el("div.code-head", el("span", block.dataset.language), copy));
  block.replaceWith(frame);
  set(block, { tabindex: "0" });
  frame.append(block);
}

function fold(body, lines) {
  body.classList.add("folded");
  const words = `Show all (${plural(lines, "line")})`;
  const unfold = button(words, () => {
    const open = !body.classList.toggle("folded");
    set(unfold, { "aria-expanded": String(open), text: open ? "Show less" : words });
    if (!open) body.closest("li")?.scrollIntoView({ block: "nearest" });
  }, { class: "unfold", "aria-expanded": "false" });
  return [body, unfold];
}

// A message of this page that the server does not show yet.
export function pendingElement(entry, again, edit) {
  const { problem, waiting, files, message } = entry;
  const text = problem ? "Not sent" : waiting ? "Is sent when the server is back" : "Sending";
  const head = el("header", el("strong", "You"), el("span.followup", { "data-state": problem ? "refused" : "sent" }, text));
  return el("article.message.own.pending", head,
    el("div.content.plain-text", { dir: "auto" }, message.content_md.slice(0, LONG_LETTERS)),
    files.length > 0 && el("p.quiet", files.map((file) => plainName(file.name)).join(", ")),
    problem && [el("p.problem", { role: "alert" }, problem), el("div.row", button("Try again", again), button("Edit", edit))]);
}
