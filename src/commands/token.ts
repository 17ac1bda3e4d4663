import { makeDataDir } from '../dataDir.ts';
import { issueToken } from '../tokens/issueToken.ts';
import { loadOrCreateKey } from '../tokens/keyFile.ts';
import { type Surroundings, write } from './surroundings.ts';

type Options = { expires: string; scope?: string };

/** Prints a token for a user, signed with the service's own key, which is made where there is none. */
export async function tokenCommand(
  user: string,
  options: Options,
  { config, output }: Surroundings,
): Promise<void> {
  const { jwksUrl, issuer, audience, dataDir, keyFile } = config;
  if (jwksUrl) throw new Error('JWKS_URL is set: tokens come from the identity provider');
  makeDataDir(dataDir);
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { user, ...options, issuer, audience });
  await write(output, `${token}\n`);
}
