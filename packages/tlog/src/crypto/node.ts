import { hash } from 'node:crypto';

/** SHA-256 in hexadecimal, of bytes or of text in UTF-8. It is synchronous: a tree needs millions of hashes. */
export const sha256 = (data: string | Uint8Array): string => hash('sha256', data);
