import { randomUUID } from 'node:crypto';
import {
  NO_STREAM as CLIENT_NO_STREAM,
  EventStoreDBClient,
  jsonEvent,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import pino from 'pino';
import { newEventId } from '../../src/eventStore/eventId.ts';
import { type NewEvent, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb/store.ts';
import { plantStream } from '../../src/plants/stream.ts';
import { STREAMS } from '../../src/stores.ts';

// Appends the events of the service, 64 in flight, and prints the rate: by EventStoreDB's client alone, or by
// the adapter, which has the client on a thread of its own.
// Usage: node appendAlone.ts URL USERS COUNT (that many plants)
//      | node appendAlone.ts URL USERS 0 SECONDS [adapter] (that long)

const IN_FLIGHT = 64;
const WARM_UP = 1_000;

const [url = '', users = '', count = '', seconds = '', through = 'client'] = process.argv.slice(2);
const appendEvent = through === 'adapter' ? await byAdapter() : byClient();
const run = randomUUID().slice(0, 8);
let next = 0;

async function append(): Promise<void> {
  const now = new Date();
  const i = next++;
  const user = seconds === '' ? `user-${i % Number(users)}` : `${run}-${i % Number(users)}`;
  const data = { id: String(i), user, name: `Fern number ${i}`, tag: 'indoor' };
  const metadata = { $correlationId: randomUUID(), schemaVersion: 1, occurredAt: now.toISOString() };
  await appendEvent(plantStream(user, BigInt(i)), {
    id: newEventId(now),
    type: 'PlantCreated',
    data,
    metadata,
  });
}

type Append = (stream: string, event: NewEvent) => Promise<void>;

function byClient(): Append {
  const client = EventStoreDBClient.connectionString(url);
  return async (stream, event) => {
    try {
      await client.appendToStream(stream, jsonEvent(event), { expectedRevision: CLIENT_NO_STREAM });
    } catch (error) {
      if (!(error instanceof WrongExpectedVersionError)) throw error; // appended by an earlier run
    }
  };
}

async function byAdapter(): Promise<Append> {
  const logger = pino({ level: 'warn' });
  const store = await openEventStoreDb({ url, timeoutMs: 10_000, ...STREAMS, logger });
  return async (stream, event) => {
    await store.append(stream, event, NO_STREAM);
  };
}

async function appendWhile(shouldContinue: () => boolean): Promise<void> {
  const worker = async (): Promise<void> => {
    while (shouldContinue()) await append();
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}

if (seconds !== '') await appendWhile(() => next < WARM_UP);
const [before, cpu, started] = [next, process.cpuUsage(), performance.now()];
const end = started + Number(seconds) * 1_000;
await appendWhile(seconds === '' ? () => next < Number(count) : () => performance.now() < end);
const done = next - before;
const took = (performance.now() - started) / 1_000;
const { user, system } = process.cpuUsage(cpu);
console.log(JSON.stringify({ perSecond: done / took, cpu: (user + system) / done }));
process.exit();
