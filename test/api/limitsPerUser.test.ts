import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { MAX_IN_FLIGHT } from '../../packages/audit/src/limits.ts';
import { type EventStore, StoreUnavailable } from '../../packages/event-log/src/eventStore.ts';
import { MAX_LISTS_IN_FLIGHT } from '../../src/errors.ts';
import { AUDITORS, appOver, recorded } from '../support/appOver.ts';
import { publish } from '../support/checkpoints.ts';

const LIMITS = { lists: MAX_LISTS_IN_FLIGHT, ...MAX_IN_FLIGHT };

/** The API over a log with a plant of alice, and a fake tree. Every token is the name of an auditor. */
function serve(view: object, store: Partial<EventStore>, reached = async () => {}) {
  const tree = { notReady: undefined, view, readable: view, reached };
  return appOver(
    { lastPosition: async () => 1n, readStream: async () => [recorded(1n)], ...store },
    {
      ...AUDITORS,
      reached,
      transparency: publish(tree),
    },
  );
}

test.each([
  ['lists', '/plants'],
  ['tiles', '/tile/0/000'],
  ['receipts', '/proofs/plants?id=1&user=alice'],
  ['replays', '/events'],
  ['pages of events', '/events?order=descending'],
  ['histograms', '/events/histogram'],
  ['event streams', '/events', 'text/event-stream'],
] as const)(
  'more %s in flight than a user may have are 42901, and no other request',
  async (kind, path, accept?: string) => {
    const { promise: available, reject } = Promise.withResolvers<never>();
    available.catch(() => {});
    const progress = { logId: 'm', position: 1n };
    const { url } = await serve(
      { progress, head: { ...progress, size: 1, root: '' }, has: () => false },
      { lastPosition: kind === 'lists' ? async () => 1n : () => available },
      () => available,
    );
    const get = (user: string, to: string = path) =>
      fetch(`${url}${to}`, {
        headers: { authorization: `Bearer ${user}`, accept: accept ?? 'application/x-ndjson' },
      });
    const responses = Array.from({ length: LIMITS[kind] + 20 }, () => get('carol'));
    const received: Response[] = [];
    for (const response of responses) void response.then((one) => received.push(one));
    await expect.poll(() => received.length).toBe(20);
    for (const response of received) {
      expect(response.headers.get('retry-after')).toBe('1');
      expect(await refusedWith(42901, response)).toContain(`${LIMITS[kind]} ${kind}`);
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
