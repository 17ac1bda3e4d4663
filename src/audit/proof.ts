import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { type EventLog, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import {
  consistencyPath,
  inclusionPath,
  type Leaves,
  verifyConsistency,
  verifyInclusion,
} from '../merkle/proofs.ts';
import { plantStream } from '../plants/stream.ts';
import { canonicalJson, leafText } from './leaf.ts';
import { replay } from './replay.ts';
import type { Root } from './verify.ts';

const STRICT = { additionalProperties: false };
const Hash = Type.String({ pattern: '^[\\da-f]{64}$' });
const Size = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** A path is as long as the tree is high, or by one longer. */
const Path = Type.Array(Hash, { maxItems: 64 });
const Tree = Type.Object({ size: Size, root: Hash }, STRICT);

/** The leaf of an event: see leaf.ts. */
const Leaf = Type.Object(
  {
    id: Type.String(),
    stream: Type.String(),
    revision: Type.String(),
    type: Type.String(),
    data: Type.Optional(Type.Unknown()),
    metadata: Type.Optional(Type.Unknown()),
    dataAndMetadata: Type.Optional(Type.String()),
  },
  STRICT,
);

const InclusionProof = Type.Object(
  {
    proof: Type.Literal('inclusion'),
    size: Size,
    root: Hash,
    index: Size,
    event: Leaf,
    path: Path,
  },
  STRICT,
);

const ConsistencyProof = Type.Object(
  { proof: Type.Literal('consistency'), from: Tree, to: Tree, path: Path },
  STRICT,
);

/**
 * Proves that the leaf of an event is at `index`, from 0, in the tree of the first `size` events: RFC 9162
 * section 2.1.3.
 */
export type InclusionProof = Static<typeof InclusionProof>;
/** Proves that the first `from.size` events are the first of `to.size` events: RFC 9162 section 2.1.4. */
export type ConsistencyProof = Static<typeof ConsistencyProof>;
export type Proof = InclusionProof | ConsistencyProof;

const isInclusionProof = Compile(InclusionProof);
const isConsistencyProof = Compile(ConsistencyProof);

/** The log does not have what is to be proven, or the proof is invalid; the message says which. */
export class NotProven extends Error {
  override readonly name = 'NotProven';
}

/** @throws NotProven if the plant is not among the first `size` events, or the log has fewer */
export async function proveInclusion(
  log: EventLog,
  { user, id, size }: { user: string; id: string; size?: number | undefined },
  signal: AbortSignal,
): Promise<InclusionProof> {
  const stream = plantStream(user, id);
  let found: { index: number; event: InclusionProof['event'] } | undefined;
  let count = 0;
  for await (const { events } of readFirst(log, size, signal)) {
    const at = found ? -1 : events.findIndex((event) => event.stream === stream && event.revision === 0n);
    if (at !== -1)
      found = { index: count + at, event: JSON.parse(leafText(events[at] as RecordedEvent).text) };
    count += events.length;
  }
  assertSize(count, size);
  if (!found)
    throw new NotProven(`${JSON.stringify(user)} has no plant ${id} among the first ${count} events`);
  const whole = { start: 0, end: count };
  const [root, ...path] = await rootsOf(log, [whole, ...inclusionPath(found.index, count)], signal);
  return { proof: 'inclusion', size: count, root, ...found, path };
}

/** @throws NotProven if the log has fewer events */
export async function proveConsistency(
  log: EventLog,
  { from, to }: { from: number; to?: number | undefined },
  signal: AbortSignal,
): Promise<ConsistencyProof> {
  let count = 0;
  for await (const { events } of readFirst(log, to, signal)) count += events.length;
  assertSize(count, to);
  assertSize(count, from);
  const [earlier, later] = [
    { start: 0, end: from },
    { start: 0, end: count },
  ];
  const [old, root, ...path] = await rootsOf(log, [earlier, later, ...consistencyPath(from, count)], signal);
  return { proof: 'consistency', from: { size: from, root: old }, to: { size: count, root }, path };
}

/** The root of the first `size` events, or of all. @throws NotProven if the log has fewer */
export async function rootOfLog(log: EventLog, signal: AbortSignal, size?: number): Promise<Root> {
  const tree = new MerkleTree();
  for await (const { events } of readFirst(log, size, signal)) {
    for (const event of events) tree.append(leafHash(leafText(event).text));
  }
  assertSize(tree.size, size);
  return { size: tree.size, root: tree.root() };
}

async function* readFirst(log: EventLog, size = Number.POSITIVE_INFINITY, signal: AbortSignal) {
  yield* replay(log, { after: START, limit: size }, { signal });
  signal.throwIfAborted();
}

function assertSize(count: number, size = count): void {
  if (size > count) throw new NotProven(`the log has ${count} events, fewer than ${size}`);
}

/** The Merkle Tree Hash of each of these ranges of leaves, in one pass over the log. */
async function rootsOf<R extends Leaves[]>(
  log: EventLog,
  ranges: [...R],
  signal: AbortSignal,
): Promise<{ [K in keyof R]: string }> {
  const trees = ranges.map((range) => ({ ...range, tree: new MerkleTree() }));
  const size = Math.max(...ranges.map(({ end }) => end));
  let index = 0;
  for await (const { events } of readFirst(log, size, signal)) {
    for (const event of events) {
      const leaf = leafHash(leafText(event).text);
      for (const { start, end, tree } of trees) if (index >= start && index < end) tree.append(leaf);
      index++;
    }
  }
  return trees.map(({ tree }) => tree.root()) as { [K in keyof R]: string };
}

/** What a proof shows, in a sentence. @throws NotProven */
export function checkProof(proof: unknown): string {
  if (isInclusionProof.Check(proof)) {
    const { size, root, index, event } = proof;
    if (!verifyInclusion(leafHash(canonicalLeaf(event)), proof))
      throw new NotProven('the proof is invalid: its event is not in a log with its size and root');
    const [id, stream] = [JSON.stringify(event.id), JSON.stringify(event.stream)];
    return `event ${id} of ${stream} is number ${index + 1} of the log ${size}:${root}`;
  }
  if (isConsistencyProof.Check(proof)) {
    const { from, to, path } = proof;
    if (!verifyConsistency(from, to, path))
      throw new NotProven('the proof is invalid: the earlier log is not the beginning of the later one');
    return `the log ${from.size}:${from.root} is the beginning of the log ${to.size}:${to.root}`;
  }
  throw new NotProven('not an inclusion or consistency proof, or it is damaged');
}

function canonicalLeaf(event: InclusionProof['event']): string {
  try {
    return canonicalJson(event);
  } catch {
    throw new NotProven('the proof is invalid: its event has no canonical form');
  }
}
