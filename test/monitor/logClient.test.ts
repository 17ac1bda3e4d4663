import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { LogClient, LogUnavailable } from '../../src/monitor/logClient.ts';

/** A client of a log that limits its first requests, and the number of requests that the log has got. */
async function clientOf({ limited, retryAfter }: { limited: number; retryAfter?: string }) {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests++;
    if (requests > limited) response.setHeader('content-type', 'text/plain').end('checkpoint');
    else response.writeHead(429, retryAfter ? { 'retry-after': retryAfter } : {}).end('{"message":"Wait."}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new LogClient({ url, token: 't', signal: new AbortController().signal });
  return { client, requests: () => requests };
}

test('a request over the rate limit is repeated when the response says', async () => {
  const { client, requests } = await clientOf({ limited: 10, retryAfter: '0' });
  expect(String(await client.checkpoint())).toBe('checkpoint');
  expect(requests()).toBe(11);
});

test('a log that limits every request is unavailable', async () => {
  const { client, requests } = await clientOf({ limited: Number.POSITIVE_INFINITY, retryAfter: '0' });
  await expect(client.checkpoint()).rejects.toThrow(/checkpoint: 429 Wait\.$/);
  expect(requests()).toBe(11);
});

test.each([['3600'], ['soon'], [undefined]])('one that says to wait %s is, too', async (retryAfter) => {
  const { client, requests } = await clientOf({ limited: 1, ...(retryAfter && { retryAfter }) });
  await expect(client.checkpoint()).rejects.toThrow(LogUnavailable);
  expect(requests()).toBe(1);
});
