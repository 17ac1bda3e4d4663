import { sha256 as hash } from '@noble/hashes/sha2.js';
import { toHex, toUtf8 } from '../bytes.ts';

// For runtimes without node:crypto. The SHA-256 of WebCrypto is asynchronous.

export const sha256 = (data: string | Uint8Array): string =>
  toHex(hash(typeof data === 'string' ? toUtf8(data) : data));
