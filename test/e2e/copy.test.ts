import { existsSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { logWith, rowsIn } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test, vi } from 'vitest';
import { MerkleTree } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { expectRefused, failure, runCli, withoutProgress } from '../support/cli.ts';
import { createPlants, listsOf } from '../support/plants.ts';
import { startService } from '../support/service.ts';

const copying = (from: string, to: string) => runCli(['copy', '--from', from, '--to', to]);
const copy = async (from: string, to: string) => withoutProgress(await copying(from, to));

const SAME_LOCATION = '--from and --to are the same location';
const SECRET = 'Hush-7.3';
const UNAVAILABLE = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

describe('copy', () => {
  test('copies all plants to EventStoreDB, where a service lists the same, and the same log back', async () => {
    const copied = ended('copied 5 events: both logs have the same 5 events');
    const home = await startService();
    await createPlants(home);
    const lists = await listsOf(home);
    expect(lists.map((list) => list.length)).toEqual([3, 2]);
    await home.close();

    const fake = await startFakeServer();
    expect(await copy(home.dir, fake.url)).toEqual(copied);
    const moved = await startService({ DATA_DIR: home.dir, EVENTSTOREDB_URL: fake.url });
    expect(await listsOf(moved)).toEqual(lists);
    expect((await moved.as('alice').create(1n, { name: 'Fern', tag: 'indoor' })).status).toBe(200);
    expect((await moved.as('alice').create(1n, { name: 'Another' })).status).toBe(400);

    const dir = join(tempDir(), 'new', 'data');
    expect(await copy(fake.url, dir)).toEqual(copied);
    expect(readdirSync(dir).sort()).toEqual(['lock.db', 'log.db']);
    expect(rowsIn(join(dir, 'log.db'))).toEqual(rowsIn(join(home.dir, 'log.db')));
  });

  test('copies nothing to a target with the same events, and rejects it once someone has inserted a space in its JSON', async () => {
    const [from, to] = [logWith({ events: 3 }), logWith({ events: 3 })];
    expect(await copy(from, to)).toEqual(ended('nothing to copy: both logs have the same 3 events'));
    using db = new DatabaseSync(join(to, 'log.db'));
    db.exec(`DROP TRIGGER events_are_never_updated; UPDATE events SET data = data || ' ' WHERE position = 2`);
    const reason = /position 2 of the source and 2 of the target differ in data/;
    expectRefused(await copy(from, to), reason);
  });

  test('fails if the Merkle roots differ', async () => {
    using _ = vi.spyOn(MerkleTree.prototype, 'root').mockReturnValueOnce('0'.repeat(64));
    const reason = /the Merkle roots differ: 0{64} of the source, [\da-f]{64} of the target/;
    expectRefused(await copy(logWith({ events: 3 }), tempDir()), reason);
  });

  test('rejects the directory of a running service as source or target', async () => {
    const { dir, url } = await startService();
    const reason = `the data directory ${dir} is in use by another server; stop it first`;
    expect(await copy(dir, tempDir())).toEqual(failure(`--from: ${reason}`));
    expect(await copy(logWith({ events: 1 }), dir)).toEqual(failure(`--to: ${reason}`));
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  });
});

function ended(result: string) {
  return { code: 0, stdout: `${result}\n`, stderr: '' };
}

describe('a copy is rejected', () => {
  test('with an empty location', async () => {
    const refused = await refusal(['--from', './data', '--to', '']);
    expect(refused).toBe('--to must be a connection string or a directory');
  });

  test.each([
    ['of an unknown scheme', `mongodb://admin:${SECRET}@localhost`],
    ['without its scheme', `admin:${SECRET}@localhost:2113`],
    ['with a missing slash', `esdb:/admin:${SECRET}@localhost:2113`],
    ['with an @ in the password', `esdb://admin:${SECRET}@@localhost:2113`],
    ['with an unknown option', `esdb://admin:${SECRET}@localhost?tsl=${SECRET}`],
  ])('with a connection string %s, which is not printed', async (_, url) => {
    const dir = logWith({ events: 1 });
    for (const [option, args] of [
      ['--from', ['--from', url, '--to', dir]],
      ['--to', ['--from', dir, '--to', url]],
    ] as const)
      expect(await refusal([...args])).toMatch(
        new RegExp(`^${option} must be a|cannot use ${option}: the connection string is invalid: `),
      );
  });

  test('from a directory to itself, however it is written', async () => {
    const dir = tempDir();
    const link = join(tempDir(), 'link');
    symlinkSync(dir, link);
    for (const same of [dir, `${dir}/`, link, relative('.', dir)])
      expect(await refusal(['--from', dir, '--to', same])).toBe(SAME_LOCATION);
  });

  test('from a server to itself', async () => {
    for (const same of [UNAVAILABLE, UNAVAILABLE.replace('esdb', 'kurrentdb')])
      expect(await refusal(['--from', UNAVAILABLE, '--to', same])).toBe(SAME_LOCATION);
  });

  test('from a directory without a log, and none is created', async () => {
    const to = join(tempDir(), 'to');
    const [missing, empty, withEmptyFile] = [join(tempDir(), 'missing'), tempDir(), tempDir()];
    writeFileSync(join(withEmptyFile, 'log.db'), '');
    for (const dir of [missing, empty, withEmptyFile])
      expect(await refusal(['--from', dir, '--to', to])).toBe(`--from: there is no log in ${dir}`);
    expect([missing, to].map((dir) => existsSync(dir))).toEqual([false, false]);
    expect(readdirSync(empty)).toEqual([]);
    expect(statSync(join(withEmptyFile, 'log.db')).size).toBe(0);
  });

  test('if a directory or its log is something else', async () => {
    const dir = tempDir();
    writeFileSync(join(dir, 'log.db'), 'no SQLite');
    expect(await refusal(['--from', dir, '--to', tempDir()])).toMatch(/^--from: cannot use the log .*: /);
    const from = logWith({ events: 1 });
    expect(await refusal(['--from', from, '--to', dir])).toMatch(/^--to: cannot use the log .*: /);
    const file = join(dir, 'log.db');
    const ofFile = await refusal(['--from', from, '--to', file]);
    expect(ofFile).toMatch(/^--to: cannot use the data directory .*: /);
  });
});

/** The one line that a rejected copy prints. */
async function refusal(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(['copy', ...args]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(stderr).not.toContain(SECRET);
  return stderr.trimEnd();
}
