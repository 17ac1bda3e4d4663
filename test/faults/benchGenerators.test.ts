import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { autocannonGenerator } from '../bench/autocannon.ts';
import { wrkGenerator } from '../bench/wrk.ts';
import { tempDir } from '../support/tempDir.ts';

const USERS = 10;
const FIRST_ID = 176_381_925_700_000;
const TOKENS = Array.from({ length: USERS }, (_, i) => `token-${i}`);
const wrk = wrkGenerator();
if (!wrk) console.info('skipped: wrk is not installed');

describe.each([autocannonGenerator, ...(wrk ? [wrk] : [])])('$name', (generator) => {
  const send = (url: string, method: 'GET' | 'POST', users = USERS) => {
    const tokenFile = join(tempDir(), 'tokens');
    writeFileSync(tokenFile, `${TOKENS.join('\n')}\n`);
    return generator.send({ method, url, connections: 4, seconds: 1, tokenFile, users, firstId: FIRST_ID });
  };

  test('creates plants with new IDs, for all users', async () => {
    const { url, requests } = await startServer();
    const sent = await send(`${url}/plants`, 'POST');
    expect(sent.requests).toBeGreaterThan(0);
    expect(Object.values(sent.failed).every((count) => count === 0)).toBe(true);
    const plants = requests.map(({ body }) => JSON.parse(body));
    expect(new Set(plants.map(({ id }) => id)).size).toBe(plants.length);
    for (const { id, name, tag } of plants) {
      expect(id).toBeGreaterThanOrEqual(FIRST_ID);
      expect({ name, tag }).toEqual({ name: `Fern number ${id}`, tag: 'indoor' });
    }
    const { method, headers } = requests[0] as Received;
    expect([method, headers['content-type']]).toEqual(['POST', 'application/json']);
    expect(tokensOf(requests)).toEqual(new Set(TOKENS.map((token) => `Bearer ${token}`)));
  });

  test('lists plants, for all users', async () => {
    const { url, requests } = await startServer();
    await send(`${url}/plants?limit=100`, 'GET');
    expect(new Set(requests.map((request) => `${request.method} ${request.url}`))).toEqual(
      new Set(['GET /plants?limit=100']),
    );
    expect(tokensOf(requests)).toEqual(new Set(TOKENS.map((token) => `Bearer ${token}`)));
  });

  test('sends requests of the first users only', async () => {
    const { url, requests } = await startServer();
    await send(`${url}/plants`, 'GET', 1);
    expect(tokensOf(requests)).toEqual(new Set(['Bearer token-0']));
  });

  test('counts error responses as failed', async () => {
    const { url } = await startServer(503);
    expect((await send(url, 'GET')).failed.status).toBeGreaterThan(0);
  });

  test('counts broken connections as failed', async () => {
    const { url } = await startServer('reset');
    const { failed } = await send(url, 'GET');
    expect(Object.values(failed).some((count) => count > 0)).toBe(true);
  });
});

type Received = Pick<IncomingMessage, 'method' | 'url' | 'headers'> & { body: string };

/** A server that keeps the requests it got, and responds with a status or resets the connection. */
async function startServer(respond: number | 'reset' = 200): Promise<{ url: string; requests: Received[] }> {
  const requests: Received[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    requests.push({ method, url, headers, body: await text(request) });
    if (respond === 'reset') request.socket.resetAndDestroy();
    else response.writeHead(respond).end('[]');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

const tokensOf = (requests: readonly Received[]) =>
  new Set(requests.map(({ headers }) => headers.authorization));
