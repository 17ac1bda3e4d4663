import { expect, test } from 'vitest';
import { entries, KEY, ORIGIN, VERIFIER_KEY } from '../../../monitor/test/fakeLog.ts';
import { leafHash } from '../../../tlog/src/merkle/merkleTree.ts';
import { verifyConsistency } from '../../../tlog/src/merkle/proofs.ts';
import { consistencyProofFromTiles } from '../../../tlog/src/merkle/tiles.ts';
import { openCheckpoint } from '../../../tlog/src/notes/checkpoint.ts';
import { signCheckpoint } from '../../../tlog/src/sign/signCheckpoint.ts';
import { verifyCosignatures } from '../../../tlog/src/witness/cosignature.ts';
import { WitnessClient } from '../../src/signer/witnessClient.ts';
import { MemoryTree } from '../support/memoryTree.ts';
import { conflict, FakeWitness } from './fakeWitness.ts';

const tree = new MemoryTree(entries(9).map(leafHash));
const { signal } = new AbortController();

async function signed(size: number) {
  const head = await tree.head(size);
  return { ...head, origin: ORIGIN, note: signCheckpoint(head, { origin: ORIGIN, key: KEY }) };
}

const prove = (from: number, to: number) => consistencyProofFromTiles(from, to, tree.read);
const start = () => new FakeWitness('witness.example/w1').start();

test('the first request has no proof, and later ones prove that the log has grown', async () => {
  const fake = await start();
  const client = new WitnessClient(fake.witness);
  for (const size of [3, 7, 7, 9]) {
    const head = await signed(size);
    const cosignature = await client.cosign(head, prove, signal);
    expect(cosignature.time).toBe(fake.time);
    const note = head.note + cosignature.line;
    expect(await openCheckpoint(note, VERIFIER_KEY)).toMatchObject({ size });
    expect(verifyCosignatures(note, [fake.witness.key])).toEqual([cosignature]);
  }
  expect(fake.submitted.map(({ from }) => from)).toEqual([0, 3, 7, 7]);
  expect(fake.submitted[0]?.path).toEqual([]);
  for (const { from, path, checkpoint } of fake.submitted.slice(1))
    expect(
      verifyConsistency(await tree.head(from), await openCheckpoint(checkpoint, VERIFIER_KEY), path),
    ).toBe(true);
});

test('a witness that has cosigned another size is asked again, with the proof from there', async () => {
  const fake = await start();
  fake.respond = (submitted, response) =>
    submitted.from === 4 ? void response.end(fake.sign(submitted)) : conflict(4, response);
  await new WitnessClient(fake.witness).cosign(await signed(9), prove, signal);
  expect(fake.submitted.map(({ from }) => from)).toEqual([0, 4]);
});

test('a witness that has named a larger size is asked again', async () => {
  const fake = await start();
  const { respond } = fake;
  fake.respond = (_, response) => conflict(10, response);
  const client = new WitnessClient(fake.witness);
  await expect(client.cosign(await signed(9), prove, signal)).rejects.toThrow('it has cosigned 10 entries');
  fake.respond = respond;
  await client.cosign(await signed(9), prove, signal);
  expect(fake.submitted.map(({ from }) => from)).toEqual([0, 0]);
});

test.each<[string, FakeWitness['respond'], string]>([
  ['has cosigned more', (_, response) => conflict(10, response), 'it has cosigned 10 entries already'],
  ['names no size', (_, response) => void response.writeHead(409).end('four'), 'not a number'],
  ['always names another size', ({ from }, response) => conflict(from + 1, response), 'another instance'],
  [
    'does not know the log',
    (_, response) => void response.writeHead(404).end(),
    'it does not know this log (404)',
  ],
  ['finds a contradiction', (_, response) => void response.writeHead(422).end(), 'the log contradicts'],
  ['is overloaded', (_, response) => void response.writeHead(503).end(), 'it refuses (503)'],
  ['sends nothing', (_, response) => void response.end(), 'does not have its cosignature'],
  ['sends no signature', (_, response) => void response.end('<html>\n'), 'not a signature'],
  ['sends endless text', (_, response) => void response.end('— '.repeat(1e6)), 'too large'],
  ['disconnects', (_, response) => void response.destroy(), 'it is unavailable'],
  ['redirects', (_, response) => void response.writeHead(302, { location: '/' }).end(), 'it is unavailable'],
])('a witness that %s has not cosigned', async (_, respond, message) => {
  const fake = await start();
  fake.respond = respond;
  await expect(new WitnessClient(fake.witness).cosign(await signed(9), prove, signal)).rejects.toThrow(
    message,
  );
});

test('the cosignature of another witness, or of another checkpoint, is none', async () => {
  const [fake, other] = [await start(), new FakeWitness('witness.example/w2')];
  fake.respond = (submitted, response) => void response.end(other.sign(submitted));
  const client = new WitnessClient(fake.witness);
  await expect(client.cosign(await signed(9), prove, signal)).rejects.toThrow(
    'does not have its cosignature',
  );
  const { note } = await signed(8);
  fake.respond = (submitted, response) => void response.end(fake.sign({ ...submitted, checkpoint: note }));
  await expect(client.cosign(await signed(9), prove, signal)).rejects.toThrow('is invalid');
});
