import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test, vi } from 'vitest';
import { verifierKey } from '../../src/notes/signedNote.ts';
import { verifyCosignatures } from '../../src/witness/cosignature.ts';
import { WitnessStateUnusable } from '../../src/witness/cosignedCheckpointFile.ts';
import { Witness } from '../../src/witness/witness.ts';
import { startWitnessServer } from '../../src/witness/witnessServer.ts';
import { WITNESSED } from '../notes/vectors.ts';
import { checkpointOf, LOG_ID, LOG_KEY, ORIGIN, request, WITNESS } from './testLog.ts';

const HEAD = 'POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n';

/** A connection that has sent bytes, until the end of the test. */
function connection(url: string, bytes: string): Socket {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port), allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {}); // a reset
  socket.write(bytes);
  return socket;
}

async function serve(logs = [LOG_KEY]) {
  const witness = new Witness({ ...WITNESS, logs, stateDir: tempDir(), now: () => new Date() });
  const lines: string[] = [];
  const print = (line: string): void => void lines.push(line.replace(/^\S+Z {2}/, ''));
  const { url, close } = await startWitnessServer(witness, { host: '127.0.0.1', port: 0, print });
  onTestFinished(close);
  const post = (body: string) => fetch(`${url}/add-checkpoint`, { method: 'POST', body });
  /** A connection with a request whose body the server waits for. */
  const upload = async (length: number): Promise<Socket> => {
    const expecting = `${HEAD}Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`;
    const socket = connection(url, expecting);
    await once(socket, 'readable');
    return socket;
  };
  return { url, close, witness, lines, post, upload };
}

test('the requests of the tests of litewitness have the responses that tlog-witness requires', async () => {
  const key = verifierKey(WITNESSED.name, Buffer.from(WITNESSED.publicKey, 'hex'));
  const { post, witness } = await serve([key]);
  const { first, from1to3, from3to5 } = WITNESSED;
  for (const [body, status, size] of [
    [`old 0\n\n${first}`, 200],
    [from1to3.replace(/6go=\n$/, '6Ao=\n'), 403],
    [from1to3.replaceAll('9e562', '9e563'), 404],
    [`old 1\n\n${checkpointOf(from1to3)}`, 422],
    [from1to3.replace('AAA=\n\n', 'ABA=\n\n'), 422],
    [from1to3, 200],
    [from3to5.replace('old 3', 'old 1'), 409, '3\n'],
    [from3to5, 200],
    [`old 0\n\n${checkpointOf(from3to5)}`, 409, '5\n'],
  ] as const) {
    const response = await post(body);
    const reply = await response.text();
    expect([body, response.status, size && reply]).toEqual([body, status, size]);
    if (size) expect(response.headers.get('content-type')).toBe('text/x.tlog.size');
    const cosignatures = () => verifyCosignatures(checkpointOf(body) + reply, [witness.verifierKey]);
    if (status === 200) expect(cosignatures()).toHaveLength(1);
  }
});

test('the latest cosigned checkpoint is served under the hash of the origin', async () => {
  const { url, post, witness } = await serve();
  const path = `${url}/${LOG_ID}/checkpoint`;
  expect((await fetch(path)).status).toBe(404);
  await post(request('abc'));
  const response = await fetch(`${path}?now`);
  expect([response.status, await response.text()]).toEqual([200, await witness.checkpoint(LOG_ID)]);
  expect((await fetch(path, { method: 'HEAD' })).status).toBe(200);
  for (const other of [path.replace('d7', 'D7'), path.replace('d7', 'd8'), `${path}/`, url])
    expect((await fetch(other)).status).toBe(404);
  for (const [other, method] of [
    [path, 'POST'],
    [`${url}/add-checkpoint`, 'GET'],
  ] as const) {
    const { status, headers } = await fetch(other, { method });
    expect([status, headers.get('allow')]).toEqual([405, method === 'POST' ? 'GET, HEAD' : 'POST']);
  }
});

test('a body above the limit, also in many pieces, is 413, and its connection stays usable', async () => {
  const { url, post } = await serve();
  expect((await post('x'.repeat(128 * 1024))).status).toBe(400);
  expect((await post('x'.repeat(128 * 1024 + 1))).status).toBe(413);
  const pieces = `${'1\r\nx\r\n'.repeat(128 * 1024 + 9)}0\r\n\r\n`;
  const next = 'GET / HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n';
  const socket = connection(url, `${HEAD}Transfer-Encoding: chunked\r\n\r\n${pieces}${next}`);
  expect((await text(socket)).match(/^HTTP\/1.1 \d+/gm)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 404']);
});

test('a line is printed for each rejected or failed request of a known log, with the evidence in Base64', async () => {
  const { post, lines, witness } = await serve();
  await post('nothing');
  await post(request('abc', { origin: 'unknown.example' }));
  await post(request('abc'));
  expect(lines).toEqual([]);
  const base64 = (note = ''): string => Buffer.from(note).toString('base64');
  const [fork, longer] = [request('abx', { from: 2 }), request('abxyz', { from: 3 })];
  for (const body of [request('abcd'), fork, longer]) await post(body);
  vi.spyOn(witness, 'addCheckpoint').mockRejectedValueOnce(new WitnessStateUnusable('disk\nfull'));
  expect((await post(fork)).status).toBe(503);
  vi.spyOn(witness, 'addCheckpoint').mockRejectedValueOnce(new Error('bug'));
  expect((await post(fork)).status).toBe(500);
  const [evidence, other] = [base64(await witness.checkpoint(LOG_ID)), base64(checkpointOf(fork))];
  expect(lines.map((line) => line.replace(/:[\da-f]{64}/g, ':ROOT'))).toEqual([
    `409  ${ORIGIN}  the old size is 0, but the latest checkpoint has 3`,
    `409  ${ORIGIN}  the log has signed a different root of size 3  ${evidence}  ${other}`,
    `422  ${ORIGIN}  the proof is invalid: from 3:ROOT to 5:ROOT  ${base64(checkpointOf(longer))}`,
    '503  disk\\u{a}full',
    '500  bug',
  ]);
});

test('beside too many requests in flight, others are 503, but not beside any number of incomplete bodies', async () => {
  const { url, upload, post, witness } = await serve();
  const oldest = await upload(10);
  await Promise.all(Array.from({ length: 300 }, () => upload(10)));
  expect((await post(request('abc'))).status).toBe(200);
  for (let connections = 300; connections < 1_100; connections++) await upload(10);
  expect((await post(request('abc'))).status).toBe(409); // it has been cosigned
  const closed = Promise.race([once(oldest, 'end'), once(oldest, 'close')]);
  oldest.resume();
  await closed;
  const { promise, resolve } = Promise.withResolvers<string>();
  const adding = vi.spyOn(witness, 'addCheckpoint').mockReturnValue(promise);
  const slow = Array.from({ length: 256 }, () => post(request('abc')));
  await expect.poll(() => adding.mock.calls.length).toBe(256);
  const response = await post(request('abc'));
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  expect((await fetch(`${url}/${LOG_ID}/checkpoint`)).status).toBe(200);
  resolve('');
  for (const { status } of await Promise.all(slow)) expect(status).toBe(200);
});

test('close lets requests in flight end, and accepts no others', async () => {
  const { url, close, upload } = await serve();
  const body = request('abc');
  const socket = await upload(body.length + 2); // an em dash has three bytes
  const closed = close();
  socket.write(body);
  expect(await text(socket)).toMatch(/HTTP\/1.1 200 OK\r\nconnection: close\r\n.*\n— witness/s);
  await closed;
  await expect(fetch(url)).rejects.toThrow();
});
