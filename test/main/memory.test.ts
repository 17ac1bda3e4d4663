import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { auditorToken } from '../support/eventStream.ts';
import { launch, MAIN, NODE, type Process, ROOT } from '../support/process.ts';
import { client } from '../support/service.ts';

const PLANTS = 1_000_000;
const MEBIBYTE = 1024 * 1024;
/** Long enough for the whole list to weigh twice what the server may take for it. */
const SPECIES = 'a fern with a name that is long enough for the whole list to weigh something, number';

const hasProc = existsSync('/proc/self/status');
if (!hasProc) console.info('skipped: memory cannot be measured here, since there is no /proc');

/** A log with so many plants of alice and one of bob, as if they had been created one after the other. */
function writeLog(file: string, plants: number): void {
  using db = openLogFile(file);
  db.exec(`
    PRAGMA synchronous = OFF;
    BEGIN;
    WITH RECURSIVE plants (id, user, name) AS (
      SELECT 1, 'bob', 'Oak'
      UNION ALL
      SELECT id + 1, 'alice', '${SPECIES} ' || id FROM plants WHERE id <= ${plants}
    )
    INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
    SELECT
      format('%08x-0000-7000-8000-000000000000', id), format('plant-%s/%d', user, id), 0, 'PlantCreated',
      json_object('id', CAST(id AS TEXT), 'user', user, 'name', name),
      '{"$correlationId":"c","schemaVersion":1,"occurredAt":"2026-01-01T00:00:00.000Z"}', '2026-01-01T00:00:00.000Z'
    FROM plants;
    COMMIT;
    PRAGMA wal_checkpoint(TRUNCATE);
  `);
}

/** Reads a list as it comes, keeping only the number of its plants and its last bytes. */
async function readList(response: Response): Promise<{ plants: number; end: string }> {
  let plants = 0;
  let end = '';
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let at = bytes.indexOf('{'); at !== -1; at = bytes.indexOf('{', at + 1)) plants++;
    end = (end + bytes.toString('latin1', Math.max(0, bytes.length - 300))).slice(-300);
  }
  return { plants, end };
}

/** So much heap and no more: else garbage is let lie while there is room, and looks like something that grows. */
const frugal = (heap = 96) => ({ NODE_OPTIONS: `--max-old-space-size=${heap} --max-semi-space-size=4` });

let dir: string;
let server: Process;
let as: ReturnType<typeof client>;
let url: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const startServer = async (env: Record<string, string> = {}): Promise<void> => {
    server = launch({ env: { DATA_DIR: dir, ...env } });
    url = await server.listening();
    while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(100);
    as = client(url, dir);
  };
  const cleanUp = async (): Promise<void> => {
    await server?.kill();
    rmSync(dir, { recursive: true });
  };
  try {
    writeLog(join(dir, 'log.db'), PLANTS);
    // Catching up leaves room in the heap, in which a list could hide: measured is a process that has not done it.
    await startServer();
    process.kill(server.pid, 'SIGTERM');
    await server.ended;
    await startServer(frugal());
  } catch (error) {
    await cleanUp();
    throw error;
  }
  return cleanUp;
}, 120_000);

/** Bytes of memory that a process has now (VmRSS), or has had at most (VmHWM); 0 when it is gone. */
function memory(pid: number, what: 'VmRSS' | 'VmHWM'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

describe('a user with a million plants', () => {
  test.skipIf(!hasProc)(
    'is sent all of them in constant memory, while others are served at once',
    async () => {
      await as('bob').get('?limit=1');
      const before = memory(server.pid, 'VmRSS');
      let peak = before;
      const durations: number[] = [];
      let streaming = true;
      const others = (async () => {
        while (streaming) {
          const since = performance.now();
          expect(await (await as('bob').get('?limit=1')).json()).toEqual([{ name: 'Oak' }]);
          durations.push(performance.now() - since);
          peak = Math.max(peak, memory(server.pid, 'VmRSS'));
        }
      })();
      const started = performance.now();
      const { plants, end } = await readList(await as('alice').get());
      const whole = performance.now() - started;
      streaming = false;
      await others;
      expect(plants).toBe(PLANTS);
      expect(end.endsWith(`${SPECIES} ${PLANTS}"}]`)).toBe(true);
      expect(peak - before).toBeLessThan(64 * MEBIBYTE);
      expect(durations.length).toBeGreaterThan(5);
      expect(durations.toSorted((a, b) => a - b)[durations.length >> 1]).toBeLessThan(whole / 10);
    },
  );

  test('may leave in the middle: the server goes on', async () => {
    for (let i = 0; i < 3; i++) {
      const leaving = new AbortController();
      const response = await as('alice').request('/plants', { signal: leaving.signal });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      leaving.abort();
      await expect(reader.read()).rejects.toThrow();
      expect(await as('bob').list()).toEqual([{ name: 'Oak' }]);
    }
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect(server.stdout()).not.toMatch(/"level":[56]0/);
  });

  test('is sent 999999 of them with a link to the last one', async () => {
    const response = await as('alice').get('?limit=999999');
    const link = /^<(\/plants\?[^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1] as string;
    const { plants, end } = await readList(response);
    expect(plants).toBe(PLANTS - 1);
    expect(end.endsWith(`${SPECIES} ${PLANTS - 1}"}]`)).toBe(true);
    const rest = await as('alice').request(link);
    expect(rest.headers.get('link')).toBeNull();
    expect(await rest.json()).toEqual([{ name: `${SPECIES} ${PLANTS}` }]);
  });
});

type Read = { lines: number; last: string };

/** Reads lines as they come, keeping only their number and the last one. */
async function readLines(output: AsyncIterable<Uint8Array>): Promise<Read> {
  let lines = 0;
  let end = Buffer.alloc(0);
  for await (const chunk of output) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let at = bytes.indexOf('\n'); at !== -1; at = bytes.indexOf('\n', at + 1)) lines++;
    end = Buffer.concat([end, bytes]).subarray(-10_000);
  }
  return { lines, last: end.toString().split('\n').at(-2) ?? '' };
}

/** Runs a command on a log; gives what it prints and the most memory that it has taken. */
async function runOn(
  data: string,
  command: string,
  heap?: number,
): Promise<Read & { code: number; peak: number }> {
  const child = spawn(NODE, [MAIN, command], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, DATA_DIR: data, ...frugal(heap) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, memory(child.pid as number, 'VmHWM'));
  }, 20);
  try {
    const [read, [code]] = await Promise.all([readLines(child.stdout), once(child, 'close')]);
    return { ...read, code, peak };
  } finally {
    clearInterval(watch);
    child.kill('SIGKILL');
  }
}

describe
  .skipIf(!hasProc)
  .concurrent('a log of a million events, in the memory that a small one takes,', () => {
    const ROOM = 96 * MEBIBYTE;
    /** Pages of the view, and the filter of streams that have been seen: they fill, and have a size. */
    const FILLED = 64 * MEBIBYTE;
    let small: string;

    beforeAll(() => {
      small = join(dir, 'small');
      mkdirSync(small);
      writeLog(join(small, 'log.db'), 1_000);
    });

    test('is replayed on the machine', async () => {
      const ofSmall = await runOn(small, 'replay');
      const ofAll = await runOn(dir, 'replay');
      expect(ofAll).toMatchObject({ code: 0, lines: PLANTS + 1 });
      expect(JSON.parse(ofAll.last)).toMatchObject({
        position: `${PLANTS + 1}`,
        data: { id: `${PLANTS + 1}`, user: 'alice', name: `${SPECIES} ${PLANTS}` },
      });
      expect(ofSmall.peak).toBeGreaterThan(0);
      expect(ofAll.peak - ofSmall.peak).toBeLessThan(ROOM);
    }, 120_000);

    test('is verified, with its view', async () => {
      const HEAP = 128; // in less, most of the time goes into collecting garbage
      const ofSmall = await runOn(small, 'verify', HEAP);
      const ofAll = await runOn(dir, 'verify', HEAP);
      expect(ofAll).toMatchObject({ code: 0, last: 'faults    none' });
      expect(ofSmall.peak).toBeGreaterThan(0);
      expect(ofAll.peak - ofSmall.peak).toBeLessThan(ROOM + FILLED);
    }, 120_000);

    test('is replayed over HTTP', async () => {
      const authorization = `Bearer ${await auditorToken(dir)}`;
      const ask = (query: string) => fetch(`${url}/events${query}`, { headers: { authorization } });
      await (await ask('?limit=1000')).text();
      const before = memory(server.pid, 'VmRSS');
      let peak = before;
      const watch = setInterval(() => {
        peak = Math.max(peak, memory(server.pid, 'VmRSS'));
      }, 20);
      const { body } = await ask('');
      const { lines, last } = await readLines(body as ReadableStream<Uint8Array>);
      clearInterval(watch);
      expect(lines).toBe(PLANTS + 1);
      expect(JSON.parse(last)).toMatchObject({
        position: `${PLANTS + 1}`,
        subject: `plant-alice/${PLANTS + 1}`,
      });
      expect(peak - before).toBeLessThan(ROOM);
    }, 120_000);
  });
