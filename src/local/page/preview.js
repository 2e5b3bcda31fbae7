// A look at a file without keeping it: pictures, text, tables. A file is shown as what its bytes are, never run.

import { contentPath } from "./api.js";
import { dialog, el, plainName } from "./dom.js";
import { bytes } from "./format.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Most bytes of a text that are loaded for a look. */
const TEXT_MAX = 256 * 1024;
const ROWS_MAX = 200;
const COLUMNS_MAX = 50;

/** How a file can be looked at: `image`, `table`, `text`, or not at all. */
export function previewKind(file) {
  if (PICTURES.includes(file.mime_type)) return "image";
  if (file.mime_type !== "text/plain") return undefined;
  return /\.(csv|tsv)$/i.test(file.name) ? "table" : "text";
}

/** Shows a file in a dialog. */
export async function showPreview(file) {
  const name = plainName(file.name);
  const { body } = dialog(name, el("p", { class: "quiet", text: "Loading" }));
  const keep = el("p", {}, el("a", { class: "button", href: contentPath(file.file_id), download: file.name, text: `Download (${bytes(file.size_bytes)})` }));
  try {
    if (previewKind(file) === "image") return body.replaceChildren(el("img", { class: "picture", src: contentPath(file.file_id), alt: name }), keep);
    const { text, cut } = await start(file);
    const content = previewKind(file) === "table" ? table(text, /\.tsv$/i.test(file.name) ? "\t" : undefined) : el("pre", { class: "text", dir: "auto", tabindex: "0", text });
    const more = cut && el("p", { class: "quiet", text: `Only the first ${bytes(TEXT_MAX)} are shown.` });
    body.replaceChildren(...[content, more, keep].filter(Boolean));
  } catch {
    body.replaceChildren(el("p", { text: "The file cannot be loaded at the moment." }), keep);
  }
}

async function start(file) {
  const answer = await fetch(contentPath(file.file_id), { headers: { Range: `bytes=0-${TEXT_MAX - 1}` } });
  if (!answer.ok) throw new Error();
  return { text: await answer.text(), cut: file.size_bytes > TEXT_MAX };
}

function table(text, given) {
  const rows = csv(text, given ?? separator(text));
  const cells = (row, tag) => row.slice(0, COLUMNS_MAX).map((cell) => el(tag, { text: cell, dir: "auto", class: isNumber(cell) && "right" }));
  const [head = [], ...lines] = rows.slice(0, ROWS_MAX + 1);
  const made = el("table", {}, el("thead", {}, el("tr", {}, cells(head, "th"))), el("tbody", {}, lines.map((row) => el("tr", {}, cells(row, "td")))));
  const rest = rows.length - 1 - lines.length;
  return el("div", { class: "table", tabindex: "0" }, made, rest > 0 && el("p", { class: "quiet", text: `${rest} more rows` }));
}

const isNumber = (cell) => /^-?[\d.,]+$/.test(cell.trim());

/** The separator that the first line has most of. */
function separator(text) {
  const line = text.slice(0, text.indexOf("\n") + 1 || undefined);
  return [",", ";", "\t"].map((mark) => [line.split(mark).length, mark]).sort((a, b) => b[0] - a[0])[0][1];
}

/** Rows of cells (RFC 4180). */
function csv(text, mark) {
  const rows = [[]];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${mark}\\r\\n]*))(${mark}|\\r?\\n|$)`, "g");
  for (const [, quoted, plain, end] of text.matchAll(cell)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== mark) rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}
