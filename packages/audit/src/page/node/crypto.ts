import { sha256 } from '@noble/hashes/sha2.js';

// A synchronous `hash` for browsers: WebCrypto is asynchronous, and a Merkle tree needs millions of hashes.

const encoder = new TextEncoder();

export function hash(_algorithm: 'sha256', data: string | Uint8Array): string {
  return sha256(typeof data === 'string' ? encoder.encode(data) : data).toHex();
}
