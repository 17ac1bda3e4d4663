import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BrowserBuffer } from '../../src/pages/audit/node/buffer.ts';
import * as browser from '../../src/pages/audit/node/crypto.ts';

// What browsers do not have of Node: it must do the same, since the modules of the server run on it.

describe('SHA-256 in a browser is that of Node', () => {
  test('for any text and any bytes, also within a larger buffer', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.uint8Array({ maxLength: 500 }),
        fc.nat(64),
        (text, bytes, at) => {
          expect(browser.hash('sha256', text)).toBe(hash('sha256', text));
          expect(browser.hash('sha256', bytes.subarray(at))).toBe(hash('sha256', bytes.subarray(at)));
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('a Buffer in a browser is that of Node', () => {
  const any = fc.uint8Array();
  const bytesOf = (buffer: Uint8Array): number[] => [...buffer];

  test('in what it decodes and encodes', () => {
    fc.assert(
      fc.property(
        any,
        fc.string({ unit: 'binary' }),
        fc.base64String(),
        fc.nat(9),
        (bytes, text, base64, at) => {
          const [ours, nodes] = [BrowserBuffer.from(bytes), Buffer.from(bytes)];
          for (const encoding of ['hex', 'base64', 'utf8'] as const) {
            expect(ours.toString(encoding)).toBe(nodes.toString(encoding));
            expect(ours.toString(encoding, at, at + 3)).toBe(nodes.toString(encoding, at, at + 3));
          }
          expect(ours.toString()).toBe(nodes.toString());
          expect(bytesOf(BrowserBuffer.from(text))).toEqual(bytesOf(Buffer.from(text)));
          expect(BrowserBuffer.byteLength(text)).toBe(Buffer.byteLength(text));
          expect(bytesOf(BrowserBuffer.from(base64, 'base64'))).toEqual(
            bytesOf(Buffer.from(base64, 'base64')),
          );
          const hex = nodes.toString('hex');
          expect(bytesOf(BrowserBuffer.from(hex, 'hex'))).toEqual(bytesOf(nodes));
        },
      ),
    );
  });

  test('in what is joined, written and read', () => {
    fc.assert(
      fc.property(fc.array(any), any, fc.nat(65_535), (parts, bytes, number) => {
        expect(bytesOf(BrowserBuffer.concat(parts))).toEqual(bytesOf(Buffer.concat(parts)));
        const [ours, nodes] = [BrowserBuffer.alloc(bytes.length + 3, 7), Buffer.alloc(bytes.length + 3, 7)];
        for (const buffer of [ours, nodes]) {
          buffer.write(Buffer.from(bytes).toString('hex'), 1, 'hex');
          buffer.writeUInt16BE(number, bytes.length + 1);
        }
        expect(bytesOf(ours)).toEqual(bytesOf(nodes));
        expect(ours.readUInt16BE(bytes.length + 1)).toBe(number);
      }),
    );
  });

  test('in refusing Base64 that is not the one encoding of its bytes', () => {
    const isAccepted = (text: string): boolean =>
      BrowserBuffer.from(text, 'base64').toString('base64') === text;
    for (const text of ['AA==', 'AAA=', 'AAAA', '']) expect(isAccepted(text)).toBe(true);
    for (const text of ['AA', 'AB==', 'AA==\n', 'A', '!', '-_==', 'AAAA='])
      expect(isAccepted(text)).toBe(false);
  });
});
