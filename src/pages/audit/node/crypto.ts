// SHA-256 (FIPS 180-4) for browsers under the name that the modules of the server import: their own, in
// WebCrypto, returns promises, and a Merkle tree needs millions of hashes.

/** The SHA-256 of bytes, or of a text in UTF-8, in hexadecimal. */
export function hash(_algorithm: 'sha256', data: string | Uint8Array): string {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const state = INITIAL.slice();
  const rest = bytes.length % BLOCK_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length - rest; at += BLOCK_BYTES) addBlock(state, view, at);
  // The last blocks: what is left, a bit 1, zeros, and the length in bits.
  const last = new Uint8Array(rest < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES);
  last.set(bytes.subarray(bytes.length - rest));
  last[rest] = 0x80;
  const lastView = new DataView(last.buffer);
  lastView.setBigUint64(last.length - 8, 8n * BigInt(bytes.length));
  for (let at = 0; at < last.length; at += BLOCK_BYTES) addBlock(state, lastView, at);
  return state.reduce((hex, word) => hex + (word >>> 0).toString(16).padStart(8, '0'), '');
}

const BLOCK_BYTES = 64;

/** The first 32 bits of the fractional parts of the roots of the first primes: the constants of the standard. */
const fractions = (count: number, root: (prime: number) => number): Int32Array => {
  const values: number[] = [];
  const primes: number[] = [];
  for (let n = 2; values.length < count; n++) {
    if (primes.some((prime) => n % prime === 0)) continue;
    primes.push(n);
    values.push(Math.floor((root(n) % 1) * 2 ** 32));
  }
  return Int32Array.from(values);
};
const INITIAL = fractions(8, Math.sqrt);
const ROUNDS = fractions(64, Math.cbrt);

const schedule = new Int32Array(64);

/** The compression function of section 6.2.2, with the names of the standard. */
function addBlock(state: Int32Array, block: DataView, at: number): void {
  const w = schedule;
  for (let t = 0; t < 16; t++) w[t] = block.getInt32(at + 4 * t);
  for (let t = 16; t < 64; t++) {
    const w15 = w[t - 15] as number;
    const w2 = w[t - 2] as number;
    const s0 = rotated(w15, 7) ^ rotated(w15, 18) ^ (w15 >>> 3);
    const s1 = rotated(w2, 17) ^ rotated(w2, 19) ^ (w2 >>> 10);
    w[t] = (w[t - 16] as number) + s0 + (w[t - 7] as number) + s1;
  }
  let a = state[0] as number;
  let b = state[1] as number;
  let c = state[2] as number;
  let d = state[3] as number;
  let e = state[4] as number;
  let f = state[5] as number;
  let g = state[6] as number;
  let h = state[7] as number;
  for (let t = 0; t < 64; t++) {
    const sum1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const t1 = (h + sum1 + ((e & f) ^ (~e & g)) + (ROUNDS[t] as number) + (w[t] as number)) | 0;
    const sum0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
    const t2 = (sum0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = (state[0] as number) + a;
  state[1] = (state[1] as number) + b;
  state[2] = (state[2] as number) + c;
  state[3] = (state[3] as number) + d;
  state[4] = (state[4] as number) + e;
  state[5] = (state[5] as number) + f;
  state[6] = (state[6] as number) + g;
  state[7] = (state[7] as number) + h;
}

function rotated(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
