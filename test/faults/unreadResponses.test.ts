import { existsSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { logWith } from '../support/logs.ts';
import { getWith, unread } from '../support/rawHttp.ts';
import { startServer } from '../support/server.ts';
import { tokenOf } from '../support/service.ts';

const EVENTS = 20_000;
/** A list of all plants, or a replay, is more than the buffers of a connection hold. */
const NAME = 'a plant with a name that is long enough '.repeat(20);
const CONNECTIONS = 1_000;
/** The other user gets responses after so many more connections. */
const STEP = 100;
const REQUESTS_PER_CONNECTION = 5;
const MAX_MEMORY_KIB = 600 * 1024;

const hasProc = existsSync('/proc/self/status');
if (!hasProc) console.info('skipped: memory cannot be measured here, since there is no /proc');

/** The most memory that a process has had, in KiB. */
const peakMemory = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

test.skipIf(!hasProc)(
  'a thousand connections of a user that read nothing leave the server in its memory, and other users get responses',
  async () => {
    const dir = logWith({ events: EVENTS, name: `'${NAME}' || id` });
    // Not in the server: it would take memory of its own.
    expect(await runCli(['rebuild'], { DATA_DIR: dir, MERKLE_TREE: 'off' })).toMatchObject({ code: 0 });
    const { url, pid, as } = await startServer({ env: { DATA_DIR: dir } });
    const tokens = { alice: await tokenOf(dir, 'alice'), carol: await tokenOf(dir, 'carol', 'audit') };
    const dave = as('dave');
    let plants = 0;
    const forms = [
      ['carol', '/events', 'application/x-ndjson'],
      ['carol', '/events?order=descending&limit=1000', 'application/x-ndjson'],
      ['carol', '/events', 'text/event-stream'],
      ['carol', '/events?type=None', 'text/event-stream'],
      ['alice', '/plants', 'application/json'],
    ] as const;
    for (const [user, path, accept] of forms) {
      const request = getWith(path, tokens[user], `Accept: ${accept}\r\n`);
      const sockets: Socket[] = [];
      while (sockets.length < CONNECTIONS) {
        const step = Array.from({ length: STEP }, () => unread(url, request.repeat(REQUESTS_PER_CONNECTION)));
        sockets.push(...(await Promise.all(step)));
        expect((await dave.create(++plants, { name: 'Fern' })).status, path).toBe(200);
        const list = await dave.get('?limit=1');
        expect(list.status, path).toBe(200);
        expect(await list.json()).toEqual([{ name: 'Fern' }]);
      }
      const statuses = new Set(sockets.map((socket) => `${socket.read(12)}`.slice(-3)));
      expect(statuses, path).toEqual(new Set(['200', '429']));
      for (const socket of sockets) socket.destroy();
      expect(peakMemory(pid), path).toBeLessThan(MAX_MEMORY_KIB);
    }
    expect(await dave.list()).toHaveLength(plants);
  },
);
