import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { runCli } from './cli.ts';
import { auditorToken } from './eventStream.ts';
import { logWith } from './logs.ts';
import { launch, MAIN, NODE, type Process, ROOT } from './process.ts';
import { client } from './service.ts';

const MEBIBYTE = 1024 * 1024;
/** Memory with a fixed maximum: page cache of the view, its rows in one comparison, the filter of streams. */
const BOUNDED_CACHES = 128 * MEBIBYTE;
/** Longer than the idle timeout of a subscription, in milliseconds. */
const LONG_PAUSE_MS = 2_500;

type Size = {
  plants: number;
  /** The name of each plant; all plants together must be larger than `room`. */
  species: string;
  /** Additional mebibytes that a process may use for any log, compared with a small one. */
  room: number;
  /**
   * The heap of `verify`, in mebibytes: with less, it would spend most of the time on garbage collection.
   * Without it, commands and the list with a Link are not tested, which take most of the time.
   */
  heap?: number;
  /** The heap of the server: it needs half of it, and garbage fills the rest. */
  serverHeap: number;
};

/** Tests that lists, replays and verification of this number of plants use constant memory. */
export function constantMemory({ plants, species, room, heap, serverHeap }: Size): void {
  const roomBytes = room * MEBIBYTE;
  const hasProc = existsSync('/proc/self/status');
  if (!hasProc) console.info('skipped: memory cannot be measured here, since there is no /proc');

  const size = plants * JSON.stringify({ name: species }).length;
  let dir: string;
  let server: Process;
  let as: ReturnType<typeof client>;
  let url: string;

  /** A log with one plant of bob, then this number of plants of alice. */
  const write = (dir: string, events: number): string =>
    logWith({
      dir,
      events: events + 1,
      user: "iif(id = 1, 'bob', 'alice')",
      name: `iif(id = 1, 'Oak', '${species} ' || (id - 1))`,
    });

  beforeAll(async () => {
    expect(size).toBeGreaterThan(1.2 * roomBytes);
    dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
    const cleanUp = async (): Promise<void> => {
      await server?.kill();
      rmSync(dir, { recursive: true });
    };
    try {
      write(dir, plants);
      // Not in the server: that would grow its heap, and hide the memory of a list.
      const MERKLE_TREE = heap ? 'on' : 'off'; // only commands read it
      expect(await runCli(['rebuild'], { DATA_DIR: dir, MERKLE_TREE })).toMatchObject({ code: 0 });
      server = launch({ env: { DATA_DIR: dir, ...limitedHeap(serverHeap) } });
      url = await server.listening();
      while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(100);
      as = client(url, dir);
    } catch (error) {
      await cleanUp();
      throw error;
    }
    return cleanUp;
  });

  describe(`a user with ${plants} plants`, () => {
    test.skipIf(!hasProc)(
      'receives all of them in constant memory, while another user gets a response at every mebibyte',
      async () => {
        await as('bob').get('?limit=1');
        const before = memory(server.pid, 'VmRSS');
        let peak = before;
        let responseCount = 0;
        const { count, end } = await readList(await as('alice').get(), async () => {
          expect(await (await as('bob').get('?limit=1')).json()).toEqual([{ name: 'Oak' }]);
          responseCount++;
          peak = Math.max(peak, memory(server.pid, 'VmRSS'));
        });
        expect(count).toBe(plants);
        expect(end.endsWith(`${species} ${plants}"}]`)).toBe(true);
        expect(responseCount).toBeGreaterThan(0.8 * (size / MEBIBYTE));
        expect(peak - before).toBeLessThan(roomBytes);
      },
    );

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
      expect((await fetch(`${url}/health/ready`)).status).toBe(200);
      expect(server.stdout()).not.toMatch(/"level":[56]0/);
    });

    test.runIf(heap)('receives all but one of them with a Link to the last one', async () => {
      const response = await as('alice').get(`?limit=${plants - 1}`);
      const [, link = ''] = /^<(\/plants\?.+)>; rel="next"$/.exec(response.headers.get('link') ?? '') ?? [];
      const { count, end } = await readList(response);
      expect(count).toBe(plants - 1);
      expect(end.endsWith(`${species} ${plants - 1}"}]`)).toBe(true);
      const rest = await as('alice').request(link);
      expect(rest.headers.get('link')).toBeNull();
      expect(await rest.json()).toEqual([{ name: `${species} ${plants}` }]);
    });
  });

  describe.skipIf(!hasProc)(`a log of ${plants} events, in the memory of a small one,`, () => {
    /** A log of 1 000 events. */
    function smallLog(): string {
      const small = join(dir, 'small');
      if (!existsSync(small)) {
        mkdirSync(small);
        write(small, 1_000);
      }
      return small;
    }

    /** The last event of a replay. */
    const last = () => ({
      position: `${plants + 1}`,
      subject: `plant-alice/${plants + 1}`,
      data: { id: `${plants + 1}`, user: 'alice', name: `${species} ${plants}` },
    });

    test.runIf(heap)('is replayed by npm run replay, each event once, to a reader that pauses', async () => {
      const ofSmall = await runOn(smallLog(), 'replay');
      const ofAll = await runOn(dir, 'replay', { reader: untilBlocked });
      expect(ofAll).toMatchObject({ code: 0, lines: plants + 1, misplaced: 0 });
      expect(JSON.parse(ofAll.last)).toMatchObject(last());
      expect(ofSmall.peak).toBeGreaterThan(0);
      expect(ofAll.peak - ofSmall.peak).toBeLessThan(roomBytes);
    });

    test.runIf(heap)('is verified, with its view', async () => {
      const ofSmall = await runOn(smallLog(), 'verify', { heap });
      const ofAll = await runOn(dir, 'verify', { heap });
      expect(ofAll).toMatchObject({ code: 0, last: 'problems  none' });
      expect(ofSmall.peak).toBeGreaterThan(0);
      expect(ofAll.peak - ofSmall.peak).toBeLessThan(roomBytes + BOUNDED_CACHES);
    });

    test('is replayed over HTTP', async () => {
      const authorization = `Bearer ${await auditorToken(dir)}`;
      const getEvents = (query: string) => fetch(`${url}/events${query}`, { headers: { authorization } });
      await (await getEvents('?limit=1000')).text();
      const before = memory(server.pid, 'VmRSS');
      let peak = before;
      const watch = setInterval(() => {
        peak = Math.max(peak, memory(server.pid, 'VmRSS'));
      }, 20);
      const { body } = await getEvents('');
      const read = await readLines(body as ReadableStream<Uint8Array>);
      clearInterval(watch);
      expect(read).toMatchObject({ lines: plants + 1, misplaced: 0 });
      expect(JSON.parse(read.last)).toMatchObject(last());
      expect(peak - before).toBeLessThan(roomBytes);
    });
  });
}

/** Limits the heap: otherwise garbage is not collected, and looks like growing memory. */
const limitedHeap = (heap = 96) => ({ NODE_OPTIONS: `--max-old-space-size=${heap} --max-semi-space-size=4` });

/** The current (VmRSS) or peak (VmHWM) memory of a process, in bytes; 0 after its end. */
function memory(pid: number, what: 'VmRSS' | 'VmHWM'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/**
 * Reads a list as a stream, and keeps only the number of its plants and its last bytes; calls `rest` after
 * each mebibyte.
 */
async function readList(response: Response, rest = async () => {}): Promise<{ count: number; end: string }> {
  let count = 0;
  let end = '';
  let read = 0;
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let at = bytes.indexOf('{'); at !== -1; at = bytes.indexOf('{', at + 1)) count++;
    end = (end + bytes.toString('latin1', Math.max(0, bytes.length - 10_000))).slice(-10_000);
    const before = read;
    read += bytes.length;
    if (Math.floor(read / MEBIBYTE) > Math.floor(before / MEBIBYTE)) await rest();
  }
  return { count, end };
}

const POSITION = Buffer.from('"position":"');

/**
 * Reads lines as a stream, and keeps only the last one, their number, and the number of those whose event does
 * not follow the previous position.
 */
async function readLines(output: AsyncIterable<Uint8Array>) {
  let [lines, misplaced] = [0, 0];
  let rest = Buffer.alloc(0);
  let last = rest;
  for await (const chunk of output) {
    const bytes = Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = bytes.indexOf('\n'); end !== -1; end = bytes.indexOf('\n', start)) {
      last = bytes.subarray(start, end);
      start = end + 1;
      lines++;
      const position = last.indexOf(POSITION) + POSITION.length;
      if (last.toString('latin1', position, position + `${lines}"`.length) !== `${lines}"`) misplaced++;
    }
    rest = bytes.subarray(start);
  }
  return { lines, misplaced, last: last.toString() };
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
  const pid = child.pid as number;
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, memory(pid, 'VmHWM'));
  }, 20);
  try {
    const ended = once(child, 'close');
    await reader?.(pid);
    const read = await readLines(child.stdout);
    const [code] = await ended;
    return { ...read, code, peak };
  } finally {
    clearInterval(watch);
    child.kill('SIGKILL');
  }
}

/** Waits until the process is blocked by its full output, and then for a long pause. */
async function untilBlocked(pid: number): Promise<void> {
  await pause(500);
  for (let [before, now] = ['', timeUsed(pid)]; now !== before; [before, now] = [now, timeUsed(pid)])
    await pause(200);
  await pause(LONG_PAUSE_MS);
  expect(timeUsed(pid)).not.toBe('');
}

/** The processor time of a process; empty after its end. */
function timeUsed(pid: number): string {
  const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '';
  return stat.split(' ').slice(13, 15).join(' ');
}
