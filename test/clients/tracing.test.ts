import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../support/process.ts';
import { startServer } from '../support/server.ts';

// The service with the SDK of OpenTelemetry, preloaded as docs/operations.md shows it, and a receiver of OTLP.

type Span = { name: string; traceId: string; spanId: string; parentSpanId?: string; attributes: Attribute[] };
type Attribute = { key: string; value: { stringValue?: string; intValue?: number } };
type Exported = {
  resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Span[] }[] }[];
};

async function receiver() {
  const spans: Span[] = [];
  const services = new Set<string | undefined>();
  const server = createServer(async (request, response) => {
    const { resourceSpans } = (await json(request)) as Exported;
    for (const { resource, scopeSpans } of resourceSpans) {
      services.add(resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue);
      spans.push(...scopeSpans.flatMap((scope) => scope.spans));
    }
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close().closeAllConnections());
  return { spans, services, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** What a span is about: its name, and the route or the view. */
function label({ name, attributes }: Span): string {
  const about = attributes.find(({ key }) => key === 'http.route' || key === 'view')?.value.stringValue;
  return about === undefined ? name : `${name} ${about}`;
}

const CASES = [
  ['the embedded log', undefined, ['commit']], // EventStoreDB commits in its server
  ['EventStoreDB', startFakeServer, []],
] as const;

test.each(CASES)('one trace leads from POST to both views, over %s', async (_, startLog, commits) => {
  const { spans, services, url } = await receiver();
  const log = await startLog?.();
  const service = await startServer({
    env: {
      NODE_OPTIONS: `--import ${join(ROOT, 'observe/tracing/preload.mjs')}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_BSP_SCHEDULE_DELAY: '50', // milliseconds
      MERKLE_TREE: 'on',
      ...(log && { EVENTSTOREDB_URL: log.url }),
    },
  });
  const alice = service.as('alice');
  const [trace, client] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const traceparent = `00-${trace}-${client}-01`;
  expect((await alice.post('{"id":1,"name":"Fern"}', { traceparent })).status).toBe(200);
  expect(await (await alice.get('?limit=5')).json()).toEqual([{ name: 'Fern' }]);
  const events = await service.as('carol', 'audit').request('/events');
  const stored = (JSON.parse(await events.text()) as { traceparent: string }).traceparent;

  const inTrace = () => spans.filter(({ traceId }) => traceId === trace);
  const [request, handler] = ['request /plants', 'handler - plantRoutes /plants'];
  const steps = ['append', ...commits, 'fold merkleTree', 'fold plantsByUser'];
  await expect.poll(() => inTrace().map(label).sort()).toEqual([...steps, handler, request].sort());
  const spanOf = (name: string) => inTrace().find((span) => label(span) === name);
  expect(spanOf(request)?.parentSpanId).toBe(client);
  expect(spanOf(handler)?.parentSpanId).toBe(spanOf(request)?.spanId);
  expect(stored).toBe(`00-${trace}-${spanOf(handler)?.spanId}-01`);
  for (const step of steps)
    expect([step, spanOf(step)?.parentSpanId]).toEqual([step, spanOf(handler)?.spanId]);
  expect(services).toEqual(new Set(['plant-store']));
  expect(JSON.stringify(spans)).not.toContain('limit=5');
});
