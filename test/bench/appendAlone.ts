import { randomUUID } from 'node:crypto';
import { EventStoreDBClient, jsonEvent, NO_STREAM, WrongExpectedVersionError } from '@eventstore/db-client';
import { newId } from '../../src/newId.ts';
import { plantStream } from '../../src/plants/plant.ts';

// EventStoreDB's client and nothing else: appends the events that the service would, 64 in flight, and tells the rate.
// Usage: node appendAlone.ts URL USERS COUNT (so many plants) | node appendAlone.ts URL USERS COUNT SECONDS (so long)

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
  const event = jsonEvent({ id: newId(now), type: 'PlantCreated', data, metadata });
  try {
    await client.appendToStream(plantStream(user, BigInt(i)), event, { expectedRevision: NO_STREAM });
  } catch (error) {
    if (!(error instanceof WrongExpectedVersionError)) throw error; // planted by an earlier run
  }
}

async function appendWhile(goOn: () => boolean): Promise<void> {
  const worker = async (): Promise<void> => {
    while (goOn()) await append();
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
