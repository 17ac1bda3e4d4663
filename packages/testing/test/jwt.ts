import { type KeyObject, sign } from 'node:crypto';

/** A JWT assembled from its parts (RFC 7515 section 3.1), so that each part can be invalid. */
export function jwt(header: object, claims: object, signature: (input: Buffer) => Buffer): string {
  const base64url = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const input = `${base64url(header)}.${base64url(claims)}`;
  return `${input}.${signature(Buffer.from(input)).toString('base64url')}`;
}

/** A JWT with an Ed25519 signature. */
export function signedJwt(privateKey: KeyObject, claims: object, header: object = {}): string {
  return jwt({ alg: 'EdDSA', ...header }, claims, (input) => sign(null, input, privateKey));
}
