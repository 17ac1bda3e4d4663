import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curls, paste } from '../support/firstSteps.ts';
import { run } from '../support/process.ts';
import { expectNoPassword, MOST_VERBOSE, PASSWORD, secured } from '../support/securedFakeServer.ts';
import { startServer } from '../support/server.ts';
import { tempDir } from '../support/tempDir.ts';

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

test.each([
  ['EventStoreDB refuses the password', 'wrong-password', '', /cannot use EVENTSTOREDB_URL: .*\bpassword\b/],
  [
    'the connection string has an unknown option',
    PASSWORD,
    '&tsl=true',
    /EVENTSTOREDB_URL.*\s+the connection string is invalid: .* unknown option/,
  ],
])('a start fails with a message without the password if %s', async (_, password, options, message) => {
  const { cert, at } = await secured();
  const EVENTSTOREDB_URL = `esdb://${at(password)}?tls=true&tlsCAFile=${cert}${options}`;
  const ended = await run({ env: { EVENTSTOREDB_URL, DATA_DIR: tempDir(), ...MOST_VERBOSE } });
  expect(ended).toMatchObject({ code: 1, stdout: expect.not.stringContaining('listening') });
  expect(ended.stderr).toMatch(message);
  expectNoPassword(ended.stdout + ended.stderr, password);
});
