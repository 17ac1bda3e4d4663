import { createDataDir } from '@event-sourced/event-log/disk';
import { issueToken } from '@event-sourced/http/tokens';
import { loadOrCreateKey } from '@event-sourced/transparency-log/files';
import { isUser, USER_RULE } from '../plants/user.ts';
import { type Context, write } from './context.ts';

type Options = { expires: string; scope?: string };

/** Prints a token for a user, signed with the service's own key, which is created if it does not exist. */
export async function tokenCommand(
  user: string,
  { expires, scope }: Options,
  { config, output }: Context,
): Promise<void> {
  const { jwksUrl, issuer, audience, dataDir, keyFile } = config;
  if (jwksUrl) throw new Error('JWKS_URL is set: tokens come from the identity provider');
  if (!isUser(user)) throw new Error(`the user must be ${USER_RULE}`);
  createDataDir(dataDir);
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { subject: user, lifetime: expires, scope, issuer, audience });
  await write(output, `${token}\n`);
}
