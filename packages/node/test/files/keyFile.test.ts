import { generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import fs, { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { asNobody } from '@event-sourced/testing/asNobody';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { loadOrCreateKey, UnusableKey } from '../../src/files/keyFile.ts';

const jwkOf = (key: KeyObject): string => JSON.stringify(key.export({ format: 'jwk' }));

/** The error of loading this file. */
function refusal(file: string): UnusableKey {
  try {
    loadOrCreateKey(file);
  } catch (error) {
    expect(error).toBeInstanceOf(UnusableKey);
    return error as UnusableKey;
  }
  throw new Error('the key was loaded');
}

describe('without a key file', () => {
  test('is created with an Ed25519 key pair and access for its owner only, and no other file', () => {
    const dir = tempDir();
    const file = join(dir, 'key.json');
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const { privateKey, publicKey, isNew } = loadOrCreateKey(file);
    expect(isNew).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(publicKey.asymmetricKeyType).toBe('ed25519');
    expect(readdirSync(dir)).toEqual(['key.json']);
    const text = Buffer.from('Fern');
    expect(verify(null, text, publicKey, sign(null, text, privateKey))).toBe(true);
  });

  test('two concurrent starts get the same key', async () => {
    const dir = tempDir();
    const starters = 2;
    const rounds = 50;
    // Both threads start each round together: `arrived` counts them.
    const race = `
      const { workerData, parentPort } = require('node:worker_threads');
      import(workerData.module).then(({ loadOrCreateKey }) => {
        const arrived = new Int32Array(workerData.arrived);
        const keys = [];
        for (let round = 0; round < ${rounds}; round++) {
          Atomics.add(arrived, round, 1);
          while (Atomics.load(arrived, round) < ${starters});
          const { publicKey } = loadOrCreateKey(workerData.dir + '/' + round + '.json');
          keys.push(publicKey.export({ format: 'jwk' }).x);
        }
        parentPort.postMessage(keys);
      });`;
    const workerData = {
      dir,
      arrived: new SharedArrayBuffer(4 * rounds),
      module: new URL('../../src/files/keyFile.ts', import.meta.url).href,
    };
    const results = await Promise.all(
      Array.from({ length: starters }, () => {
        const { promise, resolve, reject } = Promise.withResolvers<string[]>();
        const thread = new Worker(race, { eval: true, workerData });
        onTestFinished(async () => void (await thread.terminate()));
        thread.once('message', resolve).once('error', reject);
        return promise;
      }),
    );
    const [first] = results;
    expect(new Set(first).size).toBe(rounds);
    expect(results).toEqual(results.map(() => first));
    expect(readdirSync(dir)).toHaveLength(rounds);
  });

  test.each([
    ['without write permission', 0o555, 'key.json', 'EACCES'],
    ['that does not exist', 0o755, 'missing/key.json', 'ENOENT'],
  ])('a directory %s is reported with its error code', (_which, mode, name, code) => {
    const dir = tempDir();
    chmodSync(dir, mode);
    onTestFinished(() => chmodSync(dir, 0o700));
    const file = join(dir, name);
    const { message } = asNobody(() => refusal(file));
    expect(message).toContain(`cannot use the key file ${file}: ${code}`);
  });
});

test('on a file system that does not keep modes, no key is created', () => {
  const dir = tempDir();
  const file = join(dir, 'key.json');
  const { fstatSync } = fs;
  const fixedMode = vi
    .spyOn(fs, 'fstatSync')
    .mockImplementation((fd) => Object.assign(fstatSync(fd), { mode: 0o100777 }));
  syncBuiltinESMExports();
  onTestFinished(() => {
    fixedMode.mockRestore();
    syncBuiltinESMExports();
  });
  expect(refusal(file).message).toBe(
    `cannot use the key file ${file}: its file system does not keep modes, so other users could read the key; set KEY_FILE or LOG_KEY_FILE to a file elsewhere`,
  );
  expect(readdirSync(dir)).toEqual([]);
});

describe('a key file', () => {
  test.each([0o600, 0o400])('with permissions for its owner (%o) is loaded, and not changed', (mode) => {
    const file = join(tempDir(), 'key.json');
    const made = loadOrCreateKey(file);
    chmodSync(file, mode);
    const content = readFileSync(file, 'utf8');
    const loaded = loadOrCreateKey(file);
    expect(loaded.isNew).toBe(false);
    expect(loaded.privateKey.equals(made.privateKey)).toBe(true);
    expect(loaded.publicKey.equals(made.publicKey)).toBe(true);
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test.each([0o640, 0o602])('with permissions for others (%o) is rejected, with the fix', (mode) => {
    const file = join(tempDir(), 'key.json');
    loadOrCreateKey(file);
    chmodSync(file, mode);
    expect(() => loadOrCreateKey(file)).toThrow(
      new UnusableKey(`cannot use the key file ${file}: other users can read it; run: chmod 600 ${file}`),
    );
  });

  const ed25519 = generateKeyPairSync('ed25519');
  test.each([
    ['no content', ''],
    ['garbage', 'hunter2: a secret of another kind'],
    ['a truncated key', jwkOf(ed25519.privateKey).slice(0, -10)],
    ['only the public key', jwkOf(ed25519.publicKey)],
    ['a P-256 key', jwkOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)],
    ['a symmetric key', JSON.stringify({ kty: 'oct', k: 'aHVudGVyMiBodW50ZXIyIGh1bnRlcjI' })],
  ])('with %s is rejected with its path, but without its content', (_what, content) => {
    const file = join(tempDir(), 'key.json');
    writeFileSync(file, content, { mode: 0o600 });
    const error = refusal(file);
    expect(error.message).toContain(`cannot use the key file ${file}: it`);
    const shown = inspect(error, { depth: null });
    // Secrets are long or at the start of the file; words such as the key's type are not secret.
    for (const secret of content.match(/hunter2|[\w-]{20,}/g) ?? []) expect(shown).not.toContain(secret);
    expect(readFileSync(file, 'utf8')).toBe(content);
  });
});
