import type { EventLog, RecordedEvent } from '../eventStore/eventStore.ts';
import { readToEnd } from '../eventStore/readEvents.ts';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import { consistencyPath, inclusionPath, type Leaves } from '../merkle/proofs.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { plantStream } from '../plants/stream.ts';
import type { ConsistencyProof } from '../transparency/consistencyProof.ts';
import type { InclusionProof } from '../transparency/inclusionProof.ts';
import { leafText } from './leaf.ts';

/** The log does not have what is to be proven; the message names it. */
export class NotProven extends Error {
  override readonly name = 'NotProven';
}

/** `sign` returns the checkpoint of the log with a size and root. */
export type Signing = { sign: (head: TreeHead) => Promise<string>; signal: AbortSignal };

/**
 * Proves that the event of a plant is among the first `size` events, or among all; the proof has its leaf.
 * @throws NotProven if it is not, or the log has fewer
 */
export async function proveInclusion(
  log: EventLog,
  { user, id, size }: { user: string; id: string; size?: number | undefined },
  { sign, signal }: Signing,
): Promise<InclusionProof> {
  const stream = plantStream(user, id);
  let found: { index: number; extra: Buffer } | undefined;
  let count = 0;
  for await (const { events } of readFirst(log, size, signal)) {
    const at = found ? -1 : events.findIndex((event) => event.stream === stream && event.revision === 0n);
    if (at !== -1)
      found = { index: count + at, extra: Buffer.from(leafText(events[at] as RecordedEvent).text) };
    count += events.length;
  }
  assertSize(count, size);
  if (!found)
    throw new NotProven(`${JSON.stringify(user)} has no plant ${id} among the first ${count} events`);
  const whole = { start: 0, end: count };
  const [root, ...path] = await rootsOf(log, [whole, ...inclusionPath(found.index, count)], signal);
  return { ...found, path, checkpoint: await sign({ size: count, root }) };
}

/**
 * Proves that the first `from` events, at least one, are the beginning of the first `to` events, or of all.
 * @throws NotProven if the log has fewer events
 */
export async function proveConsistency(
  log: EventLog,
  { from, to }: { from: number; to?: number | undefined },
  { sign, signal }: Signing,
): Promise<ConsistencyProof> {
  let count = 0;
  for await (const { events } of readFirst(log, to, signal)) count += events.length;
  assertSize(count, to);
  assertSize(count, from);
  const whole = { start: 0, end: count };
  const [root, ...path] = await rootsOf(log, [whole, ...consistencyPath(from, count)], signal);
  return { from, path, checkpoint: await sign({ size: count, root }) };
}

/**
 * The consistency proof between the first `from` events and the first `to` events, from the log. Of a log with
 * fewer events it does not hold.
 */
export async function consistencyProofFromLog(
  log: EventLog,
  { from, to }: { from: number; to: number },
  signal: AbortSignal,
): Promise<string[]> {
  return from === 0 ? [] : rootsOf(log, consistencyPath(from, to), signal);
}

/** The root of the first `size` events, or of all. @throws NotProven if the log has fewer */
export async function rootOfLog(log: EventLog, signal: AbortSignal, size?: number): Promise<TreeHead> {
  const tree = new MerkleTree();
  for await (const { events } of readFirst(log, size, signal)) {
    for (const event of events) tree.append(leafHash(leafText(event).text));
  }
  assertSize(tree.size, size);
  return { size: tree.size, root: tree.root() };
}

async function* readFirst(log: EventLog, size = Number.POSITIVE_INFINITY, signal: AbortSignal) {
  let remaining = size;
  for await (const { events } of readToEnd(log, { signal })) {
    yield { events: events.slice(0, remaining) };
    remaining -= events.length;
    if (remaining <= 0) return;
  }
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
