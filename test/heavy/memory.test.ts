import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as pause } from 'node:timers/promises';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { ready } from '../support/instances.ts';
import { MAIN, NODE, ROOT } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { checkpointOf } from '../support/service.ts';

const MEBIBYTE = 1024 * 1024;
/** Memory with a fixed maximum: page cache of the view, its rows in one comparison. */
const BOUNDED_CACHES = 128 * MEBIBYTE;
/** In mebibytes: the server needs half of it, and garbage fills the rest. */
const SERVER_HEAP = 48;
const SUBSCRIPTION_IDLE_EXCEEDED_MS = 2_500;
const HAS_PROC = existsSync('/proc/self/status');
if (!HAS_PROC) console.info('skipped: memory cannot be measured here, since there is no /proc');

const PLANTS = 1_000_000;
/** The name of each plant; all plants together are larger than `ROOM`. */
const SPECIES = 'a fern with a name that is long enough for the whole list to weigh something, number';
/** Additional bytes that a process may use for any log, compared with a small one. */
const ROOM = 64 * MEBIBYTE;
/** The heap of `verify`, in mebibytes: with less, it would spend most of the time on garbage collection. */
const VERIFY_HEAP = 128;
const LIST_BYTES = PLANTS * JSON.stringify({ name: SPECIES }).length;

/** A log with one plant of bob, then this number of plants of alice. */
const logOf = (alices: number): string =>
  logWith({
    dir: tempDir(afterAll),
    events: alices + 1,
    user: "iif(id = 1, 'bob', 'alice')",
    name: `iif(id = 1, 'Oak', '${SPECIES} ' || (id - 1))`,
  });
const [dir, small] = [logOf(PLANTS), logOf(1_000)];
// Not in the measured server: that would grow its heap, and hide the memory of a list.
const filling = await startServer({ env: { DATA_DIR: dir, MERKLE_TREE: 'on' } }, afterAll);
await ready(filling);
await checkpointOf(PLANTS + 1, filling.as('auditor', 'audit'));
await filling.terminate();
const server = await startServer({ env: { DATA_DIR: dir, ...limitedHeap(SERVER_HEAP) } }, afterAll);
await ready(server);
const { as } = server;
const watchServer = () => watchMemory(server.pid, 'VmRSS');

describe.skipIf(!HAS_PROC)(`a user with ${PLANTS} plants`, () => {
  test('receives all of them in constant memory, while another user gets a response at every mebibyte', async () => {
    await as('bob').get('?limit=1');
    const peak = watchServer();
    const before = peak();
    let responseCount = 0;
    const { count, end } = await readList(await as('alice').get(), async () => {
      expect(await (await as('bob').get('?limit=1')).json()).toEqual([{ name: 'Oak' }]);
      responseCount++;
    });
    expect(count).toBe(PLANTS);
    expect(end.endsWith(`${SPECIES} ${PLANTS}"}]`)).toBe(true);
    expect(responseCount).toBeGreaterThan(0.8 * (LIST_BYTES / MEBIBYTE));
    expect(peak() - before).toBeLessThan(ROOM);
  });

  test('can disconnect in the middle; the server continues', async () => {
    for (let i = 0; i < 3; i++) {
      const leaving = new AbortController();
      const response = await as('alice').request('/plants', { signal: leaving.signal });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      leaving.abort();
      await expect(reader.read()).rejects.toThrow();
      expect(await as('bob').list()).toEqual([{ name: 'Oak' }]);
    }
    expect(server.stdout()).not.toMatch(/"level":[56]0/);
  });

  test('receives all but one of them with a Link to the last page', async () => {
    const response = await as('alice').get(`?limit=${PLANTS - 1}`);
    const [, link = ''] = /^<(plants\?.+)>; rel="next"$/.exec(response.headers.get('link') ?? '') ?? [];
    const { count, end } = await readList(response);
    expect(count).toBe(PLANTS - 1);
    expect(end.endsWith(`${SPECIES} ${PLANTS - 1}"}]`)).toBe(true);
    const rest = await as('alice').request(`/${link}`);
    expect(rest.headers.get('link')).toBeNull();
    expect(await rest.json()).toEqual([{ name: `${SPECIES} ${PLANTS}` }]);
  });
});

describe.skipIf(!HAS_PROC)(`a log of ${PLANTS} events, in the memory of a small one,`, () => {
  const complete = () => ({
    lines: PLANTS + 1,
    misplaced: 0,
    last: expect.stringMatching(`"${SPECIES} ${PLANTS}"`),
  });

  test('is printed by replay, each event once, to a reader that pauses', async () => {
    const ofSmall = await runOn(small, 'replay');
    const ofAll = await runOn(dir, 'replay', { reader: untilBlocked });
    expect(ofAll).toMatchObject({ code: 0, ...complete() });
    expect(ofAll.peak - ofSmall.peak).toBeLessThan(ROOM);
  });

  test('is verified, with its view', async () => {
    const ofSmall = await runOn(small, 'verify', { heap: VERIFY_HEAP });
    const ofAll = await runOn(dir, 'verify', { heap: VERIFY_HEAP });
    expect(ofAll).toMatchObject({ code: 0, last: 'problems  none' });
    expect(ofAll.peak - ofSmall.peak).toBeLessThan(ROOM + BOUNDED_CACHES);
  });

  test('is replayed over HTTP', async () => {
    const getEvents = (query: string) => as('carol', 'audit').request(`/events${query}`);
    await (await getEvents('?limit=1000')).text();
    const peak = watchServer();
    const before = peak();
    const { body } = await getEvents('');
    expect(await readLines(Readable.fromWeb(body as ReadableStream))).toMatchObject(complete());
    expect(peak() - before).toBeLessThan(ROOM);
  });
});

/** Limits the heap: otherwise garbage is not collected, and looks like growing memory. */
function limitedHeap(heap = 96) {
  return { NODE_OPTIONS: `--max-old-space-size=${heap} --max-semi-space-size=4` };
}

/** Samples the current (VmRSS) or peak (VmHWM) memory of a process until its end; returns the most so far, in bytes. */
function watchMemory(pid: number, what: 'VmRSS' | 'VmHWM'): () => number {
  let peak = 0;
  const sample = (): number => {
    const status = procFile(pid, 'status');
    if (status === '') clearInterval(timer);
    peak = Math.max(peak, 1024 * Number(RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0));
    return peak;
  };
  const timer = setInterval(sample, 20).unref();
  return sample;
}

/** Empty after the end of a process. */
function procFile(pid: number, name: string): string {
  const file = `/proc/${pid}/${name}`;
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

/**
 * Reads a list as a stream, and keeps only the number of its plants and its last bytes; calls `rest` after
 * each mebibyte.
 */
async function readList(response: Response, rest = async () => {}): Promise<{ count: number; end: string }> {
  let count = 0;
  let end = '';
  let sinceRest = 0;
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    const text = Buffer.from(chunk).toString('latin1');
    count += text.split('{').length - 1;
    end = (end + text).slice(-10_000);
    sinceRest += chunk.length;
    if (sinceRest < MEBIBYTE) continue;
    sinceRest -= MEBIBYTE;
    await rest();
  }
  return { count, end };
}

/**
 * Reads lines as a stream, and keeps only the last one, their number, and the number of those whose event does
 * not follow the previous position.
 */
async function readLines(input: Readable) {
  let lines = 0;
  let misplaced = 0;
  let last = '';
  for await (last of createInterface({ input })) if (!last.includes(`"position":"${++lines}"`)) misplaced++;
  return { lines, misplaced, last };
}

/** `reader` is called before the output is read. */
type RunOptions = { heap?: number | undefined; reader?: (pid: number) => Promise<void> };

/** Runs a command on a log; returns its output and its peak memory. */
async function runOn(data: string, command: string, { heap, reader }: RunOptions = {}) {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(NODE, [MAIN, command], {
    cwd: ROOT,
    env: { PATH, HOME, NODE_COMPILE_CACHE, DATA_DIR: data, ...limitedHeap(heap) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const pid = child.pid as number;
  const peak = watchMemory(pid, 'VmHWM');
  const ended = once(child, 'close');
  await reader?.(pid);
  const read = await readLines(child.stdout);
  const [code] = await ended;
  expect(peak()).toBeGreaterThan(0);
  return { ...read, code, peak: peak() };
}

/** Waits until the process is blocked by its full output, and then for a long pause. */
async function untilBlocked(pid: number): Promise<void> {
  /** User and system time; empty after the end. */
  const timeUsed = (): string => procFile(pid, 'stat').split(' ').slice(13, 15).join(' ');
  let before = '';
  do {
    before = timeUsed();
    await pause(500);
  } while (timeUsed() !== before);
  await pause(SUBSCRIPTION_IDLE_EXCEEDED_MS);
  expect(timeUsed()).not.toBe('');
}
