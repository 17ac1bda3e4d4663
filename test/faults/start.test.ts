import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { curls, paste } from '../support/firstSteps.ts';
import { run } from '../support/process.ts';
import { expectNoPassword, MOST_VERBOSE, secured } from '../support/securedFakeServer.ts';
import { startServer } from '../support/server.ts';

test('the first start prints commands that work with a configured key, issuer and audience', async () => {
  const dir = tempDir();
  const server = await startServer({
    env: {
      DATA_DIR: join(dir, 'data'),
      KEY_FILE: join(dir, "Ann's key.json"),
      JWT_ISSUER: "Ann's",
      JWT_AUDIENCE: 'plant store',
    },
  });
  await server.printed(/(^curl.*\n){2}/m);
  const [post, get] = curls(server.stdout());
  expect(await paste(get as string)).toEqual([]);
  await paste(post as string);
  expect(await paste(get as string)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
});

test('a start fails with a message without the password if EventStoreDB refuses it', async () => {
  const { cert, at } = await secured();
  const EVENTSTOREDB_URL = `esdb://${at('wrong-password')}?tls=true&tlsCAFile=${cert}`;
  const ended = await run({ env: { EVENTSTOREDB_URL, DATA_DIR: tempDir(), ...MOST_VERBOSE } });
  expect(ended).toMatchObject({ code: 1, stdout: expect.not.stringContaining('listening') });
  expect(ended.stderr).toMatch(/cannot use EVENTSTOREDB_URL: .*\bpassword\b/);
  expectNoPassword(ended.stdout + ended.stderr, 'wrong-password');
});
