import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { gatherBody, MAX_BODY_BYTES, readBody } from '../src/body.ts';

const read = promisify(readBody);

/** A request whose body is gathered while it arrives in these pieces. */
function requestOf(pieces: readonly Uint8Array[], end: (request: IncomingMessage) => void): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  request.headers['transfer-encoding'] = 'chunked';
  gatherBody(request);
  for (const piece of pieces) request.push(piece);
  end(request);
  return request;
}
const complete = (request: IncomingMessage) => void request.push(null);

test('a body is what its pieces are together, however it was cut', async () => {
  const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 2_000 }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(pieces, async (all) => {
      expect(await read(requestOf(all, complete))).toEqual(Buffer.concat(all));
    }),
  );
});

test('a body of 60 KiB in pieces of a byte is read, one of a byte more is 41301', async () => {
  const bytes = Array.from({ length: MAX_BODY_BYTES }, (_, i) => Buffer.of(i % 256));
  expect(await read(requestOf(bytes, complete))).toEqual(Buffer.concat(bytes));
  await expect(read(requestOf([...bytes, Buffer.of(0)], complete))).rejects.toMatchObject({ code: 41301 });
});

test('a body that breaks off is 40006', async () => {
  const request = requestOf([Buffer.from('{')], (broken) => void broken.destroy(new Error('aborted')));
  await expect(read(request)).rejects.toMatchObject({ code: 40006 });
});
