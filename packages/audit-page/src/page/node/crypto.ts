import { sha256 } from '@noble/hashes/sha2.js';

// What the modules of the server use of node:crypto, for browsers. Their own SHA-256, in WebCrypto, returns
// promises, and a Merkle tree needs millions of hashes.

const encoder = new TextEncoder();

/** The SHA-256 of bytes, or of a text in UTF-8, in hexadecimal. */
export function hash(_algorithm: 'sha256', data: string | Uint8Array): string {
  return sha256(typeof data === 'string' ? encoder.encode(data) : data).toHex();
}
