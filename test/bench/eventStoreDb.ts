import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EventStoreDBClient, START, streamNameFilter } from '@eventstore/db-client';
import pino from 'pino';
import { Follower } from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb/store.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { caughtUp } from './caughtUp.ts';
import { type Contender, startContender } from './contender.ts';
import type { Rate } from './load.ts';

// The measurements on EventStoreDB.

const run = promisify(execFile);

/** The rate of the client alone, in its own process. */
export async function appendAlone(url: string, users: number, seconds: number): Promise<Rate> {
  const args = ['test/bench/appendAlone.ts', url, `${users}`, '0', `${seconds}`];
  const { stdout } = await run(process.execPath, args);
  return { p50: Number.NaN, p99: Number.NaN, ...JSON.parse(stdout) };
}

/** Writes that many plants of `user-0`, `user-1` … in turn to the server, unless it has them. */
export async function writePlantsTo(url: string, events: number, users: number): Promise<void> {
  const { stdout } = await run(process.execPath, ['test/bench/appendAlone.ts', url, `${users}`, `${events}`]);
  console.log(`wrote plants to EventStoreDB, ${Math.round(JSON.parse(stdout).perSecond)} a second`);
}

/**
 * Seconds to read all plants with the client's own subscription and with the view, and the view's memory in
 * MiB at each tenth.
 */
export async function followFromStart(url: string, dir: string) {
  const client = await emptyLoop(url);
  const view = new PlantsByUser(join(dir, `following-${performance.now()}.db`));
  const log = pino({ level: 'warn' });
  const store = await openEventStoreDb({ url, timeoutMs: 10_000, prefix: PLANT_STREAM_PREFIX, logger: log });
  const end = await store.lastPosition();
  const memory: number[] = [];
  const started = performance.now();
  const follower = new Follower({ store, view, skip: new Set(), logger: log });
  const done = caughtUp(follower, end).then(() => true);
  while (!(await Promise.race([done, pause(50, false)]))) {
    const tenth = Math.floor((10 * Number(view.applied.position)) / Number(end));
    memory[tenth] ??= process.memoryUsage.rss() / 2 ** 20;
  }
  view.save();
  const took = (performance.now() - started) / 1_000;
  await follower.stop();
  view.close();
  await store.close();
  return { client, view: took, memory };
}

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
  const took = (performance.now() - started) / 1_000;
  await subscription.unsubscribe();
  await client.dispose();
  return took;
}

/** Milliseconds from the response to a POST on one instance until a GET on another returns the plant. */
export async function visibility(from: Contender, to: Contender, keyFile: string, times: number) {
  const { privateKey } = loadOrCreateKey(keyFile);
  const taken: number[] = [];
  for (let i = 0; i < times; i++) {
    const subject = `visitor-${performance.now()}-${i}`;
    const token = await issueToken(privateKey, { subject, lifetime: '1h' });
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const look = async (): Promise<unknown[]> =>
      (await fetch(`${to.url}/plants`, { headers })).json() as Promise<unknown[]>;
    await look(); // the token's signature is verified before the measurement
    await fetch(`${from.url}/plants`, { method: 'POST', headers, body: '{"id":1,"name":"Fern"}' });
    const respondedAt = performance.now();
    while ((await look()).length === 0);
    taken.push(performance.now() - respondedAt);
  }
  return taken.sort((a, b) => a - b);
}

/** The service on EventStoreDB, its view in `dir`. */
export function startOver(url: string, dir: string, keyFile: string): Promise<Contender> {
  mkdirSync(dir, { recursive: true });
  return startContender('src/main.ts', [], { DATA_DIR: dir, KEY_FILE: keyFile, EVENTSTOREDB_URL: url });
}
