import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BrowserBuffer } from '../src/page/node/buffer.ts';
import * as browser from '../src/page/node/crypto.ts';

// What browsers do not have of Node: it must do the same, since the modules of the server run on it.

const anyText = fc.string({ unit: 'binary' });
const anyBytes = fc.uint8Array({ maxLength: 300 });

test('SHA-256 in a browser is that of Node, of any text and any bytes, also within a larger buffer', () => {
  const property = fc.property(anyText, anyBytes, fc.nat(64), (text, bytes, at) => {
    for (const data of [text, bytes.subarray(at)])
      expect(browser.hash('sha256', data)).toBe(hash('sha256', data));
  });
  fc.assert(property, { numRuns: 30 });
});

describe('a Buffer in a browser is that of Node', () => {
  const bytesOf = (buffer: Uint8Array): number[] => [...buffer];

  test('in what it decodes and encodes', () => {
    const property = fc.property(
      anyBytes,
      anyText,
      fc.base64String(),
      fc.nat(9),
      (bytes, text, base64, at) => {
        const [ours, nodes] = [BrowserBuffer.from(bytes), Buffer.from(bytes)];
        for (const encoding of [undefined, 'hex', 'base64', 'utf8'] as const) {
          expect(ours.toString(encoding)).toBe(nodes.toString(encoding));
          expect(ours.toString(encoding, at, at + 3)).toBe(nodes.toString(encoding, at, at + 3));
        }
        for (const encoded of [[text], [base64, 'base64'], [nodes.toString('hex'), 'hex']] as [
          string,
          'hex'?,
        ][])
          expect(bytesOf(BrowserBuffer.from(...encoded))).toEqual(bytesOf(Buffer.from(...encoded)));
        expect(BrowserBuffer.byteLength(text)).toBe(Buffer.byteLength(text));
      },
    );
    fc.assert(property);
  });

  test('in what is joined, written and read', () => {
    const property = fc.property(fc.array(anyBytes), anyBytes, (parts, bytes) => {
      expect(bytesOf(BrowserBuffer.concat(parts))).toEqual(bytesOf(Buffer.concat(parts)));
      const [ours, nodes] = [BrowserBuffer.alloc(bytes.length + 2, 7), Buffer.alloc(bytes.length + 2, 7)];
      for (const buffer of [ours, nodes]) buffer.write(Buffer.from(bytes).toString('hex'), 1, 'hex');
      expect(bytesOf(ours)).toEqual(bytesOf(nodes));
      expect(ours.readUInt16BE(bytes.length)).toBe(nodes.readUInt16BE(bytes.length));
    });
    fc.assert(property);
  });

  test('in refusing Base64 that is not the one encoding of its bytes', () => {
    const isAccepted = (text: string): boolean =>
      BrowserBuffer.from(text, 'base64').toString('base64') === text;
    for (const text of ['AA==', 'AAA=', 'AAAA', '']) expect(isAccepted(text)).toBe(true);
    for (const text of ['AA', 'AB==', 'AA==\n', 'A', '!', '-_==', 'AAAA='])
      expect(isAccepted(text)).toBe(false);
  });
});
