import type { RequestListener } from 'node:http';
import type { SigningKey } from '@event-sourced/testing/identityProvider';
import { listen } from '@event-sourced/testing/rawHttp';
import { type Adapter, Provider } from 'oidc-provider';

/**
 * An OpenID provider whose clients `alice` and `bob` get JWTs for themselves (client credentials, RFC 6749
 * section 4.4) and for an audience of their choice (RFC 8707).
 */
export async function startOpenIdProvider(key: SigningKey, atPort = 0) {
  const { alg } = key;
  let handler: RequestListener = () => {};
  const { port, close } = await listen((request, response) => handler(request, response), atPort);
  const issuer = `http://127.0.0.1:${port}`;
  handler = new Provider(issuer, {
    jwks: { keys: [key.private] },
    clients: ['alice', 'bob'].map((client_id) => ({
      client_id,
      client_secret: `the secret of ${client_id}`,
      token_endpoint_auth_method: 'client_secret_post',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    clientDefaults: { id_token_signed_response_alg: alg },
    adapter: EmptyAdapter,
    ttl: { ClientCredentials: 3600 },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, audience) => ({
          audience,
          scope: '',
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg } },
        }),
      },
    },
  }).callback();

  const token = async (client: 'alice' | 'bob', audience: string): Promise<string> => {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: client,
        client_secret: `the secret of ${client}`,
        resource: audience,
      }),
    });
    if (!response.ok) throw new Error(await response.text());
    return ((await response.json()) as { access_token: string }).access_token;
  };
  return { issuer, port, token, close };
}

/** An empty store: clients are in the configuration, and JWTs are self-contained. */
class EmptyAdapter implements Adapter {
  async upsert(): Promise<undefined> {}
  async find(): Promise<undefined> {}
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<undefined> {}
  async destroy(): Promise<undefined> {}
  async revokeByGrantId(): Promise<undefined> {}
}
