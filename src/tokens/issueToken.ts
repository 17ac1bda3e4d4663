import type { KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';
import { isUser } from '../user.ts';

type Grant = {
  user: string;
  /** A number and a unit: 90s, 15m, 12h, 30d, 8w, 1y. */
  expires: string;
  scope?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
};

/**
 * A JWT (RFC 7519) for a user, signed with the service's own key.
 * @throws Error naming what is wrong with the grant
 */
export async function issueToken(
  privateKey: KeyObject,
  { user, expires, scope, issuer, audience }: Grant,
): Promise<string> {
  if (!isUser(user)) throw new Error('a user has 1 to 255 characters, none of them a control character');
  if (!/^[1-9]\d{0,5}[smhdwy]$/.test(expires))
    throw new Error(`--expires takes a number and a unit, such as 30d, not ${expires}`);
  // RFC 6749 section 3.3: scope tokens of visible ASCII, without quote and backslash
  if (scope !== undefined && !/^[!#-[\]-~]+( [!#-[\]-~]+)*$/.test(scope))
    throw new Error('--scope takes names separated by a space');
  const jwt = new SignJWT(scope === undefined ? {} : { scope })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT' })
    .setSubject(user)
    .setIssuedAt()
    .setExpirationTime(expires);
  if (issuer) jwt.setIssuer(issuer);
  if (audience) jwt.setAudience(audience);
  return jwt.sign(privateKey);
}
