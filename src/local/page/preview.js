// A look at a file without keeping it: pictures, text, tables. A file is shown as what its bytes are, never run.

import { contentPath } from "./api.js";
import { dialog, el, plainName } from "./dom.js";
import { bytes } from "./format.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
// Most bytes of a text that are loaded for a look.
const TEXT_MAX = 256 * 1024;
const ROWS_MAX = 201;
const COLUMNS_MAX = 50;

// How a file can be looked at, if it can.
export function previewKind(file) {
  if (PICTURES.includes(file.mime_type)) return "image";
  if (file.mime_type !== "text/plain") return undefined;
  return /\.(csv|tsv)$/i.test(file.name) ? "table" : "text";
}

// A link that keeps a file.
export const downloadLink = (file, text, label = text) =>
  el("a.button", { href: contentPath(file.file_id), download: file.name, label }, text);

// Shows a file in a dialog.
export async function showPreview(file) {
  const name = plainName(file.name);
  const { body } = dialog(name, el("p.quiet", "Loading"));
  const keep = el("p", downloadLink(file, `Download (${bytes(file.size_bytes)})`));
  const kind = previewKind(file);
  try {
    if (kind === "image") return body.replaceChildren(el("img.picture", { src: contentPath(file.file_id), alt: name }), keep);
    const { text, cut } = await start(file);
    const content = kind === "table" ? table(text, separator(text)) : el("pre.text", { dir: "auto", tabindex: "0" }, text);
    const more = cut && el("p.quiet", `Only the first ${bytes(TEXT_MAX)} are shown.`);
    body.replaceChildren(...[content, more, keep].filter(Boolean));
  } catch {
    body.replaceChildren(el("p", "The file cannot be loaded at the moment."), keep);
  }
}

async function start(file) {
  const answer = await fetch(contentPath(file.file_id), { headers: { Range: `bytes=0-${TEXT_MAX - 1}` } });
  if (!answer.ok) throw new Error();
  return { text: await answer.text(), cut: file.size_bytes > TEXT_MAX };
}

function table(text, mark) {
  const rows = csv(text, mark);
  const cell = (text, tag) => el(tag, { text, dir: "auto", class: /^\s*-?[\d.,]+\s*$/.test(text) && "right" });
  const line = (row, index) => el("tr", row.slice(0, COLUMNS_MAX).map((text) => cell(text, index === 0 ? "th" : "td")));
  const rest = rows.length - ROWS_MAX;
  return el("div.table", { tabindex: "0" }, el("table", rows.slice(0, ROWS_MAX).map(line)),
    rest > 0 && el("p.quiet", `${rest} more rows`));
}

// The separator that the first line has most of.
function separator(text) {
  const [line] = text.split("\n", 1);
  return [",", ";", "\t"].sort((a, b) => line.split(b).length - line.split(a).length)[0];
}

// Rows of cells (RFC 4180).
function csv(text, mark) {
  const rows = [[]];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${mark}\\r\\n]*))(${mark}|\\r?\\n|$)`, "g");
  for (const [, quoted, plain, end] of text.matchAll(cell)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== mark) rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}
