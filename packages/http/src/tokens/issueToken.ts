import type { KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';

type Grant = {
  subject: string;
  /** A number and a unit: 90s, 15m, 12h, 30d, 8w, 1y. */
  lifetime: string;
  scope?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
};

/** Issues a JWT (RFC 7519), signed with the service's own key. @throws Error if the lifetime or the scope is invalid */
export async function issueToken(
  privateKey: KeyObject,
  { subject, lifetime, scope, issuer, audience }: Grant,
): Promise<string> {
  if (!/^[1-9]\d{0,5}[smhdwy]$/.test(lifetime))
    throw new Error(`the lifetime must be a number and a unit, such as 30d, not ${lifetime}`);
  // RFC 6749 section 3.3: scope tokens are visible ASCII without quotes and backslashes.
  if (scope !== undefined && !/^[!#-[\]-~]+( [!#-[\]-~]+)*$/.test(scope))
    throw new Error('the scope must be names, separated by spaces');
  const jwt = new SignJWT(scope === undefined ? {} : { scope })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT' })
    .setSubject(subject)
    .setIssuedAt()
    .setExpirationTime(lifetime);
  if (issuer) jwt.setIssuer(issuer);
  if (audience) jwt.setAudience(audience);
  return jwt.sign(privateKey);
}
