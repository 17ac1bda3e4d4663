import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { listen } from './rawHttp.ts';

export const AUDIENCE = 'https://plants.example';

/** A private key for an identity provider to sign with. */
export async function signingKey(alg: 'RS256' | 'ES256') {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const kid = `the key of ${alg}`;
  const of = async (key: CryptoKey) => ({ ...(await exportJWK(key)), alg, kid, use: 'sig' });
  return { alg, kid, privateKey, private: await of(privateKey), public: await of(publicKey) };
}
export type SigningKey = Awaited<ReturnType<typeof signingKey>>;

/** A minimal identity provider: a key set, and JWTs. test/clients uses a real one. */
export async function startIdentityProvider({ alg, kid, privateKey, public: jwk }: SigningKey, atPort = 0) {
  const keys = JSON.stringify({ keys: [jwk] });
  const { port, close } = await listen((_request, response) => response.end(keys), atPort);
  const issuer = `http://127.0.0.1:${port}`;
  const token = (client: 'alice' | 'bob', audience: string): Promise<string> =>
    new SignJWT({ client_id: client, scope: '' })
      .setProtectedHeader({ alg, typ: 'at+jwt', kid })
      .setIssuer(issuer)
      .setSubject(client)
      .setAudience(audience)
      .setIssuedAt()
      .setExpirationTime('1h')
      .setJti(crypto.randomUUID())
      .sign(privateKey);
  return { issuer, port, token, close };
}
