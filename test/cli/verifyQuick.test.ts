import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { runCli, succeeded } from '../support/cli.ts';
import { logWith, plantOf, writeTo } from '../support/logs.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

type Env = Record<string, string>;

const quick = (env: Env, ...args: string[]) => runCli(['verify', '--quick', ...args], env);

/** A log of 300 events, with its tree. */
async function logWithTree(): Promise<Env> {
  const DATA_DIR = logWith({ events: 300 });
  await runCli(['rebuild'], { DATA_DIR });
  return { DATA_DIR };
}

/** SIZE:ROOT of the complete log. */
async function rootOf(env: Env): Promise<string> {
  const { size, root } = JSON.parse(succeeded(await runCli(['verify', '--json'], env)));
  return `${size}:${root}`;
}

function change(env: Env, file: string, sql: string): void {
  using db = new DatabaseSync(join(env.DATA_DIR as string, file));
  const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
  for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
  db.exec(sql);
  for (const { sql } of triggers) db.exec(`${sql}`);
}

test('verify --quick prints size and root by the Merkle tree, and that it has not read the log', async () => {
  const env = await logWithTree();
  const expected = await rootOf(env);
  const [size, root] = expected.split(':');
  expect(succeeded(await quick(env))).toBe(`size      ${size}
position  300
root      ${root}
expect    ${expected}
log       not read, except for the last 44 events of the tree
problems  none
`);
  expect(JSON.parse(succeeded(await quick(env, '--json')))).toEqual({
    size: 300,
    position: '300',
    root,
    lastEvents: 44,
    problemCount: 0,
    problems: [],
  });
});

test('verify --quick prints the same root for EventStoreDB', async () => {
  const server = await startFakeServer();
  writeTo(server, plantOf('alice', 1, 'Fern'), plantOf('bob', 1, 'Oak'));
  const env = { DATA_DIR: tempDir(), EVENTSTOREDB_URL: server.url };
  await runCli(['rebuild'], env);
  const { size, root } = JSON.parse(succeeded(await quick(env, '--json')));
  expect(`${size}:${root}`).toBe(await rootOf(env));
});

test('verify --quick compares earlier roots with the tiles', async () => {
  const env = await logWithTree();
  const expected = await rootOf(env);
  logWith({ dir: env.DATA_DIR as string, events: 300, after: 300 });
  await runCli(['rebuild'], env);
  succeeded(await quick(env, '--expect', expected));
  const problemOf = async (expected: string) =>
    JSON.parse((await quick(env, '--json', '--expect', expected)).stdout).problems[0].problem;
  expect(await problemOf(expected.replace('300:', '299:'))).toMatch(
    /^the first 299 leaves of the Merkle tree are not the expected ones: their root is /,
  );
  expect(await problemOf(expected.replace('300:', '601:'))).toBe(
    'the Merkle tree has 600 leaves, fewer than the expected 601',
  );
});

test.for<[what: string, file: string, sql: string, problem: string]>([
  [
    'one of the last events altered',
    'log.db',
    "UPDATE events SET data = '{}' WHERE position = 290",
    'the Merkle tree is not that of the log: its last 44 leaves are not those of the log',
  ],
  [
    'the last event removed',
    'log.db',
    'DELETE FROM events WHERE position = 300',
    'the checkpoint of the Merkle tree names an event that the log does not have',
  ],
  [
    'the tree of another log',
    'merkleTree.db',
    "UPDATE checkpoint SET log_id = 's1'",
    'the Merkle tree belongs to another log: the next start rebuilds it',
  ],
])('verify --quick reports %s', async ([, file, sql, problem]) => {
  const env = await logWithTree();
  change(env, file, sql);
  const { code, stdout, stderr } = await quick(env, '--json');
  expect({ code, stderr }).toEqual({ code: 1, stderr: 'verification failed: 1 problem\n' });
  expect(JSON.parse(stdout).problems).toEqual([{ position: null, problem }]);
});

test('verify --quick does not find an earlier event that was altered', async () => {
  const env = await logWithTree();
  change(env, 'log.db', "UPDATE events SET data = '{}' WHERE position = 200");
  succeeded(await quick(env));
  expect((await runCli(['verify'], env)).code).toBe(1);
});

test('verify --quick fails in one line without a tree, or with one whose tiles contradict each other', async () => {
  const env = await logWithTree();
  change(
    env,
    'merkleTree.db',
    'UPDATE tiles SET hashes = CAST(zeroblob(8192) AS BLOB) WHERE level = 0 AND number = 0',
  );
  const contradictory = await quick(env);
  expect(contradictory).toMatchObject({ code: 1, stdout: '' });
  expect(contradictory.stderr).toMatch(
    /^cannot verify the Merkle tree .*merkleTree\.db: its tiles contradict each other: tile\/0\/000 does not have the hash .*\n$/,
  );
  rmSync(join(env.DATA_DIR as string, 'merkleTree.db'));
  const missing = await quick(env);
  expect(missing).toMatchObject({ code: 1, stdout: '' });
  expect(missing.stderr).toMatch(/^there is no .*merkleTree\.db, which --quick reads; verify without it\n$/);
});

test('verify has ended its threads when it fails', async () => {
  const threads: Worker[] = [];
  const onThread = (thread: Worker) => void threads.push(thread);
  process.on('worker', onThread);
  onTestFinished(() => void process.off('worker', onThread));
  expect((await quick({ DATA_DIR: logWith({ events: 3 }) })).code).toBe(1);
  expect(threads.map(({ threadId }) => threadId)).toEqual([-1]);
});
