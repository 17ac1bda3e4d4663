import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { curls, paste } from '../support/firstSteps.ts';
import { expectNoStart, PASSWORD } from '../support/securedFakeServer.ts';
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

describe('a start fails', () => {
  test('with a message without the password if EventStoreDB refuses the password', () =>
    expectNoStart('wrong-password', 'tls=true&tlsCAFile=', /cannot use EVENTSTOREDB_URL: .*\bpassword\b/));

  test('with a message without the password if the connection string has an unknown option', () =>
    expectNoStart(PASSWORD, 'tls=true&tsl=true', /the connection string is invalid: .* unknown option/));
});
