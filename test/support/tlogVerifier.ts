import { createHash, createPublicKey, verify } from 'node:crypto';
import { MTH, rootOfPath } from '../../packages/tlog/test/merkle/rfc9162.ts';

// A verifier of https://c2sp.org/signed-note, tlog-checkpoint, tlog-tiles and tlog-proof that has nothing of the
// service's own code, and is as naive as the specifications allow.

type Checkpoint = { origin: string; size: number; root: string };

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const hex = (base64: string): string => Buffer.from(base64, 'base64').toString('hex');

/** The prefix of an Ed25519 key in SubjectPublicKeyInfo (RFC 8410). */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');

/** What a checkpoint states, if it is signed by the key of a vkey alone. */
export function verifyCheckpoint(note: string, vkey: string): Checkpoint {
  const [name = '', id = '', ...base64] = vkey.trim().split('+');
  const encoded = Buffer.from(base64.join('+'), 'base64');
  const ofKey = sha256(Buffer.concat([Buffer.from(`${name}\n`), encoded])).slice(0, 8);
  if (encoded[0] !== 1 || encoded.length !== 33 || ofKey !== id) throw new Error('no Ed25519 vkey');
  const key = createPublicKey({
    key: Buffer.concat([SPKI, encoded.subarray(1)]),
    format: 'der',
    type: 'spki',
  });
  const [text = '', signatures = ''] = note.split('\n\n');
  const line = signatures.split('\n').find((one) => one.startsWith(`— ${name} `)) ?? '';
  const signature = Buffer.from(line.split(' ')[2] ?? '', 'base64');
  const isSigned =
    signature.toString('hex', 0, 4) === id &&
    verify(null, Buffer.from(`${text}\n`), key, signature.subarray(4));
  if (!isSigned) throw new Error('the signature is invalid');
  const [origin = '', size, root = ''] = text.split('\n');
  return { origin, size: Number(size), root: hex(root) };
}

/** The event whose text a proof has as extra data, its entry, its index, and the checkpoint, if the proof and its signature hold. */
export function verifyTlogProof(proof: string, vkey: string) {
  const end = proof.indexOf('\n\n');
  const [first, extra = '', index = '', ...path] = proof.slice(0, end).split('\n');
  if (first !== 'c2sp.org/tlog-proof@v1') throw new Error('no proof');
  const checkpoint = verifyCheckpoint(proof.slice(end + 2), vkey);
  const text = Buffer.from(extra.replace('extra ', ''), 'base64').toString();
  const event = JSON.parse(text);
  const entry = entryOf(text, event.type);
  const m = Number(index.replace('index ', ''));
  const leaf = sha256(Buffer.concat([Buffer.of(0), entry]));
  const root = rootOfPath(m, checkpoint.size, leaf, path.map(hex));
  if (root !== checkpoint.root) throw new Error('the proof does not lead to the root');
  return { event, entry, index: m, checkpoint };
}

/** The entry of an event with this text and type. */
export const entryOf = (text: string, type: string): Buffer =>
  createHash('sha256')
    .update(`{"sha256":"${sha256(Buffer.from(text))}","type":${JSON.stringify(type)}}`)
    .digest();

/** The entries of a bundle. */
export function entriesIn(bundle: Buffer): Buffer[] {
  const entries: Buffer[] = [];
  for (let at = 0; at < bundle.length; ) {
    const length = bundle.readUInt16BE(at);
    entries.push(bundle.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return entries;
}

/** The paths of the tiles of a tree by level, with the range of leaves under each hash. */
export function tilesOf(
  size: number,
): { path: string; level: number; hashes: [start: number, end: number][] }[] {
  const tiles = [];
  for (let level = 0; 256 ** level <= size; level++) {
    const span = 256 ** level;
    const count = Math.floor(size / span);
    for (let index = 0; index * 256 < count; index++) {
      const width = Math.min(256, count - index * 256);
      const number = String(index).padStart(3, '0');
      const path = `${level}/${number}${width < 256 ? `.p/${width}` : ''}`;
      const hashes = Array.from({ length: width }, (_, i): [number, number] => {
        const start = (index * 256 + i) * span;
        return [start, start + span];
      });
      tiles.push({ path, level, hashes });
    }
  }
  return tiles;
}

/** The root over these entries: RFC 9162 section 2.1.1. */
export const rootOf = (entries: readonly Buffer[]): string => MTH(entries);
