import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { curls, paste } from '../support/firstSteps.ts';
import { run, startServer } from '../support/process.ts';
import { expectNoStart, PASSWORD } from '../support/securedFakeServer.ts';
import { tempDir } from '../support/tempDir.ts';

const NPM_START = ['npm', 'start'];
const STACK = /^\s+at /m;

describe('the first start', () => {
  test('prints commands that work with a configured key, issuer and audience', async () => {
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
});

describe('a start fails', () => {
  test('with all problems if the configuration is invalid', async () => {
    const { code, stdout, stderr } = await run({
      command: NPM_START,
      env: { DATA_DIR: tempDir(), PORT: '70000', LOG_LEVEL: 'loud', JWKS_URL: 'ftp://secret.example' },
    });
    expect(code).toBe(1);
    for (const name of ['PORT', 'LOG_LEVEL', 'JWKS_URL', 'JWT_ISSUER', 'JWT_AUDIENCE'])
      expect(stderr).toMatch(new RegExp(`^ +${name} `, 'm'));
    expect(stdout + stderr).not.toMatch(STACK);
    expect(stdout + stderr).not.toContain('secret');
  });

  test('for an unknown command, and prints the known ones', async () => {
    const { code, stdout, stderr } = await run({ command: [...NPM_START, '--', 'frobnicate'] });
    expect(code).toBe(1);
    expect(stdout).not.toContain('listening');
    expect(stderr).toContain('frobnicate');
    expect(stderr).toContain('npm run -s token');
    expect(stderr).not.toMatch(STACK);
  });

  test('with a message without the password if EventStoreDB refuses the password', () =>
    expectNoStart('wrong-password', 'tls=true&tlsCAFile=', /cannot use EVENTSTOREDB_URL: .*\bpassword\b/));

  test('with a message without the password if the connection string has an unknown option', () =>
    expectNoStart(PASSWORD, 'tls=true&tsl=true', /the connection string is invalid: .* unknown option/));
});
