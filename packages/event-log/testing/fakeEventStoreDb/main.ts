// node test/fakeEventStoreDb/main.ts [--port N] [--host ADDRESS] [--plants N]
// The fake server as a process; GET /health/live is on the same port.
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { FakeEventStoreDb, FakeLog } from './server.ts';

const USERS = 10_000;
const FIRST_DAY = Date.UTC(2026, 0, 1);

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    plants: { type: 'string', default: '0' },
  },
});

const log = new FakeLog();
for (let id = 0; id < Number(values.plants); id++) {
  const user = `u${id % USERS}`;
  log.append(`plant-${user}/${id}`, {
    type: 'PlantCreated',
    data: { id: `${id}`, user, name: `Plant ${id}` },
    metadata: {
      $correlationId: randomUUID(),
      schemaVersion: 1,
      occurredAt: new Date(FIRST_DAY + id).toISOString(),
    },
  });
}

const server = await FakeEventStoreDb.start({
  port: Number(values.port),
  host: values.host,
  log,
});
console.log(server.url);

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void server.stop());
