import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { checkpointOf, startService, startServiceWithTree } from '../support/service.ts';

test('log-key prints the same verifier key each time, and creates the private key for its owner', async () => {
  const DATA_DIR = join(tempDir(), 'data');
  const env = { DATA_DIR, LOG_ORIGIN: 'plants.example/log' };
  const { stdout: vkey, ...created } = await runCli(['log-key'], env);
  expect(created).toEqual({ code: 0, stderr: `created the key ${DATA_DIR}/log-key.json\n` });
  expect(vkey).toMatch(/^plants\.example\/log\+[\da-f]{8}\+AQ?[\w+/]+=*\n$/);
  expect(succeeded(await runCli(['log-key'], env))).toBe(vkey);
  expect(readdirSync(DATA_DIR)).toEqual(['log-key.json']);
  expect(statSync(join(DATA_DIR, 'log-key.json')).mode & 0o777).toBe(0o600);
  const other = succeeded(await runCli(['log-key'], { ...env, LOG_ORIGIN: 'plants.example/log2' }));
  expect(other.split('+')[2]).toBe(vkey.split('+')[2]); // the same key under another name has another ID
  expect(other.split('+')[1]).not.toBe(vkey.split('+')[1]);
});

test('log-key says if the log has signed with another key or origin', async () => {
  const { dir, close, as } = await startServiceWithTree({ EVENT_SOURCE: 'https://plants.example' });
  await checkpointOf(0, as('carol', 'audit'));
  await close();
  const env = { DATA_DIR: dir, EVENT_SOURCE: 'https://plants.example' };
  const [, id] = succeeded(await runCli(['log-key'], env)).split('+');
  const { code, stderr } = await runCli(['log-key'], { DATA_DIR: dir });
  expect([code, stderr]).toEqual([
    0,
    `the log has signed checkpoint-${id} with another LOG_KEY_FILE, LOG_ORIGIN or EVENT_SOURCE: this is not its key\n`,
  ]);
});

test('log-key refuses the key that signs tokens', async () => {
  const { dir, close } = await startService();
  await close();
  const key = JSON.parse(readFileSync(join(dir, 'key.json'), 'utf8'));
  writeFileSync(join(dir, 'log-key.json'), JSON.stringify({ format: 2, key }), { mode: 0o600 });
  expectRefused(
    await runCli(['log-key'], { DATA_DIR: dir }),
    /log-key\.json and .*key\.json must have different keys/,
  );
});
