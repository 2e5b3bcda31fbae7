// Files of a message: those being written (button, paste, drag; progress, cancel) and those that came.

import { contentPath } from "./api.js";
import { button, el, nameElement, plainName, set, setText } from "./dom.js";
import { bytes } from "./format.js";
import { downloadLink, previewKind, showPreview } from "./preview.js";
import { Upload } from "./upload.js";

// A longer text that is pasted becomes a file: no browser edits so much without a long pause.
const LONG_PASTE = 50_000;

// The files that a message will carry. `changed` is called when one came, went or became ready.
export class Attachments {
  constructor(channel, changed) {
    this.channel = channel;
    this.changed = changed;
    this.uploads = new Map();
    this.element = el("ul.chips", { label: "Files of the message" });
  }

  add(files) {
    for (const file of files) {
      const upload = new Upload(this.channel, file, file.name || pastedName(file), () => this.draw(upload));
      const chip = this.chip(upload);
      this.uploads.set(upload, chip);
      this.element.append(chip);
      upload.run();
    }
    this.changed();
  }

  chip(upload) {
    const label = `Remove ${plainName(upload.name)}`;
    return el("li.chip",
      nameElement(upload.name),
      el("span.quiet", bytes(upload.size)),
      el("progress", { max: upload.size || 1, value: 0, label: `Sending ${plainName(upload.name)}` }),
      el("span.chip-problem", { role: "status" }),
      button("\u2715", () => this.remove(upload), { class: "plain", label, title: label }));
  }

  draw(upload) {
    const chip = this.uploads.get(upload);
    if (!chip) return;
    set(chip, { "data-state": upload.state });
    chip.querySelector("progress").value = upload.sent;
    setText(chip.querySelector(".chip-problem"), upload.problem);
    this.changed();
  }

  remove(upload) {
    this.uploads.get(upload)?.remove();
    this.uploads.delete(upload);
    upload.cancel();
    this.changed();
  }

  clear() {
    this.uploads.clear();
    this.element.replaceChildren();
  }

  // The uploads in one of these states.
  in(...states) {
    return [...this.uploads.keys()].filter((upload) => states.includes(upload.state));
  }

  // What the server said of the files that are there.
  get infos() {
    return this.in("ready").map((upload) => upload.file_info);
  }

  get busy() {
    return this.in("reading", "sending").length > 0;
  }

  get failed() {
    return this.in("failed").length > 0;
  }
}

const pastedName = (file) => `pasted.${file.type.split("/")[1]?.replace(/[^a-z0-9]/g, "") || "bin"}`;

// Takes files dropped on `place` or pasted into `field`.
export function takeFiles(place, field, taken) {
  const shown = (on) => place.classList.toggle("dropping", on);
  const acts = {
    dragenter: () => shown(true),
    dragover: () => {},
    dragleave: (event) => place.contains(event.relatedTarget) || shown(false),
    drop: (event) => shown(false) || taken([...event.dataTransfer.files]),
  };
  for (const [name, act] of Object.entries(acts)) {
    place.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      act(event);
    });
  }
  field.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (files.length === 0 && text.length > LONG_PASTE) files.push(new File([text], "pasted.txt", { type: "text/plain" }));
    if (files.length === 0) return;
    event.preventDefault();
    taken(files);
  });
}

// The files of a message that came: what each is, a look at it, and a way to keep it.
export function fileList(files) {
  return el("ul.files", { label: "Files" }, files.map(fileItem));
}

function fileItem(file) {
  const name = plainName(file.name);
  const kind = previewKind(file);
  const look = kind && button("Look", () => showPreview(file), { label: `Look at ${name}` });
  const keep = downloadLink(file, "Download", `Download ${name}`);
  const head = el("div.file-head", el("span.file-kind", { "aria-hidden": "true" }, ending(file.name)),
    el("span.file-name", nameElement(file.name), el("span.quiet", bytes(file.size_bytes))), el("span.row", look, keep));
  const picture = kind === "image" && button("", () => showPreview(file), { class: "thumb", label: `Look at ${name}` });
  if (picture) picture.append(el("img", { src: contentPath(file.file_id), alt: "", loading: "lazy", decoding: "async" }));
  return el("li.file", head, picture);
}

const ending = (name) => (/\.([a-z0-9]{1,5})$/i.exec(name)?.[1] ?? "file").toLowerCase();
