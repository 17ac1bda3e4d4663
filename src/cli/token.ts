import { createDataDir } from '@event-sourced/event-log/disk';
import { recordIssued } from '../issuedTokens.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { issueOwnToken, SCOPES } from '../tokens.ts';
import { type Context, write } from './context.ts';

type Options = { expires: string; scope?: string };

export async function tokenCommand(
  user: string,
  { expires, scope }: Options,
  { config, output, print }: Context,
): Promise<void> {
  if (config.jwksUrl) throw new Error('JWKS_URL is set: tokens come from the identity provider');
  if (!isUser(user)) throw new Error(`the user must be ${USER_RULE}`);
  if (scope?.split(' ').some((one) => !SCOPES.includes(one)))
    throw new Error(`the scopes are ${SCOPES.join(' and ')}, separated by a space`);
  createDataDir(config.dataDir);
  const { token, isNewKey } = await issueOwnToken(user, { lifetime: expires, scope }, config);
  await recordIssued(token, config.dataDir);
  await write(output, `${token}\n`);
  if (isNewKey) print(`created the key ${config.keyFile}`);
}
