import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listen } from '@event-sourced/testing/rawHttp';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { formatVerifierKey, parseVerifierKey } from '../../src/notes/signedNote.ts';
import { signNote } from '../../src/sign/signCheckpoint.ts';
import { verifyCosignatures } from '../../src/witness/cosignature.ts';
import { keyNamed } from '../notes/keys.ts';
import { expectRefused, startCommand } from '../support/program.ts';
import { checkpointOf, LOG_ID, LOG_KEY, ORIGIN, request, WITNESS } from '../witness/testLog.ts';

const KEY = formatVerifierKey(LOG_KEY);

/** Starts the command with these options, and others that have defaults here. */
function start(dir: string, options: Record<string, string> = {}, logs = `# logs\n\n ${KEY}\r\n`) {
  writeFileSync(join(dir, 'logs'), logs);
  const files = Object.fromEntries(['key', 'logs', 'state'].map((name) => [name, join(dir, name)]));
  const all = Object.entries({ ...files, name: WITNESS.name, port: '0', ...options });
  return startCommand(['witness', ...all.map(([name, value]) => `--${name}=${value}`)]);
}

/** What it prints once it listens. */
async function started({ printed, stdout }: ReturnType<typeof start>) {
  await printed(/listening at/);
  const [, vkey = '', url] = /^verifier key (\S+)\nlistening at (http:\S+)\n$/.exec(stdout()) ?? [];
  return { key: parseVerifierKey(vkey, ['cosignature']), url };
}

test('the command creates a key, prints its verifier key and URL, and cosigns until it is stopped', async () => {
  const dir = tempDir();
  const first = start(dir);
  const { key, url } = await started(first);
  expect(['key', 'state'].map((name) => statSync(join(dir, name)).mode & 0o777)).toEqual([0o600, 0o700]);
  const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body: request('abc') });
  const note = checkpointOf(request('abc')) + (await response.text());
  expect(verifyCosignatures(note, [key])).toHaveLength(1);
  expectRefused(await start(dir).ended, /the data directory \S+state is in use by another server/);
  first.stop();
  expect((await first.ended).stderr).toBe('');
  await expect(fetch(`${url}`)).rejects.toThrow();

  const renamed = start(dir, { name: 'witness.example/w2' });
  expect((await started(renamed)).key.publicKey).toEqual(key.publicKey);
  renamed.stop();
  expect((await renamed.ended).stderr).toMatch(RegExp(`cannot use ${join(dir, 'state', LOG_ID)}: .*\n$`));
});

test('a log may have another origin than the name of its key', async () => {
  const witness = start(tempDir(), {}, `${KEY} go.sum database tree # a comment\n`);
  const { url } = await started(witness);
  const body = (origin: string) => {
    const text = checkpointOf(request('abc')).split('\n').slice(1, 3).join('\n');
    return `old 0\n\n${signNote(`${origin}\n${text}\n`, { name: ORIGIN, key: keyNamed('log') })}`;
  };
  for (const [origin, status] of [
    ['go.sum database tree', 200],
    [ORIGIN, 404],
  ] as const) {
    const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body: body(origin) });
    expect(response.status).toBe(status);
  }
  witness.stop();
  await witness.ended;
});

test.each<[Record<string, string>, string, RegExp]>([
  [{ name: 'two words' }, KEY, /--name must be a name without spaces/],
  [{ port: '70000' }, KEY, /--port must be a port/],
  [{ host: '192.0.2.1' }, KEY, /cannot use --port and --host: .*192\.0\.2\.1/],
  [{ logs: '/nothing' }, KEY, /cannot read the file of --logs: ENOENT/],
  [{ state: '/nothing/here' }, KEY, /ENOENT.*\/nothing\/here/],
  [{}, `${KEY}\n\nlog.example`, /logs, line 3: the key must be a verifier key/],
  [{}, `${KEY}\n${KEY.replace('log.', 'lag.')}`, /logs, line 2: the ID of the verifier key/],
])('with %j and the logs %j it reports the problem in one line', async (options, logs, line) => {
  expectRefused(await start(tempDir(), options, logs).ended, line);
});

test('a start that cannot listen creates nothing', async () => {
  const { port } = await listen(() => {});
  const dir = tempDir();
  expectRefused(await start(dir, { port: `${port}` }).ended, /cannot use --port and --host: .*EADDRINUSE/);
  expect(readdirSync(dir)).toEqual(['logs']);
});
