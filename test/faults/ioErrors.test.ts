import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { logFile } from '../../packages/event-log/src/disk/dataDir.ts';
import { untilAvailable } from '../support/instances.ts';
import { canRun, MAIN, NODE, type Process, signalGroup, start } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { client, startService } from '../support/service.ts';
import { verifyDir } from '../support/verifyDir.ts';

// Each system call of the service on each of its files fails once, in a run of its own (strace).

const CALLS = ['openat', 'write', 'pwrite64', 'ftruncate', 'fsync', 'fdatasync', 'unlink', 'link', 'mkdir'];
/** Files on which a failed fsync ends the service. */
const LOG_FILES = ['log.db', 'log.db-wal', 'log.db-journal'];
const PLANTS = [2, 3, 4];
/** More calls on a file than any run makes. */
const MAX_CALLS = 100;
const PARALLEL_RUNS = 3;
const STACK = /^\s+at /m;

const strace = (trace: string, ...options: string[]): string[] => [
  ...['strace', '-f', '--seccomp-bpf', '-o', trace, ...options],
];
const canInject = canRun('a failing disk', [
  ...strace('/dev/null', '-P', '/', '-e', 'trace=fsync', '-e', 'inject=fsync:error=EIO:when=1'),
  'true',
]);

type Fault = { file: string; call: string; error: string; when: number };

/** A directory with plant 1 of a server that was killed. */
async function killedDirectory(): Promise<string> {
  const { dir, as, kill } = await startServer();
  expect((await as('alice').create(1, { name: 'plant 1' })).status).toBe(200);
  await kill();
  return dir;
}

/** What the responses to the POSTs of a plant were; `none` if the server has ended. */
type Outcome = { id: number; statuses: (number | 'none')[] };

/** Starts a server, creates plants, lists them, and stops it. */
async function serve(server: Process, dir: string): Promise<{ started: boolean; outcomes: Outcome[] }> {
  const url = await server.listening().catch(() => undefined);
  const outcomes = PLANTS.map((id): Outcome => ({ id, statuses: [] }));
  if (url === undefined) return { started: false, outcomes };
  const alice = client(url, dir)('alice');
  for (const { id, statuses } of outcomes) {
    const create = async (): Promise<Response> => {
      const response = await alice.create(id, { name: `plant ${id}` });
      statuses.push(response.status);
      return response;
    };
    await untilAvailable(create).catch(() => statuses.push('none'));
  }
  const response = await untilAvailable(() => alice.get()).catch(() => undefined);
  if (response) {
    expect(response.status).toBe(200);
    const acknowledged = outcomes.filter(isAcknowledged).map(({ id }) => ({ name: `plant ${id}` }));
    expect(await response.json()).toEqual(expect.arrayContaining(acknowledged));
  }
  signalGroup(server.pid, 'SIGTERM');
  return { started: true, outcomes };
}

const isAcknowledged = ({ statuses }: Outcome): boolean => statuses.at(-1) === 200;

/** A copy of a data directory, or one that does not exist yet. */
function dataDir(original: string | undefined): string {
  const dir = join(tempDir(), 'data');
  if (original !== undefined) cpSync(original, dir, { recursive: true });
  return dir;
}

/** Runs the service to its end with these options of strace. */
async function traced(dir: string, options: string[]) {
  const file = join(tempDir(), 'trace');
  const server = start({ command: [...strace(file, ...options), NODE, MAIN], env: { DATA_DIR: dir } });
  const served = await serve(server, dir);
  const { code } = await server.ended;
  return { ...served, server, code, trace: readFileSync(file, 'latin1') };
}

/** Runs the service with a fault; returns whether it was met. */
async function runWith({ file, call, error, when }: Fault, original: string | undefined): Promise<boolean> {
  const dir = dataDir(original);
  const inject = `inject=${call}:error=${error}:when=${when}`;
  const options = ['-e', `trace=${call}`, '-e', inject, '-P', join(dir, file)];
  const { server, started, outcomes, code, trace } = await traced(dir, options);
  const isMet = trace.includes('(INJECTED)');
  const [stdout, stderr] = [server.stdout(), server.stderr()];
  const ended = stdout.split('\n').filter((line) => line.includes('"level":60'));

  // The process continues, or ends with one message.
  expect(stderr).not.toMatch(STACK);
  expect(stdout).not.toMatch(/uncaught exception|unhandled rejection/);
  if (!started) expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
  else if (ended.length === 0) {
    expect(outcomes.every(isAcknowledged), JSON.stringify(outcomes)).toBe(true);
    expect(code).toBe(stdout.includes('"shutdown failed"') ? 1 : 0);
  } else expect({ code, ended }).toEqual({ code: 1, ended: [expect.stringContaining('fsync failed')] });
  // After a failed fsync of the log it acknowledges nothing.
  if (isMet && call === 'fsync' && LOG_FILES.includes(file)) {
    expect(code).toBe(1);
    const last = outcomes.findLastIndex(isAcknowledged);
    expect(outcomes.slice(0, last + 1).every(({ statuses }) => statuses.length === 1)).toBe(true);
  }

  // The next start has each acknowledged plant once.
  const next = await startService({ DATA_DIR: dir });
  const names = () => rowsIn(logFile(dir)).map(({ data }) => JSON.parse(data).name as string);
  const kept = names();
  expect(new Set(kept).size).toBe(kept.length);
  const acknowledged = outcomes.filter(isAcknowledged).map(({ id }) => `plant ${id}`);
  expect(kept).toEqual(expect.arrayContaining([...(original ? ['plant 1'] : []), ...acknowledged]));
  for (const id of PLANTS)
    expect((await next.as('alice').create(id, { name: `plant ${id}` })).status).toBe(200);
  expect(await next.as('alice').list()).toEqual(names().map((name) => ({ name })));
  await next.close();
  const size = PLANTS.length + (original ? 1 : 0);
  expect(await verifyDir(dir)).toMatchObject({ size, view: BigInt(size), problems: [] });
  return isMet;
}

/** The calls on each file in a run without a fault. */
async function callsOf(original: string | undefined): Promise<{ file: string; call: string }[]> {
  const dir = dataDir(original);
  const { outcomes, trace } = await traced(dir, ['-y', '-e', `trace=${CALLS}`]);
  expect(outcomes.every(isAcknowledged)).toBe(true);
  const found = trace.split('\n').flatMap((line) => {
    const call = /^\d+ +(\w+)\(/.exec(line)?.[1];
    const path = [...line.matchAll(/[<"](\/[^>"]*)[>"]/g)].map(([, path = '']) => path);
    const file = path.findLast((path) => path === dir || path.startsWith(`${dir}/`));
    // The draft of the key has a random name.
    return call && file && !/json\./.test(file) ? [`${call} ${file.slice(dir.length + 1)}`] : [];
  });
  return [...new Set(found)].sort().map((text) => {
    const [call = '', file = ''] = text.split(' ');
    return { call, file };
  });
}

describe.skipIf(!canInject)('an I/O error', () => {
  // SQLite ignores it.
  test('of every fsync of the data directory ends the start', async () => {
    const dir = await killedDirectory();
    const fault = ['-e', 'trace=fsync', '-e', 'inject=fsync:error=EIO', '-P', dir];
    const server = start({ command: [...strace('/dev/null', ...fault), NODE, MAIN], env: { DATA_DIR: dir } });
    await expect(server.listening()).rejects.toThrow(`cannot use the log ${logFile(dir)}: EIO`);
  });

  test.each(['EPERM', 'ENOSYS'])(
    'that says that directories cannot be synced (%s) is ignored, as by SQLite',
    async (error) => {
      const dir = tempDir();
      const fault = ['-e', 'trace=fsync', '-e', `inject=fsync:error=${error}`, '-P', dir];
      const { as } = await startServer({
        command: [...strace('/dev/null', ...fault), NODE, MAIN],
        env: { DATA_DIR: dir },
      });
      expect((await as('alice').create(1, { name: 'Fern' })).status).toBe(200);
    },
  );

  test.for([
    ['the first start', false],
    ['the start after a kill', true],
  ] as const)(
    'of any call on any file, from %s to a clean stop, loses nothing',
    async ([name, afterKill]) => {
      const original = afterKill ? await killedDirectory() : undefined;
      const calls = await callsOf(original);
      const counts: Record<string, number> = {};
      const failures: string[] = [];
      const next = calls.values();
      const work = async (): Promise<void> => {
        for (const { file, call } of next) {
          // All calls that extend the shared memory are alike.
          const most = call === 'pwrite64' && file.endsWith('-shm') ? 2 : MAX_CALLS;
          for (let when = 1, isMet = true; isMet && when <= most; when++) {
            // A full disk is reported by the calls that need space.
            const isFull = when % 2 === (original ? 1 : 0) && ['openat', 'pwrite64', 'write'].includes(call);
            const fault = { file, call, error: isFull ? 'ENOSPC' : 'EIO', when };
            try {
              isMet = await runWith(fault, original);
            } catch (error) {
              failures.push(`${JSON.stringify(fault)}: ${(error as Error).message}`);
            }
            const run = `${call} ${file || 'the directory'}`;
            counts[run] = (counts[run] ?? 0) + 1;
            if (when === MAX_CALLS) failures.push(`${call} of ${file} does not end`);
          }
        }
      };
      await Promise.all(Array.from({ length: PARALLEL_RUNS }, work));
      console.info(`runs from ${name}: ${JSON.stringify(counts)}`);
      expect(failures).toEqual([]);
    },
  );
});
