import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  type EventStore,
  type Page,
  type RecordedEvent,
  StoreUnavailable,
} from '../../packages/event-log/src/eventStore.ts';
import { MAX_IN_FLIGHT } from '../../src/inFlight.ts';
import { AUDITORS, appOver } from '../support/appOver.ts';
import { auditorToken } from '../support/eventStream.ts';
import { untilAvailable } from '../support/instances.ts';
import { logWith } from '../support/logs.ts';
import { getWith, unread } from '../support/rawHttp.ts';
import { refusedWith } from '../support/refusal.ts';
import { startServiceWithTree } from '../support/service.ts';
import { newSigner } from '../support/signer.ts';

const EVENT: RecordedEvent = {
  position: 1n,
  stream: 'plant-alice/1',
  revision: 0n,
  id: 'e',
  type: 'Written',
  data: 'x'.repeat(60_000),
  metadata: {},
};

/** The API over a log with a plant of alice, and a fake tree. Every token is the name of an auditor. */
function serve(tree: object, store: Partial<EventStore>, reached = async () => {}) {
  return appOver(
    { lastPosition: async () => 1n, readStream: async () => [EVENT], ...store },
    {
      ...AUDITORS,
      reached,
      transparency: { tree: { notReady: undefined, ...tree } as never, signer: newSigner() },
    },
  );
}

test.each([
  ['lists', '/plants'],
  ['tiles', '/tile/0/000'],
  ['bundles of entries', '/tile/entries/000'],
  ['receipts', '/proofs/plants?id=1&user=alice'],
  ['replays', '/events'],
  ['pages of events', '/events?order=descending'],
  ['event streams', '/events', 'text/event-stream'],
] as const)(
  'more %s in flight than a user may have are 42901, and no other request',
  async (kind, path, accept?: string) => {
    const { promise: available, reject } = Promise.withResolvers<never>();
    available.catch(() => {});
    const tree = { current: { logId: 'm', position: 1n }, read: { to: 1n, last: 1n }, has: () => false };
    const { url } = await serve(
      { ...tree, reached: () => available, readTile: () => undefined },
      { lastPosition: kind === 'lists' ? async () => 1n : () => available },
      () => available,
    );
    const get = (user: string, to: string = path) =>
      fetch(`${url}${to}`, {
        headers: { authorization: `Bearer ${user}`, accept: accept ?? 'application/x-ndjson' },
      });
    const responses = Array.from({ length: MAX_IN_FLIGHT[kind] + 20 }, () => get('carol'));
    const received: Response[] = [];
    for (const response of responses) void response.then((one) => received.push(one));
    await expect.poll(() => received.length).toBe(20);
    for (const response of received) {
      expect(response.headers.get('retry-after')).toBe('1');
      expect(await refusedWith(42901, response)).toContain(`${MAX_IN_FLIGHT[kind]} ${kind}`);
    }
    const ofDave = get('dave');
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    expect((await get('carol', '/log-key')).status).toBe(200);
    reject(new StoreUnavailable('closed'));
    await Promise.all(responses);
    for (const response of [...received.slice(20), await ofDave]) await refusedWith(50301, response);
    await expect.poll(async () => (await get('carol')).status).toBe(503);
  },
);

/** A bundle of them is more than the buffers of a connection hold. */
const LARGE_EVENTS = 256;

const largeLog = () => logWith({ events: LARGE_EVENTS, type: 'Written', name: `'${'x'.repeat(60_000)}'` });

describe('bundles that no one reads', () => {
  test('do not keep others from POST, lists and bundles', async () => {
    const { url, dir, as } = await startServiceWithTree({ DATA_DIR: largeLog() });
    const [carol, dave, alice] = [as('carol', 'audit'), as('dave', 'audit'), as('alice')];
    const path = '/tile/entries/000';
    await (await untilAvailable(() => carol.request('/checkpoint'))).text();
    const token = await auditorToken(dir);
    const sockets = await Promise.all(
      Array.from({ length: MAX_IN_FLIGHT['bundles of entries'] + 4 }, () =>
        unread(url, getWith(path, token)),
      ),
    );
    const statuses = sockets.map((socket) => `${socket.read(12)}`.slice(-3));
    expect(statuses.filter((status) => status === '200')).toHaveLength(MAX_IN_FLIGHT['bundles of entries']);
    expect(new Set(statuses)).toEqual(new Set(['200', '429']));
    await refusedWith(42901, await carol.request(path));
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    expect((await alice.create(1_000, { name: 'Fern' })).status).toBe(200);
    expect(await alice.list()).toEqual([{ name: 'Fern' }]);
    const uncompressed = { headers: { 'accept-encoding': 'identity' } };
    const bundle = await (await dave.request(path, uncompressed)).arrayBuffer();
    expect(bundle.byteLength).toBeGreaterThan(LARGE_EVENTS * 60_000);
    sockets[statuses.indexOf('200')]?.destroy();
    await expect
      .poll(async () => {
        const { status, body } = await carol.request(path);
        await body?.cancel();
        return status;
      })
      .toBe(200);
  });

  test('are not read to their end from the log if the client disconnects', async () => {
    const pages: ((page: Page) => void)[] = [];
    const page: Page = { events: [{ ...EVENT, data: 'x' }], position: 1n, isEnd: false };
    const readAll = (): Promise<Page> => new Promise((resolve) => pages.push(resolve));
    const { url, log } = await serve({ startOf: () => 0n, has: () => true }, { readAll });
    const first = unread(url, getWith('/tile/entries/000', 'carol'));
    await expect.poll(() => pages.length).toBe(1);
    pages[0]?.(page);
    const socket = await first;
    await expect.poll(() => pages.length).toBe(2);
    socket.destroy();
    await expect.poll(log).toContain('"disconnected":true');
    pages[1]?.(page);
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    expect(pages).toHaveLength(2);
  });
});
