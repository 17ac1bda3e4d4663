import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { fromBase64, fromHex, toBase64, toHex } from '../src/bytes.ts';
import * as node from '../src/crypto/node.ts';
import * as web from '../src/crypto/web.ts';
import { REFERENCE_LEAVES, REFERENCE_ROOTS } from './merkle/rfc9162.ts';
import { SUMDB, WITNESSED } from './notes/vectors.ts';

// What tlog does where there is no node:crypto: in browsers.

const anyBytes = fc.uint8Array({ maxLength: 300 });

test('SHA-256 without node:crypto is that of Node, of any text and any bytes, also within a larger buffer', () => {
  const property = fc.property(fc.string({ unit: 'binary' }), anyBytes, fc.nat(64), (text, bytes, at) => {
    for (const data of [text, bytes.subarray(at)]) expect(web.sha256(data)).toBe(node.sha256(data));
  });
  fc.assert(property);
});

test('bytes are encoded and decoded as by Node', () => {
  const property = fc.property(anyBytes, (bytes) => {
    const buffer = Buffer.from(bytes);
    expect([toHex(bytes), toBase64(bytes)]).toEqual([buffer.toString('hex'), buffer.toString('base64')]);
    expect([fromHex(toHex(bytes)), fromBase64(toBase64(bytes))]).toEqual([bytes, bytes]);
  });
  fc.assert(property);
  const large = new Uint8Array(1_000_000).map((_, i) => i * i);
  expect(fromBase64(toBase64(large))).toEqual(large);
});

test('published trees, notes and proofs are verified without node:crypto', async () => {
  vi.resetModules();
  const sha256 = vi.fn(web.sha256);
  vi.doMock('../src/crypto/node.ts', () => ({ sha256 }));
  onTestFinished(() => {
    vi.doUnmock('../src/crypto/node.ts');
    vi.resetModules();
  });
  const tlog = await import('../src/index.ts');

  const tree = new tlog.MerkleTree();
  const roots = [tree.root()];
  for (const leaf of REFERENCE_LEAVES) {
    tree.append(tlog.leafHash(leaf));
    roots.push(tree.root());
  }
  expect(roots).toEqual(REFERENCE_ROOTS);
  expect(sha256).toHaveBeenCalled();

  const sumdb = tlog.parseLogKey({ key: SUMDB.vkey, origin: 'go.sum database tree' });
  expect(await tlog.openCheckpoint(SUMDB.checkpoint, sumdb)).toMatchObject({ size: 35_225_469 });
  const altered = SUMDB.checkpoint.replace('35225469', '35225468');
  await expect(tlog.openCheckpoint(altered, sumdb)).rejects.toThrow('is invalid');

  const key = tlog.verifierKey(WITNESSED.name, fromHex(WITNESSED.publicKey));
  const one = await tlog.openCheckpoint(WITNESSED.first, key);
  const three = await tlog.openConsistencyProof(WITNESSED.from1to3, one, key);
  expect(three.size).toBe(3);
  expect((await tlog.openConsistencyProof(WITNESSED.from3to5, three, key)).size).toBe(5);
  const false1to3 = WITNESSED.from1to3.replace(/^old 1\n(.{44}\n){2}/, 'old 1\n');
  await expect(tlog.openConsistencyProof(false1to3, one, key)).rejects.toThrow('the proof is invalid');
});
