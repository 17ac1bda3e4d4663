import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EventStoreDBClient, START, streamNameFilter } from '@eventstore/db-client';
import pino from 'pino';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb/store.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { STREAMS } from '../../src/stores.ts';
import { type Bench, USERS } from './setUp.ts';
import { buildView } from './view.ts';

const ROUNDS = 3;
const run = promisify(execFile);

/** Measures the projection of EventStoreDB from its start, and the client's own subscription alone. */
export async function measureFollowing({ options, dir, results }: Bench, url: string): Promise<void> {
  const args = ['test/bench/appendAlone.ts', url, `${USERS}`, `${options.events}`];
  const { stdout } = await run(process.execPath, args);
  console.log(`wrote plants to EventStoreDB, ${Math.round(JSON.parse(stdout).perSecond)} a second`);
  const pairs: number[] = [];
  const growth: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const client = await emptyLoop(url);
    const { ms, memory } = await followFromStart(url, join(dir, `following-${round}.db`));
    console.log(
      `view ${Math.round(ms)} ms, empty loop ${Math.round(client)} ms; MiB ${memory.map(Math.round).join(' ')}`,
    );
    pairs.push(client / ms);
    growth.push((memory[9] ?? Number.NaN) / (memory[3] ?? Number.NaN));
  }
  results.addFigure('EventStoreDB: following / subscription with an empty loop', '≥ 0.8', pairs);
  results.addFigure('EventStoreDB: memory at nine tenths of the log / at three', 'flat', growth);
}

/** The duration in milliseconds, and the memory in MiB at each tenth of the log. */
async function followFromStart(url: string, file: string): Promise<{ ms: number; memory: number[] }> {
  const logger = pino({ level: 'warn' });
  const store = await openEventStoreDb({ url, timeoutMs: 10_000, ...STREAMS, logger });
  const memory: number[] = [];
  const ms = await buildView(store, file, ({ position, end }) => {
    memory[Number((10n * position) / end)] ??= process.memoryUsage.rss() / 2 ** 20;
  });
  await store.close();
  return { ms, memory };
}

/** The milliseconds that the client's own subscription takes to read all plants. */
async function emptyLoop(url: string): Promise<number> {
  const client = EventStoreDBClient.connectionString(url);
  const started = performance.now();
  const subscription = client.subscribeToAll(
    { fromPosition: START, filter: streamNameFilter({ prefixes: [PLANT_STREAM_PREFIX] }) },
    { highWaterMark: 512 },
  );
  let caughtUp = false;
  subscription.on('caughtUp', () => {
    caughtUp = true;
    if (subscription.readableLength === 0) void subscription.unsubscribe();
  });
  for await (const _ of subscription) if (caughtUp && subscription.readableLength === 0) break;
  const took = performance.now() - started;
  await subscription.unsubscribe();
  await client.dispose();
  return took;
}
