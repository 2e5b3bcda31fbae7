// One file on its way to the server: digest, parts with progress, completion; can be cancelled at any moment.

import * as api from "./api.js";
import { base64, digest, fileDigest } from "./sha256.js";

const TRIES = 4;
const PAUSE = 500;

/** An upload. `changed` is called whenever something visible changed. States: `reading`, `sending`, `ready`, `failed`. */
export class Upload {
  constructor(channel, file, name, changed) {
    Object.assign(this, { channel, file, name, changed });
    Object.assign(this, { size: file.size, sent: 0, state: "reading", problem: "", control: new AbortController() });
  }

  /** Sends the file; never throws. */
  async run() {
    try {
      await this.transfer();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem = error.message;
      this.to("failed");
    }
  }

  /** Ends it, wherever it is, and tells the server. */
  async cancel() {
    this.control.abort();
    if (this.id && this.state !== "ready") await api.abortUpload(this.id).catch(() => {});
  }

  to(state) {
    this.state = state;
    this.changed();
  }

  async transfer() {
    if (this.size === 0) throw new Error("The file is empty.");
    const sha256 = await fileDigest(this.file, this.control.signal);
    this.control.signal.throwIfAborted();
    const open = await api.createUpload(this.channel, { name: this.name, size_bytes: this.size, sha256 });
    this.id = open.file_id;
    if (this.control.signal.aborted) return this.cancel();
    this.to("sending");
    const done = [];
    for (const part of open.parts) {
      const start = (part.part_number - 1) * open.part_size_bytes;
      const piece = this.file.slice(start, start + open.part_size_bytes);
      done.push(await this.part(part, piece, start));
    }
    this.file_info = await retried(() => api.completeUpload(this.id, done));
    this.sent = this.size;
    this.to("ready");
  }

  async part(part, piece, start) {
    const sum = base64(await digest(await piece.arrayBuffer()));
    const headers = [...part.headers, { name: "Content-Digest", value: `sha-256=:${sum}:` }];
    const path = `/api/v1/uploads/${this.id}/parts/${part.part_number}`;
    const answer = await retried(() => this.put(path, headers, piece, start));
    return { part_number: answer.part_number, etag: answer.etag };
  }

  /** Only the older request object tells how much was sent. */
  put(path, headers, piece, start) {
    return new Promise((done, failed) => {
      const request = new XMLHttpRequest();
      const abort = () => request.abort();
      const { signal } = this.control;
      request.open("PUT", path);
      for (const { name, value } of headers) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => {
        this.sent = start + event.loaded;
        this.changed();
      };
      request.onerror = () => failed(new api.ApiError(0, { code: "offline" }));
      request.onabort = () => failed(new DOMException("", "AbortError"));
      request.onload = () => {
        const value = parsed(request.responseText);
        if (request.status === 200) done(value);
        else failed(new api.ApiError(request.status, value));
      };
      request.onloadend = () => signal.removeEventListener("abort", abort);
      if (signal.aborted) return failed(new DOMException("", "AbortError"));
      signal.addEventListener("abort", abort);
      request.send(piece);
    });
  }
}

/** Repeats what may be better soon; every step of an upload may be repeated. */
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

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
