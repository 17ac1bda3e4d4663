import { once } from 'node:events';
import { connect, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { open } from '@event-sourced/testing/eventStoreDbStore';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, onTestFinished, test } from 'vitest';
import { NO_STREAM } from '../../event-log/src/eventStore.ts';
import { event, everything } from '../../event-log/src/testing/contract.ts';

/** The length of the head of a gRPC message: whether it is compressed, and its length. */
const HEAD = 5;

/** A proxy before a fake server that compresses every message, whatever clients accept, and the headers of requests. */
async function compressingServer() {
  const server = await startFakeServer();
  const origin = connect(`http://127.0.0.1:${server.port}`);
  const requests: IncomingHttpHeaders[] = [];
  let compressed = 0;
  const proxy = createServer().on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    requests.push(headers);
    const request = origin.request(headers);
    stream.pipe(request);
    for (const end of [stream, request]) end.on('error', () => {});
    stream.on('aborted', () => request.close());
    let trailers: IncomingHttpHeaders = {};
    request.on('response', (response) => {
      const hasMessages = response['grpc-status'] === undefined;
      const options = hasMessages ? { waitForTrailers: true } : { endStream: true };
      stream.respond({ ...response, 'grpc-encoding': 'gzip' }, options);
    });
    request.on('trailers', (received) => {
      trailers = received;
    });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    let rest = Buffer.alloc(0);
    request.on('data', (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end = HEAD; rest.length >= HEAD; rest = rest.subarray(end)) {
        end = HEAD + rest.readUInt32BE(1);
        if (rest.length < end) return;
        const message = gzipSync(rest.subarray(HEAD, end));
        const head = Buffer.from([1, 0, 0, 0, 0]);
        head.writeUInt32BE(message.length, 1);
        stream.write(Buffer.concat([head, message]));
        compressed++;
      }
    });
    request.on('close', () => stream.end());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => {
    origin.destroy();
    proxy.close();
  });
  const { port } = proxy.address() as AddressInfo;
  return { url: `esdb://127.0.0.1:${port}?tls=false`, requests, compressed: () => compressed };
}

test('reads and appends ask for messages without compression, and decompress them all the same', async () => {
  const { url, requests, compressed } = await compressingServer();
  const { store } = await open(url);
  const { position } = await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  expect(await everything(store)).toMatchObject([{ position, data: { name: 'Fern' } }]);
  expect(compressed()).toBeGreaterThan(3);
  const accepted = requests.map((headers): [string, unknown] => [
    `${headers[':path']}`,
    headers['grpc-accept-encoding'],
  ]);
  for (const call of ['Read', 'BatchAppend']) {
    const encodings = accepted.flatMap(([path, encoding]) => (path.endsWith(`/${call}`) ? encoding : []));
    expect([call, new Set(encodings)]).toEqual([call, new Set(['identity'])]);
  }
});
