// SHA-256 of a file that need not fit into memory (FIPS 180-4); the browser's own function takes only whole buffers.

/** Up to this size the browser's own, faster function is used, bytes. */
const WHOLE_MAX = 64 * 1024 * 1024;
const PIECE = 4 * 1024 * 1024;
const BLOCK = 64;

/** The constants: the first bits of the roots of the first primes. */
const { ROUNDS, START } = constants();

/** The digest of a file in hex. `signal` ends the work. */
export async function fileDigest(file, signal) {
  if (file.size <= WHOLE_MAX) return hex(await digest(await file.arrayBuffer()));
  const hash = new Sha256();
  for (let at = 0; at < file.size; at += PIECE) {
    signal?.throwIfAborted();
    hash.update(new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer()));
  }
  return hex(hash.finish());
}

/** The digest of a buffer. */
export const digest = async (buffer) => new Uint8Array(await crypto.subtle.digest("SHA-256", buffer));

/** Bytes in lowercase hex. */
export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Bytes in base64. */
export const base64 = (bytes) => btoa(String.fromCharCode(...bytes));

/** The function itself, piece by piece. */
export class Sha256 {
  constructor() {
    this.state = Int32Array.from(START);
    this.words = new Int32Array(BLOCK);
    this.rest = new Uint8Array(0);
    this.length = 0;
  }

  update(bytes) {
    this.length += bytes.length;
    let data = bytes;
    if (this.rest.length > 0) {
      data = new Uint8Array(this.rest.length + bytes.length);
      data.set(this.rest);
      data.set(bytes, this.rest.length);
    }
    const whole = data.length - (data.length % BLOCK);
    for (let at = 0; at < whole; at += BLOCK) this.block(data, at);
    this.rest = data.slice(whole);
  }

  finish() {
    const bits = this.length * 8;
    const padded = new Uint8Array(this.rest.length < BLOCK - 8 ? BLOCK : 2 * BLOCK);
    padded.set(this.rest);
    padded[this.rest.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(padded.length - 4, bits % 2 ** 32);
    for (let at = 0; at < padded.length; at += BLOCK) this.block(padded, at);
    const out = new DataView(new ArrayBuffer(32));
    this.state.forEach((word, index) => out.setInt32(index * 4, word));
    return new Uint8Array(out.buffer);
  }

  block(data, at) {
    const w = this.words;
    for (let i = 0; i < 16; i += 1) {
      const j = at + i * 4;
      w[i] = (data[j] << 24) | (data[j + 1] << 16) | (data[j + 2] << 8) | data[j + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.state;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => {
      this.state[index] = (this.state[index] + word) | 0;
    });
  }
}

function constants() {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return { ROUNDS: primes.map((prime) => fraction(prime, 3)), START: primes.slice(0, 8).map((prime) => fraction(prime, 2)) };
}

/** The first 32 bits behind the point of the second or third root of a prime, exact with whole numbers. */
function fraction(prime, root) {
  const scaled = BigInt(prime) << BigInt(32 * root);
  let low = 0n;
  let high = 1n << 40n;
  while (low + 1n < high) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(root) <= scaled) low = middle;
    else high = middle;
  }
  return Number(BigInt.asIntN(32, low));
}
