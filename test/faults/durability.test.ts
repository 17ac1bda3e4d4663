import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openLogFile } from '../../src/eventStore/sqlite/file.ts';
import { rowsIn } from '../support/logs.ts';
import { canRun, MAIN, NODE, run, signalGroup, start, startServer } from '../support/process.ts';
import { client, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

// Checks that data is on disk before the response, by the system calls of the process (strace).

const canTrace = canRun('the durability of a POST', 'strace -f --seccomp-bpf -o /dev/null true'.split(' '));

const SYNC = /^f(data)?sync$/;
const WRITE = /^(p?writev?2?|pwrite64|sendto|sendmsg)$/;

/** A system call, from line `from` to line `to` of the trace. */
type Call = { name: string; text: string; result: string; from: number; to: number };

/**
 * Reads the output of `strace -f -o`: calls of several threads, each in one line or in an unfinished and a
 * resumed one.
 */
function callsIn(trace: string): Call[] {
  const unfinished = new Map<string, Omit<Call, 'result' | 'to'>>();
  return trace.split('\n').flatMap((line, at) => {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>/.test(rest);
    const call = resumed
      ? unfinished.get(thread)
      : { name: /^\w+/.exec(rest)?.[0] ?? '', text: rest, from: at };
    if (!call) return [];
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(thread, call);
      return [];
    }
    const result = /\) += (-?\d+)[^=]*$/.exec(rest)?.[1] ?? '';
    return [{ ...call, result, to: at }];
  });
}

describe.skipIf(!canTrace)('the response to a POST', () => {
  test('is sent after the fsync of the log, which follows the write of the event', async () => {
    const DATA_DIR = tempDir();
    const trace = join(tempDir(), 'trace');
    const calls = 'write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync';
    const strace = `strace -f --seccomp-bpf -yy -s 70000 -e trace=${calls} -o ${trace}`.split(' ');
    const server = await startServer({ command: [...strace, NODE, MAIN], env: { DATA_DIR } });
    const as = client(server.url, DATA_DIR);
    const markers = ['FirstFern', ...Array.from({ length: 12 }, (_, i) => `ManyFerns-${i}-`)];
    const [first = '', ...atOnce] = markers;
    expect((await as('alice').create(0, { name: first })).status).toBe(200);
    const created = await Promise.all(
      atOnce.map((name, i) => as(i % 2 ? 'alice' : 'bob').create(i + 1, { name })),
    );
    expect(created.map(({ status }) => status)).toEqual(atOnce.map(() => 200));
    signalGroup(server.pid, 'SIGTERM');
    await server.ended;

    const seen = callsIn(readFileSync(trace, 'utf8'));
    const wal = `<${join(DATA_DIR, 'log.db-wal')}>`;
    for (const marker of markers) {
      const writeTo = (target: string) =>
        seen.find(({ name, text }) => WRITE.test(name) && text.includes(target) && text.includes(marker));
      const [sent, stored] = [writeTo('<TCP'), writeTo(wal)];
      expect(sent?.text).toContain('HTTP/1.1 200 OK');
      const { from: sentAt } = sent as Call;
      expect(stored?.to).toBeLessThan(sentAt);
      const synced = seen.find(
        ({ name, text, result, from, to }) =>
          SYNC.test(name) &&
          text.includes(wal) &&
          result === '0' &&
          from > (stored as Call).to &&
          to < sentAt,
      );
      expect(synced, `an fsync between the event and the response of ${marker}`).toBeDefined();
    }
  });

  test('is not 200 if the fsync fails; the process exits, and keeps acknowledged events', async () => {
    const DATA_DIR = tempDir();
    const first = await startService({ DATA_DIR });
    await first.as('alice').create(1, { name: 'Fern' });
    await first.close();

    const failing = ['-e', 'inject=fsync,fdatasync:error=EIO', '-P', join(DATA_DIR, 'log.db-wal')];
    const strace = ['strace', '-f', '-e', 'trace=fsync,fdatasync', ...failing, '-o', '/dev/null'];
    const second = start({ command: [...strace, NODE, MAIN], env: { DATA_DIR } });
    const as = client(await second.listening(), DATA_DIR);
    const posts = [2, 3, 4].map((id) => as('alice').create(id, { name: 'Moss' }));
    for (const post of await Promise.allSettled(posts))
      if (post.status === 'fulfilled') expect(post.value.status).toBe(503);
    expect((await second.ended).code).toBe(1);
    const last = second.stdout().trim().split('\n').at(-1) as string;
    expect(JSON.parse(last)).toMatchObject({ level: 60, msg: expect.stringContaining('fsync failed') });

    const third = await startService({ DATA_DIR });
    expect((await third.as('alice').list())[0]).toEqual({ name: 'Fern' });
  });
});

describe('a checkpoint', () => {
  /** More than the write-ahead log has when it is moved into the database. */
  const LARGE_PLANTS = 1_300;
  const NAME = 'x'.repeat(60_000);

  /** Creates large plants with ten requests at a time, until one fails; `created` gets the IDs of the others. */
  async function fill(
    { create }: ReturnType<ReturnType<typeof client>>,
    created: number[] = [],
  ): Promise<void> {
    const post = async (id: number): Promise<void> => {
      expect((await create(id, { name: NAME })).status).toBe(200);
      created.push(id);
    };
    for (let i = 0; i < LARGE_PLANTS; i += 10)
      await Promise.all(Array.from({ length: 10 }, (_, j) => post(i + j)));
  }

  test('lets the write-ahead log begin again, while plants are created', async () => {
    const service = await startService({ DATA_DIR: tempDir() });
    const wal = join(service.dir, 'log.db-wal');
    await fill(service.as('alice'));
    await expect.poll(() => statSync(join(service.dir, 'log.db')).size).toBeGreaterThan(32 * 2 ** 20);
    await fill(service.as('bob'));
    await fill(service.as('carol'));
    expect(statSync(wal).size).toBeLessThan((3 * LARGE_PLANTS * NAME.length) / 2);
  });

  test.skipIf(!canTrace)('whose fsync fails ends the process, and acknowledged events are kept', async () => {
    const DATA_DIR = tempDir();
    const failing = ['-e', 'inject=fsync,fdatasync:error=EIO', '-P', join(DATA_DIR, 'log.db')];
    const strace = ['strace', '-f', '-e', 'trace=fsync,fdatasync', ...failing, '-o', '/dev/null'];
    const first = await startService({ DATA_DIR });
    await first.close();
    const second = start({ command: [...strace, NODE, MAIN], env: { DATA_DIR } });
    const alice = client(await second.listening(), DATA_DIR)('alice');
    const created: number[] = [];
    await expect(fill(alice, created)).rejects.toThrow();
    expect((await second.ended).code).toBe(1);
    expect(second.stdout()).toMatch(/"level":60.*fsync failed/);
    const kept = rowsIn(join(DATA_DIR, 'log.db')).map(({ stream }) => stream);
    expect(created.length).toBeGreaterThan(0);
    expect(created.filter((id) => !kept.includes(`plant-alice/${id}`))).toEqual([]);
  });
});

describe.skipIf(!canTrace)('a data directory', () => {
  test('and each parent that is created with it are synced as entries of the directory above', async () => {
    const dir = tempDir();
    const trace = join(tempDir(), 'trace');
    const module = new URL('../../src/disk/dataDir.ts', import.meta.url);
    const script = `import { createDataDir } from '${module}'; createDataDir(${JSON.stringify(join(dir, 'a/b/data'))})`;
    const strace = `strace -f -y -e trace=mkdir,mkdirat,fsync -o ${trace}`.split(' ');
    const { code } = await run({ command: [...strace, NODE, '--input-type=module', '-e', script] });
    expect(code).toBe(0);
    const calls = readFileSync(trace, 'utf8').matchAll(/(mkdir|fsync)(?:at)?\(.*?(\/[^">]*)[">].* = 0$/gm);
    const made = [...calls].map(([, name, path = '']) => `${name} ${path.replace(dir, '')}`);
    expect(made).toEqual(
      ['', '/a', '/a/b'].flatMap((parent, i) => [
        `mkdir ${parent}/${['a', 'b', 'data'][i]}`,
        `fsync ${parent}`,
      ]),
    );
  });
});

describe.skipIf(!canTrace)('after a crash', () => {
  test('the write-ahead log is synced before SQLite reads it', async () => {
    const file = join(tempDir(), 'log.db');
    const crashed = openLogFile(file);
    onTestFinished(() => crashed.close());
    crashed.exec("INSERT INTO events VALUES (1, 'i', 'plant-alice/1', 0, 'Other', '{}', '{}', 'now')");
    const before = readFileSync(`${file}-wal`);
    const sqliteFile = new URL('../../src/eventStore/sqlite/file.ts', import.meta.url);
    const script = `import { recoverWal } from '${sqliteFile}'; recoverWal(${JSON.stringify(file)})`;
    const trace = ['strace', '-f', '-y', '-e', 'trace=write,pwrite64,fsync,fdatasync', NODE];
    const { code, stderr } = await run({ command: [...trace, '--input-type=module', '-e', script] });
    expect(code).toBe(0);
    const calls = [...stderr.matchAll(/(pwrite64|fsync)\(\d+<[^>]*log\.db-wal>/g)].map(([, call]) => call);
    expect(calls.at(0)).toBe('pwrite64');
    expect(calls.at(-1)).toBe('fsync');
    expect(readFileSync(`${file}-wal`)).toEqual(before);
  });

  test('during its creation, the log is rolled back and created again', async () => {
    const file = join(tempDir(), 'log.db');
    const sqliteFile = new URL('../../src/eventStore/sqlite/file.ts', import.meta.url);
    const script = `import { openLogFile } from '${sqliteFile}'; openLogFile(${JSON.stringify(file)})`;
    // Killed when the rollback journal would be removed, which is the commit of the creation.
    const trace = ['strace', '-f', '-e', 'inject=unlink:signal=KILL:when=1', NODE];
    await run({ command: [...trace, '--input-type=module', '-e', script] });
    expect(statSync(`${file}-journal`).size).toBeGreaterThan(0);
    const made = openLogFile(file);
    expect(made.prepare('SELECT * FROM events').all()).toEqual([]);
    made.close();
  });
});

describe('the connection of the writer', () => {
  test.for([
    ['journal_mode', 'wal'],
    ['synchronous', 2],
    ['recursive_triggers', 1],
  ] as const)('has %s = %s for a new and for an existing log', ([pragma, value]) => {
    const file = join(tempDir(), 'log.db');
    for (let i = 0; i < 2; i++) {
      using db = openLogFile(file);
      expect(db.prepare(`PRAGMA ${pragma}`).get()).toEqual({ [pragma]: value });
    }
  });
});
