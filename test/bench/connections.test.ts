import { expect, test } from 'vitest';
import { connectionsSeries, connectionsTable } from './connections.ts';
import { BARE, CONNECTIONS, CRUD, postName, SERVICE } from './names.ts';
import { Results } from './results.ts';

const results = new Results();
for (const connections of CONNECTIONS)
  for (const round of [1, 2, 3])
    for (const [name, factor] of [
      [BARE, 1],
      [SERVICE, 2],
      [CRUD, 8],
    ] as const)
      results.addRate(postName(name, connections), {
        perSecond: (16_000 * round) / factor,
        cpu: 10 * factor,
        p50: connections * factor,
        p99: 2 * connections * factor,
        loopDelay: { p99: 0, max: 0 },
      });

test('POST over connections is a table of medians', () => {
  const table = connectionsTable(results, [BARE, SERVICE, CRUD]);
  expect(table).toHaveLength(5);
  expect(table[1]).toEqual({
    connections: '8',
    'requests/s: bare Fastify · service · CRUD': '32000 · 16000 · 4000',
    'p50 ms': '8.0 · 16.0 · 64.0',
    'p99 ms': '16.0 · 32.0 · 128.0',
    'service / bare Fastify': '0.50',
    'CPU: service / bare Fastify': '2.00',
    'p99: service / bare Fastify': '2.00',
    'service / CRUD': '4.00',
  });
});

test('POST over connections is a line for each server', () => {
  const series = connectionsSeries(results, [BARE, CRUD]);
  expect(series.map(({ name }) => name)).toEqual([BARE, CRUD]);
  expect(series[1]?.points[0]).toEqual({ connections: 1, perSecond: 4_000, p50: 8, p99: 16 });
});
