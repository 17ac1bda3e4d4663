import { randomUUID } from 'node:crypto';
import { EventStoreDBClient, jsonEvent, NO_STREAM, WrongExpectedVersionError } from '@eventstore/db-client';
import { newEventId } from '../../src/eventStore/eventId.ts';
import { plantStream } from '../../src/plants/stream.ts';

// EventStoreDB's client alone: appends the events of the service, 64 in flight, and prints the rate.
// Usage: node appendAlone.ts URL USERS COUNT (that many plants) | node appendAlone.ts URL USERS COUNT SECONDS
// (that long)

const IN_FLIGHT = 64;
const WARM_UP = 1_000;

const [url = '', users = '', count = '', seconds = ''] = process.argv.slice(2);
const client = EventStoreDBClient.connectionString(url);
const run = randomUUID().slice(0, 8);
let next = 0;

async function append(): Promise<void> {
  const now = new Date();
  const i = next++;
  const user = seconds === '' ? `user-${i % Number(users)}` : `${run}-${i % Number(users)}`;
  const data = { id: String(i), user, name: `Fern number ${i}`, tag: 'indoor' };
  const metadata = { $correlationId: randomUUID(), schemaVersion: 1, occurredAt: now.toISOString() };
  const event = jsonEvent({ id: newEventId(now), type: 'PlantCreated', data, metadata });
  try {
    await client.appendToStream(plantStream(user, BigInt(i)), event, { expectedRevision: NO_STREAM });
  } catch (error) {
    if (!(error instanceof WrongExpectedVersionError)) throw error; // appended by an earlier run
  }
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
