import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto';

/** The DER of an Ed25519 private key (RFC 8410) before its 32 bytes. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The Ed25519 private key with these 32 bytes. */
export function privateKeyOf(seed: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' });
}

/** An Ed25519 private key, the same for the same name. */
export const keyNamed = (name: string): KeyObject => privateKeyOf(hash('sha256', name, 'buffer'));

/** The Ed25519 public key with these 32 bytes, in hexadecimal. */
export function publicKeyOf(hex: string): KeyObject {
  const der = Buffer.from(`302a300506032b6570032100${hex}`, 'hex'); // RFC 8410
  return createPublicKey({ key: der, format: 'der', type: 'spki' });
}
