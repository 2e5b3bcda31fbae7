// Files of a message: those being written (button, paste, drag; progress, cancel) and those that came.

import { contentPath } from "./api.js";
import { el, nameElement, plainName, set, setText } from "./dom.js";
import { bytes } from "./format.js";
import { previewKind, showPreview } from "./preview.js";
import { Upload } from "./upload.js";

/** A longer text that is pasted becomes a file: no browser edits so much without a long pause. */
const LONG_PASTE = 50_000;

/** The files that a message will carry. `changed` is called when one came, went or became ready. */
export class Attachments {
  constructor(channel, changed) {
    this.channel = channel;
    this.changed = changed;
    this.uploads = new Map();
    this.element = el("ul", { class: "chips", "aria-label": "Files of the message" });
  }

  add(files) {
    for (const file of files) {
      const chip = el("li", { class: "chip" });
      const upload = new Upload(this.channel, file, file.name || pastedName(file), () => this.draw(upload));
      this.uploads.set(upload, chip);
      this.fill(upload, chip);
      this.element.append(chip);
      upload.run();
    }
    this.changed();
  }

  fill(upload, chip) {
    const label = `Remove ${plainName(upload.name)}`;
    chip.append(
      nameElement(upload.name, "bdi"),
      el("span", { class: "quiet", text: bytes(upload.size) }),
      el("progress", { max: upload.size || 1, value: 0, "aria-label": `Sending ${plainName(upload.name)}` }),
      el("span", { class: "chip-problem", role: "status" }),
      el("button", { type: "button", class: "plain", "aria-label": label, title: label, text: "\u2715", click: () => this.remove(upload) }),
    );
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
    const chip = this.uploads.get(upload);
    this.uploads.delete(upload);
    chip?.remove();
    upload.cancel();
    this.changed();
  }

  clear() {
    this.uploads.clear();
    this.element.replaceChildren();
  }

  get ids() {
    return [...this.uploads.keys()].filter((upload) => upload.state === "ready").map((upload) => upload.id);
  }

  get infos() {
    return [...this.uploads.keys()].filter((upload) => upload.state === "ready").map((upload) => upload.file_info);
  }

  get busy() {
    return [...this.uploads.keys()].some((upload) => ["reading", "sending"].includes(upload.state));
  }

  get failed() {
    return [...this.uploads.keys()].some((upload) => upload.state === "failed");
  }
}

function pastedName(file) {
  const ending = (file.type.split("/")[1] ?? "bin").replace(/[^a-z0-9]/g, "");
  return `pasted.${ending || "bin"}`;
}

/** Takes files that are dropped on `place` or pasted into `field`. */
export function takeFiles(place, field, taken) {
  let depth = 0;
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  const shown = (change) => {
    depth = Math.max(0, depth + change);
    place.classList.toggle("dropping", depth > 0);
  };
  place.addEventListener("dragenter", (event) => carriesFiles(event) && (event.preventDefault(), shown(1)));
  place.addEventListener("dragleave", (event) => carriesFiles(event) && shown(-1));
  place.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  place.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    shown(0);
    taken([...event.dataTransfer.files]);
  });
  field.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (files.length === 0 && text.length > LONG_PASTE) files.push(new File([text], "pasted.txt", { type: "text/plain" }));
    if (files.length === 0) return;
    event.preventDefault();
    taken(files);
  });
}

/** The files of a message that came: what each is, a look at it, and a way to keep it. */
export function fileList(files) {
  return el("ul", { class: "files", "aria-label": "Files" }, files.map(fileItem));
}

function fileItem(file) {
  const name = plainName(file.name);
  const kind = previewKind(file);
  const look = kind && el("button", { type: "button", text: "Look", "aria-label": `Look at ${name}`, click: () => showPreview(file) });
  const keep = el("a", { class: "button", href: contentPath(file.file_id), download: file.name, "aria-label": `Download ${name}`, text: "Download" });
  const head = el("div", { class: "file-head" }, el("span", { class: "file-kind", "aria-hidden": "true", text: ending(file.name) }),
    el("span", { class: "file-name" }, nameElement(file.name), el("span", { class: "quiet", text: bytes(file.size_bytes) })), el("span", { class: "row" }, look, keep));
  const picture = kind === "image" && el("button", { type: "button", class: "thumb", "aria-label": `Look at ${name}`, click: () => showPreview(file) },
    el("img", { src: contentPath(file.file_id), alt: "", loading: "lazy", decoding: "async" }));
  return el("li", { class: "file" }, head, picture);
}

function ending(name) {
  const found = /\.([a-z0-9]{1,5})$/i.exec(name);
  return found ? found[1].toLowerCase() : "file";
}
