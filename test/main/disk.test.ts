import {
  chmodSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { canRun, MAIN, NODE, run, start, startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

const SERVER = [NODE, MAIN];
const NAMESPACE = isRoot ? ['--mount'] : ['--map-root-user', '--mount'];
const MOUNT = 'mount -t tmpfs -o size=6m tmpfs "$0" && echo mounted && exec cat';
const canMount = canRun('a full disk', ['unshare', ...NAMESPACE, 'sh', '-c', `${MOUNT} < /dev/null`, '/mnt']);

/** A small disk of its own, in a mount namespace that a process keeps: no one else sees it, nothing of it stays. */
async function smallDisk() {
  const mountPoint = tempDir();
  const keeper = start({ command: ['unshare', ...NAMESPACE, 'sh', '-c', MOUNT, mountPoint] });
  await keeper.printed(/mounted/);
  const into = isRoot ? ['--mount'] : ['--user', '--mount', '--preserve-credentials'];
  const seen = `/proc/${keeper.pid}/root${mountPoint}`;
  const ballast = join(seen, 'ballast');
  return {
    dir: join(mountPoint, 'data'),
    /** The same directory as this process sees it. */
    seen: join(seen, 'data'),
    command: ['nsenter', `--target=${keeper.pid}`, ...into, ...SERVER],
    fill: () => fill(ballast),
    free: () => rmSync(ballast),
  };
}

/** Writes until not one byte more has room. */
function fill(file: string): void {
  const fd = openSync(file, 'w');
  for (let size = 1024 * 1024; size >= 1; ) {
    try {
      writeSync(fd, Buffer.alloc(size));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      size = Math.floor(size / 2);
    }
  }
  closeSync(fd);
}

/** Asks again, for half a minute, as long as the answer is a 503. */
async function persist(ask: () => Promise<Response>): Promise<Response> {
  for (let left = 100; ; left--) {
    const response = await ask();
    if (response.status !== 503 || left === 0) return response;
    await response.text();
    await pause(300);
  }
}

/** Starts the server and sees it refuse: one line that names `what`, and an end. */
async function expectRefusal(options: Parameters<typeof run>[0], what: string): Promise<string> {
  const { code, stdout, stderr } = await run(options);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(stderr).toContain(what);
  expect(stderr).not.toMatch(/^\s+at /m);
  return stderr;
}

/** A data directory in which a server has stored alice's Fern. */
async function usedDirectory(): Promise<string> {
  const dir = tempDir();
  await storeFern({ env: { DATA_DIR: dir } }, dir);
  return dir;
}

async function storeFern(options: Parameters<typeof startServer>[0], seen: string): Promise<void> {
  const server = await startServer(options);
  await client(server.url, seen)('alice').create(1, { name: 'Fern' });
  process.kill(server.pid, 'SIGTERM');
  expect((await server.ended).code).toBe(0);
}

describe.skipIf(!canMount)('a full disk', () => {
  test('refuses POST with 503 and nothing else, and heals by itself', async () => {
    const { dir, seen, command, fill, free } = await smallDisk();
    const server = await startServer({ command, env: { DATA_DIR: dir } });
    const alice = client(server.url, seen)('alice');
    const bob = client(server.url, seen)('bob');
    const before = ['Fern', 'Moss', 'Oak'].map((name) => ({ name }));
    for (const [id, plant] of before.entries()) expect((await alice.create(id, plant)).status).toBe(200);

    fill();
    for (let i = 0; i < 5; i++) {
      const refused = await Promise.all([
        alice.create(10, { name: 'Late' }),
        bob.create(10, { name: 'Late' }),
      ]);
      for (const response of refused) {
        expect(response.status).toBe(503);
        expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
        expect(await response.json()).toMatchObject({ error: 50301 });
      }
      const listed = await alice.get();
      expect(listed.status).toBe(200);
      expect(await listed.json()).toEqual(before);
      expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
      await pause(500); // for the view to have tried to save
    }

    free();
    expect((await persist(() => alice.create(10, { name: 'Late' }))).status).toBe(200);
    expect((await alice.create(11, { name: 'Later' })).status).toBe(200);
    const after = [...before, { name: 'Late' }, { name: 'Later' }];
    expect(await (await persist(() => alice.get())).json()).toEqual(after);
    process.kill(server.pid, 'SIGTERM');
    expect((await server.ended).code).toBe(0);

    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect(await client(again.url, seen)('alice').list()).toEqual(after);
  });

  test('does not keep a server from ending in good order, nor from starting once there is room', async () => {
    const { dir, seen, command, fill, free } = await smallDisk();
    const server = await startServer({ command, env: { DATA_DIR: dir } });
    await client(server.url, seen)('alice').create(1, { name: 'Fern' });
    fill();
    await client(server.url, seen)('alice').create(2, { name: 'Late' });
    process.kill(server.pid, 'SIGTERM');
    expect((await server.ended).code).toBe(0);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect((await client(again.url, seen)('alice').list())[0]).toEqual({ name: 'Fern' });
  });

  test('refuses a first start', async () => {
    const { dir, command, fill } = await smallDisk();
    fill();
    await expectRefusal({ command, env: { DATA_DIR: dir } }, dir);
  });

  test('refuses a later start and leaves the log as it is', async () => {
    const { dir, seen, command, fill, free } = await smallDisk();
    await storeFern({ command, env: { DATA_DIR: dir } }, seen);
    const before = readFileSync(join(seen, 'log.db'));
    fill();
    await expectRefusal({ command, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(join(seen, 'log.db')).equals(before)).toBe(true);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect(await client(again.url, seen)('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});

describe('a data directory that may only be read', () => {
  const reader = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

  test('refuses a first start', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectRefusal({ ...reader, env: { DATA_DIR: dir } }, dir);
  });

  test('refuses a later start and leaves the log as it is', async () => {
    const dir = await usedDirectory();
    const file = join(dir, 'log.db');
    const before = readFileSync(file);
    if (!isRoot) for (const name of ['lock.db', 'log.db', 'view.db']) chmodSync(join(dir, name), 0o400);
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectRefusal({ ...reader, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(file).equals(before)).toBe(true);
    chmodSync(dir, 0o700);
  });

  test('refuses a start where it would have to be made in such a one', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    const DATA_DIR = join(dir, 'data');
    await expectRefusal({ ...reader, env: { DATA_DIR } }, DATA_DIR);
  });
});

describe('a log.db', () => {
  test.for([
    ['that is garbage', (file: string) => writeFileSync(file, Buffer.alloc(10_000, 'garbage'))],
    ['that is a line of text', (file: string) => writeFileSync(file, 'hello\n')],
    [
      'that is another SQLite database',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('CREATE TABLE music (title TEXT); INSERT INTO music VALUES (1)');
      },
    ],
    [
      'that is another SQLite database in WAL mode',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('PRAGMA journal_mode = WAL; CREATE TABLE music (title TEXT); INSERT INTO music VALUES (1)');
      },
    ],
    [
      'that another program has marked as its own, still without a table',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('PRAGMA application_id = 1234');
      },
    ],
    [
      'of a newer version',
      (file: string) => {
        using db = openLogFile(file);
        db.exec('PRAGMA user_version = 2');
      },
    ],
    [
      'with damage in its first page',
      (file: string) => {
        openLogFile(file).close();
        const bytes = readFileSync(file);
        writeFileSync(file, bytes.fill(0xff, 100, 200));
      },
    ],
  ] as const)('%s is refused by name and left as it is', async ([, make]) => {
    const dir = tempDir();
    const file = join(dir, 'log.db');
    make(file);
    const before = readFileSync(file);
    await expectRefusal({ env: { DATA_DIR: dir } }, file);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test('that is a directory is refused by name', async () => {
    const dir = tempDir();
    mkdirSync(join(dir, 'log.db'));
    await expectRefusal({ env: { DATA_DIR: dir } }, join(dir, 'log.db'));
  });

  test('that is gone while its write-ahead log is there is refused, and starts again once it is back', async () => {
    const dir = tempDir();
    const server = await startServer({ env: { DATA_DIR: dir } });
    await client(server.url, dir)('alice').create(1, { name: 'Fern' });
    await server.kill();
    const [file, elsewhere] = [join(dir, 'log.db'), join(tempDir(), 'log.db')];
    copyFileSync(file, elsewhere);
    rmSync(file);
    const wal = readFileSync(`${file}-wal`);
    await expectRefusal({ env: { DATA_DIR: dir } }, file);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    copyFileSync(elsewhere, file);
    const again = await startServer({ env: { DATA_DIR: dir } });
    expect(await client(again.url, dir)('alice').list()).toEqual([{ name: 'Fern' }]);
  });

  test('that says which version it has and which is known', async () => {
    const dir = tempDir();
    const db = openLogFile(join(dir, 'log.db'));
    db.exec('PRAGMA user_version = 7');
    db.close();
    expect(await expectRefusal({ env: { DATA_DIR: dir } }, 'log.db')).toMatch(/newer.*\b7\b.*\b1\b/);
  });
});
