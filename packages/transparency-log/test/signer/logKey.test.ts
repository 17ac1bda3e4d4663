import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { loadOrCreateKey, UnusableKey } from '../../../node/src/files/keyFile.ts';
import { loadExistingLogKey, loadLogKey } from '../../src/signer/logKey.ts';

const locationIn = (dir: string) => ({
  logKeyFile: join(dir, 'log-key.json'),
  keyFile: join(dir, 'key.json'),
  logOrigin: 'log.example',
});

test('the key of a log is created once, with the format of its file', () => {
  const location = locationIn(tempDir());
  const created = loadLogKey(location);
  expect(created.isNew).toBe(true);
  expect(loadExistingLogKey(location).verifierKey).toEqual(created.verifierKey);
  expect(JSON.parse(readFileSync(location.logKeyFile, 'utf8'))).toEqual({
    format: 2,
    key: { crv: 'Ed25519', d: expect.any(String), kty: 'OKP', x: expect.any(String) },
  });
});

test('a key of version 1 is refused with what to do, and stays as it is', () => {
  const location = locationIn(tempDir());
  loadOrCreateKey(location.logKeyFile);
  const before = readFileSync(location.logKeyFile, 'utf8');
  for (const load of [loadLogKey, loadExistingLogKey]) {
    expect(() => load(location)).toThrow(UnusableKey);
    expect(() => load(location)).toThrow(
      `cannot use the key file ${location.logKeyFile}: it has signed the tree of version 1, which has other roots; set a new LOG_KEY_FILE and a new LOG_ORIGIN for all instances, and give auditors the new verifier key`,
    );
  }
  expect(readFileSync(location.logKeyFile, 'utf8')).toBe(before);
});

test.each(['{}', '[]', 'null', '{"format":3}', '{"format":2}', '{"format":2,"key":{"kty":"OKP"}}', 'x'])(
  '%s is not the key of a log, and is not quoted',
  (text) => {
    const location = locationIn(tempDir());
    writeFileSync(location.logKeyFile, text, { mode: 0o600 });
    expect(() => loadLogKey(location)).toThrow(/: it is not (the key of a log|a private key in JWK format)$/);
  },
);

test('the key for tokens must be another one', () => {
  const location = locationIn(tempDir());
  loadLogKey(location);
  const { key } = JSON.parse(readFileSync(location.logKeyFile, 'utf8'));
  writeFileSync(location.keyFile, JSON.stringify(key), { mode: 0o600 });
  expect(() => loadLogKey(location)).toThrow('must have different keys');
});
