import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { launch, type Process } from '../support/process.ts';
import { client } from '../support/service.ts';

const PLANTS = 1_000_000;
const MEBIBYTE = 1024 * 1024;
/** Long enough for the whole list to weigh twice what the server may take for it. */
const SPECIES = 'a fern with a name that is long enough for the whole list to weigh something, number';

const hasProc = existsSync('/proc/self/status');
if (!hasProc) console.info('skipped: memory cannot be measured here, since there is no /proc');

/** A log with a million plants of alice and one of bob, as if they had been created one after the other. */
function writeLog(file: string): void {
  using db = openLogFile(file);
  db.exec(`
    PRAGMA synchronous = OFF;
    BEGIN;
    WITH RECURSIVE plants (id, user, name) AS (
      SELECT 1, 'bob', 'Oak'
      UNION ALL
      SELECT id + 1, 'alice', '${SPECIES} ' || id FROM plants WHERE id <= ${PLANTS}
    )
    INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
    SELECT
      format('%08x-0000-7000-8000-000000000000', id), format('plant-%s/%d', user, id), 0, 'PlantCreated',
      json_object('id', CAST(id AS TEXT), 'user', user, 'name', name),
      '{"schemaVersion":1,"occurredAt":"2026-01-01T00:00:00.000Z"}', '2026-01-01T00:00:00.000Z'
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

describe('a user with a million plants', () => {
  let server: Process;
  let as: ReturnType<typeof client>;
  let url: string;

  beforeAll(async () => {
    const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
    const startServer = async (): Promise<void> => {
      server = launch({ env: { DATA_DIR: dir } });
      url = await server.listening();
      while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(100);
      as = client(url, dir);
    };
    const cleanUp = async (): Promise<void> => {
      await server?.kill();
      rmSync(dir, { recursive: true });
    };
    try {
      writeLog(join(dir, 'log.db'));
      // Catching up leaves room in the heap, in which a list could hide: measured is a process that has not done it.
      await startServer();
      process.kill(server.pid, 'SIGTERM');
      await server.ended;
      await startServer();
    } catch (error) {
      await cleanUp();
      throw error;
    }
    return cleanUp;
  }, 120_000);

  /** Bytes of memory that the server has now. */
  function memory(): number {
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
  }

  test.skipIf(!hasProc)(
    'is sent all of them in constant memory, while others are served at once',
    async () => {
      await as('bob').get('?limit=1');
      const before = memory();
      let peak = before;
      const durations: number[] = [];
      let streaming = true;
      const others = (async () => {
        while (streaming) {
          const since = performance.now();
          expect(await (await as('bob').get('?limit=1')).json()).toEqual([{ name: 'Oak' }]);
          durations.push(performance.now() - since);
          peak = Math.max(peak, memory());
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
