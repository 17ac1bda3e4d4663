import { logWith } from '@event-sourced/testing/logs';
import { openIn } from '@event-sourced/testing/stores';
import { expect, test } from 'vitest';
import { MAX_IN_FLIGHT } from '../../packages/audit/src/limits.ts';
import type { Batch, EventLog, EventStore } from '../../packages/event-log/src/eventStore.ts';
import { AUDITORS, appOver } from '../support/appOver.ts';
import { ReadsPerTurn } from '../support/readsPerTurn.ts';

const USERS = ['carol', 'dave', 'erin'];
/** More than two reads have. */
const EVENTS = 1_200;
const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';

/** The HTTP API over a log, and a count of what is read of it. */
async function serve() {
  const log = await openIn(logWith({ events: EVENTS }));
  const reads = new ReadsPerTurn();
  const counted = <Range, Result>(read: (range: Range) => Promise<Result>) => {
    return async (range: Range) => {
      reads.count();
      return read(range);
    };
  };
  async function* subscribe(options: Parameters<EventLog['subscribe']>[0]): AsyncGenerator<Batch> {
    for await (const batch of log.subscribe(options)) {
      reads.count();
      yield batch;
    }
  }
  const { readAll, readBackwards } = log;
  const forHashing: EventLog = {
    ...log,
    readAll: counted(readAll),
    readBackwards: counted(readBackwards),
    subscribe,
  };
  const { url } = await appOver({ ...log, forHashing } as EventStore, AUDITORS);
  return { url, reads };
}

test.each([
  ['replays', '', NDJSON, EVENTS],
  ['replays', '?type=PlantMoved', NDJSON, 0],
  ['event streams', `?limit=${EVENTS}`, SSE, EVENTS],
  ['pages of events', '?order=descending&limit=1000', NDJSON, 1_000],
  ['pages of events', '?order=descending&type=PlantMoved', NDJSON, 0],
] as const)('%s share the turns of the event loop: /events%s', async (kind, query, accept, events) => {
  const { url, reads } = await serve();
  const responses = USERS.flatMap((user) =>
    Array.from({ length: MAX_IN_FLIGHT[kind] }, () =>
      fetch(`${url}/events${query}`, { headers: { authorization: `Bearer ${user}`, accept } }),
    ),
  );
  for (const response of responses)
    expect((await (await response).text()).match(/"position":/g) ?? []).toHaveLength(events);
  expect(reads.total).toBeGreaterThanOrEqual(2 * responses.length);
  // One that begins, and one of those that continue.
  expect(reads.most).toBeLessThanOrEqual(2);
});
