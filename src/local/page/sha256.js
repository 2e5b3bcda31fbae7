// SHA-256 of a file that need not fit into memory (FIPS 180-4); the browser's own function takes only whole buffers.

// Up to this size the browser's own, faster function is used, bytes.
const WHOLE_MAX = 64 * 1024 * 1024;
// How much of a larger file is in memory at once, bytes; a multiple of the block.
const PIECE = 4 * 1024 * 1024;
const BLOCK = 64;

// The first 32 bits behind the point of a root of the first primes.
const primes = [];
for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
const roots = (list, root) => list.map((prime) => (prime ** (1 / root) * 2 ** 32) | 0);
const ROUNDS = roots(primes, 3);

// The digest of a file in hex. `signal` ends the work.
export async function fileDigest(file, signal, wholeMax = WHOLE_MAX) {
  if (file.size <= wholeMax) return hex(await digest(await file.arrayBuffer()));
  const state = Int32Array.from(roots(primes.slice(0, 8), 2));
  for (let at = 0; at < file.size; at += PIECE) {
    signal?.throwIfAborted();
    const bytes = new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
    const view = new DataView(at + PIECE < file.size ? bytes.buffer : padded(bytes, file.size));
    for (let block = 0; block < view.byteLength; block += BLOCK) take(state, view, block);
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => out.setInt32(index * 4, word));
  return hex(new Uint8Array(out.buffer));
}

// The digest of a buffer.
export const digest = async (buffer) => new Uint8Array(await crypto.subtle.digest("SHA-256", buffer));

const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Bytes in base64.
export const base64 = (bytes) => btoa(String.fromCharCode(...bytes));

// The last piece, one bit, zeros, and the length of the whole in bits.
function padded(bytes, size) {
  const all = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  all.set(bytes);
  all[bytes.length] = 0x80;
  new DataView(all.buffer).setBigUint64(all.length - 8, BigInt(size) * 8n);
  return all.buffer;
}

const words = new Int32Array(BLOCK);
const turned = (word, by) => (word >>> by) | (word << (32 - by));

function take(state, view, at) {
  for (let i = 0; i < 64; i += 1) {
    const x = words[i - 15];
    const y = words[i - 2];
    words[i] = i < 16 ? view.getInt32(at + i * 4) : (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3)) + (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10)) + words[i - 16] + words[i - 7];
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
    const two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => {
    state[index] += word;
  });
}
