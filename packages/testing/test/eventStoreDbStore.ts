import pino from 'pino';
import { onTestFinished } from 'vitest';
import { START, type StoreObserver } from '../../event-log/src/eventStore.ts';
import { openEventStoreDb } from '../../event-store-db/src/store.ts';
import type { FakeEventStoreDb } from '../../event-store-db/src/testing/server.ts';

import { STREAMS, startFakeServer } from './stores.ts';

type Line = { level: number; msg: string; reason?: string };

/** A store until the end of the test, and its log lines. */
export async function open(
  url: string,
  options: { timeoutMs?: number; appends?: boolean; observer?: StoreObserver } = {},
) {
  const lines: Line[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const store = await openEventStoreDb({ url, timeoutMs: 60_000, ...STREAMS, logger: log, ...options });
  onTestFinished(() => store.close());
  return { store, lines };
}

/** A store with a subscriber that has caught up. */
export async function subscribed(url: string, options: Parameters<typeof open>[1] = {}) {
  const { store, lines } = await open(url, options);
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const caughtUp = Promise.withResolvers<void>();
  const streams: string[] = [];
  void (async () => {
    for await (const batch of store.subscribe({ after: START, signal: leaving.signal })) {
      streams.push(...batch.events.map(({ stream }) => stream));
      if (batch.caughtUp) caughtUp.resolve();
    }
  })().catch(caughtUp.reject);
  await caughtUp.promise;
  const isDrop = ({ msg }: Line) => msg === 'subscription dropped; resubscribing';
  return {
    store,
    /** The streams of the received events. */
    streams,
    lines,
    drops: () => lines.filter(isDrop).map(({ level, reason }) => ({ level, reason })),
  };
}

/** Two nodes, and a function that elects a leader, or none. */
export async function cluster(logs: { shared: boolean }) {
  const first = await startFakeServer();
  const second = await startFakeServer(logs.shared ? { log: first.log } : {});
  const nodes = [first, second];
  const elect = (leader: FakeEventStoreDb | undefined, { otherIsAlive = true } = {}) => {
    const members = nodes.map((node) =>
      node === leader
        ? { port: node.port, state: 'leader' as const }
        : { port: node.port, state: 'follower' as const, isAlive: otherIsAlive },
    );
    for (const node of nodes) node.members = members;
  };
  elect(first);
  return { first, second, elect, url: `esdb://127.0.0.1:${first.port},127.0.0.1:${second.port}?tls=false` };
}
