// node test/support/eventStoreDbDoubleServer.ts [--port N] [--host ADDRESS] [--plants N] [--unary]
// The double as a process of its own; GET /health/live is answered on the same port.
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { DoubleLog, EventStoreDbDouble } from './eventStoreDbDouble.ts';

const USERS = 10_000;
const FIRST_DAY = Date.UTC(2026, 0, 1);

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    plants: { type: 'string', default: '0' },
    unary: { type: 'boolean', default: false },
  },
});

const log = new DoubleLog();
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

const double = await EventStoreDbDouble.start({
  port: Number(values.port),
  host: values.host,
  log,
  serverFeatures: values.unary ? 'unimplemented' : 'batch',
});
console.log(double.url);

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void double.stop());
