import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { expectRefused, typed } from '../commands/typed.ts';
import { dirWith, startDouble } from '../copy/logs.ts';
import { canRun, MAIN, NODE, run, start } from '../support/process.ts';
import { type client, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const BACKUP = [NODE, MAIN, 'backup'];
const USERS = ['alice', 'bob'] as const;

const backup = (file: string, dir: string) => run({ command: [...BACKUP, file], env: { DATA_DIR: dir } });
const verify = (dir: string, ...args: string[]) =>
  run({ command: [NODE, MAIN, 'verify', ...args], env: { DATA_DIR: dir } });

/** So many events of alice and bob, as if they had been posted one after the other. */
function logWith(events: number): string {
  const dir = tempDir();
  using db = openLogFile(join(dir, 'log.db'));
  db.exec(`
    PRAGMA synchronous = OFF;
    BEGIN;
    WITH RECURSIVE plants (id, user) AS (
      SELECT 1, 'alice' UNION ALL SELECT id + 1, iif(id % 2, 'bob', 'alice') FROM plants WHERE id < ${events}
    )
    INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
    SELECT
      format('%08x-0000-7000-8000-000000000000', id), format('plant-%s/%d', user, id), 0, 'PlantCreated',
      json_object('id', CAST(id AS TEXT), 'user', user, 'name', 'plant ' || id),
      '{"$correlationId":"c","schemaVersion":1,"occurredAt":"2026-01-01T00:00:00.000Z"}', '2026-01-01T00:00:00.000Z'
    FROM plants;
    COMMIT;
  `);
  return dir;
}

type Row = { position: number; id: string; stream: string; data: string };

function rowsIn(file: string): Row[] {
  using db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  return db.prepare('SELECT position, id, stream, data FROM events ORDER BY position').all() as Row[];
}

/**
 * Plants of alice and bob, posted one after the other by each of several clients until told to stop, whether there is a
 * server or not. A name is posted once: it says whose plant it is, and which.
 */
function postOn(url: string, as: ReturnType<typeof client>) {
  const acknowledged: string[] = [];
  let ids = 0;
  let going = true;
  async function post(user: string): Promise<void> {
    while (going) {
      const id = ids++;
      const name = `${user} ${id}`;
      const answer = await as(user)
        .create(id, { name })
        .catch(() => undefined);
      if (answer?.status === 200) acknowledged.push(name);
      else await pause(10);
      await answer?.text();
    }
  }
  const posting = Promise.all([...USERS, ...USERS].map(post));
  return {
    url,
    acknowledged,
    more: (count: number) => {
      const least = acknowledged.length + count;
      return vi.waitUntil(() => acknowledged.length >= least, { timeout: 10_000, interval: 5 });
    },
    stop: async () => {
      going = false;
      await posting;
    },
  };
}

describe('npm run backup, while the service takes posts,', () => {
  test('makes a copy that is whole, is proven by the log, and can take its place', async () => {
    const home = await startService();
    const load = postOn(home.url, home.as);
    await load.more(100);

    const before = [...load.acknowledged];
    const file = join(tempDir(), 'copy.db');
    const { code, stdout, stderr } = await run({
      command: ['npm', 'run', '-s', 'backup', '--', file],
      env: { DATA_DIR: home.dir },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^[^\n]+\n$/) });
    const [, size, root] = /^(\d+):([\da-f]{64})\n$/.exec(stdout) ?? [];
    expect(readdirSync(dirname(file))).toEqual(['copy.db']);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const copied = rowsIn(file);
    expect(copied).toHaveLength(Number(size));
    const names = copied.map(({ data }) => JSON.parse(data).name);
    expect(new Set(names).isSupersetOf(new Set(before))).toBe(true);
    await load.more(50);
    expect(rowsIn(join(home.dir, 'log.db')).slice(0, copied.length)).toEqual(copied);
    expect(await verify(home.dir, '--expect', `${size}:${root}`)).toMatchObject({ code: 0 });

    // As README says: stop the service, put the copy in place, start.
    await home.close();
    for (const name of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(home.dir, name), { force: true });
    copyFileSync(file, join(home.dir, 'log.db'));
    const again = await startService({ DATA_DIR: home.dir, PORT: new URL(load.url).port });
    await load.more(100);
    const sinceRestore = load.acknowledged.slice(-100);
    for (const user of USERS) {
      const list = (await again.as(user).list()).map(({ name }) => name);
      const restored = names.filter((name) => name.startsWith(user));
      expect(list.slice(0, restored.length)).toEqual(restored);
      const added = new Set(list.slice(restored.length));
      expect(added.isSupersetOf(new Set(sinceRestore.filter((name) => name.startsWith(user))))).toBe(true);
      expect(added.isDisjointFrom(new Set(before))).toBe(true);
    }
    const verified = await verify(home.dir, '--expect', `${size}:${root}`);
    expect(verified).toMatchObject({ code: 0, stdout: expect.stringMatching(/^faults +none$/m) });
    const compared = async (): Promise<string> => (await verify(home.dir)).stdout;
    await expect.poll(compared, { timeout: 20_000 }).toMatch(/^view +compared up to position [1-9]/m);
    await load.stop();
    await again.close();
    expect(await verify(home.dir)).toMatchObject({ code: 0 });
  });
});

describe('npm run backup of a service that is stopped', () => {
  test('makes the same copy, which lets nothing be changed either', async () => {
    const [dir, file] = [logWith(1_001), join(tempDir(), 'copy.db')];
    const { code, stdout } = await backup(file, dir);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^1001:[\da-f]{64}\n$/) });
    expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
    using db = new DatabaseSync(file);
    expect(() => db.exec("UPDATE events SET type = 'x'")).toThrow(/append-only/);
    expect(() => db.exec('DELETE FROM events')).toThrow(/append-only/);
    const restored = tempDir();
    copyFileSync(file, join(restored, 'log.db'));
    expect(await verify(restored, '--expect', stdout.trim())).toMatchObject({ code: 0 });
  });

  test('is not mistaken about a log without any event', async () => {
    const file = join(tempDir(), 'copy.db');
    expect((await backup(file, await dirWith(0))).stdout).toMatch(/^0:e3b0c44298fc1c14[\da-f]{48}\n$/);
    expect(rowsIn(file)).toEqual([]);
  });
});

describe('npm run backup refuses in one line, leaving everything as it is,', () => {
  const refusedBackup = (file: string, DATA_DIR: string) => typed(['backup', file], { DATA_DIR });

  test('a file that is there already, of whatever kind', async () => {
    const [dir, place] = [logWith(3), tempDir()];
    writeFileSync(join(place, 'photo.jpg'), 'a photo');
    mkdirSync(join(place, 'photos'));
    symlinkSync(join(place, 'nowhere'), join(place, 'link'));
    const there = ['photo.jpg', 'photos', 'link'];
    const refused = await Promise.all(there.map((name) => refusedBackup(join(place, name), dir)));
    for (const [i, one] of refused.entries()) expectRefused(one, RegExp(basename(`${there[i]}`)));
    expect(readdirSync(place).sort()).toEqual(['link', 'photo.jpg', 'photos']);
    expect(readFileSync(join(place, 'photo.jpg'), 'utf8')).toBe('a photo');
    expect(readdirSync(join(place, 'photos'))).toEqual([]);
    const log = join(dir, 'log.db');
    expectRefused(await refusedBackup(log, dir), RegExp(log));
    expect(rowsIn(log)).toHaveLength(3);
  });

  test('a place where it cannot be made', async () => {
    const [dir, place] = [logWith(3), tempDir()];
    const places = [join(place, 'no', 'copy.db'), '', `file:${place}/copy.db`];
    const refused = await Promise.all(places.map((file) => refusedBackup(file, dir)));
    for (const one of refused) expectRefused(one, /unable|cannot|no such|already/);
    expect(refused[0]?.stderr).toContain(join(place, 'no', 'copy.db'));
    expect(readdirSync(place)).toEqual([]);
  });

  test('a log that is not there, is none, or is damaged', async () => {
    const [missing, text, damaged, place] = [tempDir(), tempDir(), logWith(2_000), tempDir()];
    writeFileSync(join(text, 'log.db'), 'no SQLite');
    const log = join(damaged, 'log.db');
    writeFileSync(log, readFileSync(log).fill(0xff, 40_960, 49_152));
    const dirs = [missing, text, damaged];
    const refused = await Promise.all(dirs.map((dir, i) => refusedBackup(join(place, `${i}.db`), dir)));
    const reasons = [RegExp(`no log ${join(missing, 'log.db')}`), RegExp(join(text, 'log.db')), /malformed/];
    for (const [i, reason] of reasons.entries())
      expectRefused(refused[i] as (typeof refused)[number], reason);
    expect(readdirSync(missing)).toEqual([]);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a log in EventStoreDB', async () => {
    const { url } = await startDouble();
    const place = tempDir();
    const refused = await typed(['backup', join(place, 'copy.db')], { EVENTSTOREDB_URL: url });
    expectRefused(refused, /EventStoreDB/);
    expect(readdirSync(place)).toEqual([]);
  });
});

describe('npm run backup that does not come to its end', () => {
  const EVENTS = 60_000;

  /** Begins a copy of a log and gives it once there is something of it. */
  async function halfACopy(dir: string) {
    const place = tempDir();
    const copying = start({ command: [...BACKUP, join(place, 'copy.db')], env: { DATA_DIR: dir } });
    await vi.waitUntil(() => readdirSync(place).some((name) => statSync(join(place, name)).size > 0), {
      timeout: 20_000,
      interval: 1,
    });
    return { ...copying, place };
  }

  test('leaves nothing where a signal ends it', async () => {
    const dir = logWith(EVENTS);
    const signals = ['SIGINT', 'SIGTERM'] as const;
    const endings = signals.map(async (signal) => {
      const { pid, place, stdout, stderr, ended } = await halfACopy(dir);
      expect(readdirSync(place)).not.toContain('copy.db');
      process.kill(pid, signal);
      return { ...(await ended), stdout: stdout(), stderr: stderr(), left: readdirSync(place) };
    });
    expect(await Promise.all(endings)).toEqual(
      signals.map((signal) => ({ code: null, signal, stdout: '', stderr: '', left: [] })),
    );
  });

  test('has made no file of that name where it is killed, but one that says it is partial; the next one works', async () => {
    const dir = logWith(EVENTS);
    const { place, kill } = await halfACopy(dir);
    await kill();
    const file = join(place, 'copy.db');
    expect(existsSync(file)).toBe(false);
    expect(await backup(file, dir)).toMatchObject({ code: 0 });
    const rest = readdirSync(place).filter((name) => name !== 'copy.db');
    expect(rest.length).toBeGreaterThan(0);
    for (const name of rest) expect(name).toMatch(/^copy\.db\.[\da-f-]{36}\.partial(-journal)?$/);
    expect(rowsIn(file)).toHaveLength(EVENTS);
  });

  const isRoot = process.getuid?.() === 0;
  const namespace = ['unshare', ...(isRoot ? ['--mount'] : ['--map-root-user', '--mount'])];
  const ON_A_SMALL_DISK = 'mount -t tmpfs -o size=2m tmpfs "$0" && "$@"; code=$?; ls -A "$0"; exit $code';
  const canMount = canRun('a backup to a full disk', [
    ...namespace,
    'sh',
    '-c',
    ON_A_SMALL_DISK,
    '/mnt',
    'true',
  ]);

  test.runIf(canMount)('leaves nothing where the disk is full', async () => {
    const place = tempDir();
    const command = [...namespace, 'sh', '-c', ON_A_SMALL_DISK, place, ...BACKUP, join(place, 'copy.db')];
    expectRefused(await run({ command, env: { DATA_DIR: logWith(20_000) } }), /full/);
  });
});
