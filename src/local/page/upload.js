// One file on its way to the server: digest, parts with progress, completion; can be cancelled at any moment.

import * as api from "./api.js";
import { base64, digest, fileDigest } from "./sha256.js";

const TRIES = 4;
const PAUSE = 500;

// An upload. `changed` is called whenever something visible changed. States: `reading`, `sending`, `ready`, `failed`.
export class Upload {
  constructor(channel, file, name, changed) {
    Object.assign(this, { channel, file, name, changed, size: file.size, sent: 0, state: "reading", problem: "" });
    this.control = new AbortController();
  }

  // Sends the file; never throws.
  async run() {
    try {
      await this.transfer();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem = error.message;
      this.to("failed");
    }
  }

  // Ends it, wherever it is, and tells the server.
  async cancel() {
    this.control.abort();
    if (this.id && this.state !== "ready") await api.abortUpload(this.id).catch(() => {});
  }

  to(state) {
    this.state = state;
    this.changed();
  }

  async transfer() {
    const { name, size, file } = this;
    const { signal } = this.control;
    if (size === 0) throw new Error("The file is empty.");
    if (size > api.limits.file_max_upload_bytes) throw new Error("The file is too large for the server.");
    const sha256 = await fileDigest(file, signal);
    signal.throwIfAborted();
    const open = await api.createUpload(this.channel, { name, size_bytes: size, sha256 });
    this.id = open.file_id;
    if (signal.aborted) return this.cancel();
    this.to("sending");
    const done = [];
    for (const part of open.parts) {
      const piece = file.slice(this.sent, this.sent + open.part_size_bytes);
      const sum = base64(await digest(await piece.arrayBuffer()));
      const headers = Object.fromEntries(part.headers.map((header) => [header.name, header.value]));
      headers["Content-Digest"] = `sha-256=:${sum}:`;
      const { part_number, etag } = await retried(() => api.putPart(this.id, part.part_number, { bytes: piece, headers, signal }));
      done.push({ part_number, etag });
      this.sent += piece.size;
      this.changed();
    }
    this.file_info = await retried(() => api.completeUpload(this.id, done));
    this.to("ready");
  }
}

// Repeats what may be better soon.
async function retried(work) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= TRIES || error.name === "AbortError" || !api.passing(error)) throw error;
      await new Promise((done) => setTimeout(done, PAUSE * 2 ** attempt));
    }
  }
}
