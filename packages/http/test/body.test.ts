import { Socket } from 'node:net';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_BODY_BYTES, RequestWithBody } from '../src/body.ts';

/** The body of a request that arrives in these pieces. */
function bodyOf(
  pieces: readonly Uint8Array[],
  end = (request: RequestWithBody): void => void request.push(null),
): Promise<Buffer> {
  const request = new RequestWithBody(new Socket());
  const body = request.gather();
  for (const piece of pieces) request.push(piece);
  end(request);
  return promisify<Buffer>((done) => body.read(done as Parameters<typeof body.read>[0]))();
}

test('a body is what its pieces are together, however it was cut', async () => {
  const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 2_000 }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(pieces, async (all) => {
      expect(await bodyOf(all)).toEqual(Buffer.concat(all));
    }),
  );
});

test('a body of 60 KiB in pieces of one byte is read; a byte more is 41301', async () => {
  const bytes = Array.from({ length: MAX_BODY_BYTES }, (_, i) => Buffer.of(i % 256));
  expect(await bodyOf(bytes)).toEqual(Buffer.concat(bytes));
  await expect(bodyOf([...bytes, Buffer.of(0)])).rejects.toMatchObject({ code: 41301 });
});

test('a body that breaks off is 40006', async () => {
  const broken = bodyOf([Buffer.from('{')], (request) => void request.destroy(new Error('aborted')));
  await expect(broken).rejects.toMatchObject({ code: 40006 });
});
