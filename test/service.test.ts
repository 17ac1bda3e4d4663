import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listen } from '@event-sourced/testing/rawHttp';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { readCommit, VERSION } from '../src/version.ts';
import { startService, startServiceWithTree } from './support/service.ts';

test('a service is new while its log has no plant', async () => {
  const DATA_DIR = tempDir();
  const first = await startService({ DATA_DIR });
  expect(first.isNew).toBe(true);
  await first.close();
  const second = await startService({ DATA_DIR });
  expect(second.isNew).toBe(true);
  await second.as('alice').create(1, { name: 'Fern' });
  await second.close();
  expect((await startService({ DATA_DIR })).isNew).toBe(false);
});

test('a start has one line with what runs, its log and its settings; its next start has no new log', async () => {
  const env = { DATA_DIR: tempDir(), EVENT_SOURCE: 'https://plants.example' };
  const startLine = async () => {
    const { as, log, close } = await startServiceWithTree(env);
    await as('alice').create(1, { name: 'Fern' });
    await close();
    const lines = log().filter(({ msg }) => msg.startsWith('starting'));
    expect(lines).toHaveLength(1);
    return lines[0];
  };
  const line = {
    level: 30,
    version: VERSION,
    node: process.version,
    log: 'sqlite',
    origin: 'plants.example',
    keyId: expect.stringMatching(/^[\da-f]{8}$/),
    settings: expect.objectContaining(env),
  };
  expect(await startLine()).toMatchObject({ ...line, position: '0', msg: 'starting with a new log' });
  expect(await startLine()).toMatchObject({ ...line, position: '1', msg: 'starting' });
});

test('the commit is that of the checkout or of the image', () => {
  const checkout = tempDir();
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(checkout, file)), { recursive: true });
    writeFileSync(join(checkout, file), text);
  };
  expect(readCommit(checkout, {})).toBeUndefined();
  write('.git/HEAD', 'ref: refs/heads/main\n');
  expect(readCommit(checkout, {})).toBeUndefined();
  write('.git/refs/heads/main', 'e7ce770b\n');
  expect(readCommit(checkout, {})).toBe('e7ce770b');
  write('.git/HEAD', 'c0ffee\n');
  expect(readCommit(checkout, {})).toBe('c0ffee');
  expect(readCommit(checkout, { IMAGE_COMMIT: 'abc' })).toBe('abc');
});

test('a start that creates the key of tokens beside an existing log warns: earlier tokens are invalid', async () => {
  const DATA_DIR = tempDir();
  const warnings = async () => {
    const { as, log, close } = await startService({ DATA_DIR });
    await as('alice').create(1, { name: 'Fern' });
    await close();
    return log().filter(({ msg }) => msg === 'created a new key: earlier tokens are invalid');
  };
  expect(await warnings()).toEqual([]);
  expect(await warnings()).toEqual([]);
  rmSync(join(DATA_DIR, 'key.json'));
  expect(await warnings()).toMatchObject([{ level: 40, file: `${DATA_DIR}/key.json` }]);
});

describe('a start fails with one line', () => {
  test.each(['PORT', 'METRICS_PORT'])(
    'with the setting %s if it is in use; nothing is created',
    async (name) => {
      const { port } = await listen(() => {});
      const DATA_DIR = join(tempDir(), 'data');
      const inUse = RegExp(`^cannot use ${name} and (METRICS_)?HOST: .*in use.*\\b${port}$`);
      await expect(startService({ DATA_DIR, [name]: `${port}` })).rejects.toThrow(inUse);
      expect(existsSync(DATA_DIR)).toBe(false);
    },
  );

  test.each(['PORT', 'METRICS_PORT'])('with the setting %s if it is in use later', async (name) => {
    const { port, close } = await listen(() => {});
    await close();
    const provider = await listen((_, response) => {
      void listen(() => {}, port).then(() => response.end('{"keys":[]}'));
    });
    const JWKS_URL = `http://127.0.0.1:${provider.port}/`;
    const env = { JWKS_URL, JWT_ISSUER: 'issuer', JWT_AUDIENCE: 'audience', [name]: `${port}` };
    await expect(startService(env)).rejects.toThrow(RegExp(`^cannot use ${name} and .*in use.*\\b${port}$`));
  });

  test('with the setting HOST if it is not an address of this machine', async () => {
    await expect(startService({ HOST: '192.0.2.1' })).rejects.toThrow(
      /^cannot use PORT and HOST: .*192\.0\.2\.1/,
    );
  });

  test('with the setting DATA_DIR if another server uses it', async () => {
    const DATA_DIR = tempDir();
    await startService({ DATA_DIR });
    await expect(startService({ DATA_DIR })).rejects.toThrow(
      `cannot use DATA_DIR: the data directory ${DATA_DIR} is in use by another server`,
    );
  });

  test('with the path of a key file that other users can read', async () => {
    const DATA_DIR = tempDir();
    writeFileSync(join(DATA_DIR, 'key.json'), '{}', { mode: 0o644 });
    await expect(startService({ DATA_DIR })).rejects.toThrow(/^cannot use the key file .*key\.json: .+$/);
  });

  test('with the path of a key file of the log without a key, unless there is no Merkle tree', async () => {
    const DATA_DIR = tempDir();
    writeFileSync(join(DATA_DIR, 'log-key.json'), '{}', { mode: 0o600 });
    await expect(startServiceWithTree({ DATA_DIR })).rejects.toThrow(
      /^cannot use the key file .*log-key\.json: .+$/,
    );
    const { as } = await startService({ DATA_DIR, MERKLE_TREE: 'off' });
    expect((await as('alice').create(1, { name: 'Fern' })).status).toBe(200);
  });

  test('with the path of a log that is missing beside its write-ahead log, until it is restored', async () => {
    const [dir, elsewhere] = [tempDir(), tempDir()];
    const { as } = await startService({ DATA_DIR: elsewhere });
    await as('alice').create(1, { name: 'Fern' });
    const file = join(dir, 'log.db');
    copyFileSync(join(elsewhere, 'log.db-wal'), `${file}-wal`); // as after a crash
    const wal = readFileSync(`${file}-wal`);
    await expect(startService({ DATA_DIR: dir })).rejects.toThrow(file);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    copyFileSync(join(elsewhere, 'log.db'), file);
    const again = await startService({ DATA_DIR: dir });
    expect(await again.as('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});
