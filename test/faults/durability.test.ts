import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openLogFile } from '../../packages/event-log/src/sqlite/file.ts';
import { canRun, MAIN, NODE, run, start } from '../support/process.ts';
import { client, startService } from '../support/service.ts';

// By the system calls of processes (strace). That a response waits for the fsync of its event is shown by power cuts.

const canTrace = canRun('a failing fsync', 'strace -f --seccomp-bpf -o /dev/null true'.split(' '));

describe('a checkpoint', () => {
  /** More than the write-ahead log has when it is moved into the database. */
  const LARGE_PLANTS = 1_300;
  const NAME = 'x'.repeat(60_000);

  /** Creates large plants, ten requests at a time, until a request fails; `created` gets the IDs of created plants. */
  async function fill(
    { create }: ReturnType<ReturnType<typeof client>>,
    created: number[] = [],
    firstId = 0,
  ): Promise<void> {
    const post = async (id: number): Promise<void> => {
      expect((await create(id, { name: NAME })).status).toBe(200);
      created.push(id);
    };
    for (let i = 0; i < LARGE_PLANTS; i += 10)
      await Promise.all(Array.from({ length: 10 }, (_, j) => post(firstId + i + j)));
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
    const fillUntilError = async (): Promise<never> => {
      for (let firstId = 0; ; firstId += LARGE_PLANTS) await fill(alice, created, firstId);
    };
    await expect(fillUntilError()).rejects.toThrow();
    expect((await second.ended).code).toBe(1);
    expect(second.stdout()).toMatch(/"level":60.*fsync failed/);
    const kept = rowsIn(join(DATA_DIR, 'log.db')).map(({ stream }) => stream);
    expect(created.length).toBeGreaterThan(0);
    expect(created.filter((id) => !kept.includes(`plant-alice/${id}`))).toEqual([]);
  });
});

describe.skipIf(!canTrace)('after a crash', () => {
  /** The command that calls a function of sqlite/file.ts with a file, under strace. */
  const traced = (name: string, file: string, ...options: string[]): string[] => {
    const module = new URL('../../packages/event-log/src/sqlite/file.ts', import.meta.url);
    const script = `import { ${name} } from '${module}'; ${name}(${JSON.stringify(file)})`;
    return ['strace', '-f', ...options, NODE, '--input-type=module', '-e', script];
  };

  test('the write-ahead log is synced before SQLite reads it', async () => {
    const file = join(tempDir(), 'log.db');
    const crashed = openLogFile(file);
    onTestFinished(() => crashed.close());
    crashed.exec("INSERT INTO events VALUES (1, 'i', 'plant-alice/1', 0, 'Other', '{}', '{}', 'now')");
    const before = readFileSync(`${file}-wal`);
    const command = traced('recoverWal', file, '-y', '-e', 'trace=write,pwrite64,fsync,fdatasync');
    const { code, stderr } = await run({ command });
    expect(code).toBe(0);
    const calls = [...stderr.matchAll(/(pwrite64|fsync)\(\d+<[^>]*log\.db-wal>/g)].map(([, call]) => call);
    expect(calls.at(0)).toBe('pwrite64');
    expect(calls.at(-1)).toBe('fsync');
    expect(readFileSync(`${file}-wal`)).toEqual(before);
  });

  test('during its creation, the log is rolled back and created again', async () => {
    const file = join(tempDir(), 'log.db');
    // Killed when the rollback journal would be removed, which is the commit of the creation.
    await run({ command: traced('openLogFile', file, '-e', 'inject=unlink:signal=KILL:when=1') });
    expect(statSync(`${file}-journal`).size).toBeGreaterThan(0);
    const made = openLogFile(file);
    expect(made.prepare('SELECT * FROM events').all()).toEqual([]);
    made.close();
  });
});

test.for([
  ['journal_mode', 'wal'],
  ['synchronous', 2],
  ['recursive_triggers', 1],
] as const)(
  'the connection of the writer has %s = %s for a new and for an existing log',
  ([pragma, value]) => {
    const file = join(tempDir(), 'log.db');
    for (let i = 0; i < 2; i++) {
      using db = openLogFile(file);
      expect(db.prepare(`PRAGMA ${pragma}`).get()).toEqual({ [pragma]: value });
    }
  },
);
