import {
  type ErasableStore,
  newEventId,
  type Position,
  readToEnd,
  type Stub,
} from '@event-sourced/event-log';
import { EVENTS_ERASED, MAX_NAMED_EVENTS, recordStreams } from '@event-sourced/event-log/erasure';
import type { Follower } from '@event-sourced/event-log/views';
import type { NextTurn } from '@event-sourced/node/time';
import { digestOf, entryOf, stubOf } from '../digest/eventEntry.ts';
import { LogContradictsCheckpoint } from '../signer/contradiction.ts';
import { caughtUp } from '../view/caughtUp.ts';
import type { MerkleTreeView } from '../view/treeView.ts';

/** The log contradicts its Merkle tree or its last signed checkpoint: erasing would destroy evidence. Nothing was erased. */
export class ErasureRefused extends Error {
  override readonly name = 'ErasureRefused';
}

type Options = {
  /** The streams to erase, which start with `start`. */
  streams: { start: string; has: (stream: string) => boolean };
  /** The prefix of the streams of stubs and records, without a slash: one that subscriptions deliver. */
  prefix: string;
  tree: Pick<Follower<MerkleTreeView>, 'readable' | 'reached'>;
  /** Resolves if the tree extends the last signed checkpoint. */
  assertTreeExtends: () => Promise<void>;
  now: () => Date;
  nextTurn?: NextTurn | undefined;
};

/** The number of events that a transaction erases, except of a longer stream: meanwhile appends wait, about 40 µs for each. */
const PORTION = 1_000;

type Found = { stub: Stub; index: number };

/** `records`: the indices of the records in the tree, from 0. */
export type Erased = { events: number; records: number[] };

/**
 * Erases all events that the streams have now, in portions: a transaction erases whole streams, and records it, and appends
 * go on in between. Each event must be the one in the Merkle tree, which must extend the last signed checkpoint. Resolves
 * when it is durable; see `scrub` of the store. Erase the same streams one after the other.
 * @throws ErasureRefused; ViewBehind, errors of `assertTreeExtends`; then nothing is erased. StoreUnavailable; then portions
 * may be erased and recorded: repeat it
 */
export async function eraseStreams(store: ErasableStore, options: Options): Promise<Erased> {
  const { streams, prefix, tree, now } = options;
  await caughtUp(tree, store);
  const end = tree.readable.head.position;
  const found = new Map<string, Found[]>();
  for await (const { events } of readToEnd(store.forHashing, {
    prefix: streams.start,
    nextTurn: options.nextTurn,
  }))
    for (const event of events) {
      const { position, stream, type } = event;
      if (!streams.has(stream) || position > end) continue; // later events are not of this erasure
      const index = store.indexOf(position);
      const digest = digestOf(event);
      // An index beyond the tree: events before it are missing.
      if (index >= tree.readable.head.size || tree.readable.entryAt(index) !== entryOf(digest))
        throw refused(position, 'is not the one in the Merkle tree');
      if (type === EVENTS_ERASED) throw refused(position, 'is a record of erased events');
      const ofStream = found.get(stream) ?? [];
      found.set(stream, ofStream);
      ofStream.push({ stub: { position, ...stubOf(digest, prefix) }, index });
    }
  // Last: a tree that was built again meanwhile, from an altered log, does not extend it.
  await options.assertTreeExtends().catch((cause) => {
    if (!(cause instanceof LogContradictsCheckpoint)) throw cause;
    throw new ErasureRefused('the log contradicts its last signed checkpoint; nothing was erased', { cause });
  });
  const erased: Erased = { events: 0, records: [] };
  for (const portion of portionsOf(found.values())) {
    const indices = portion.map(({ index }) => index);
    const records = recordsOf(indices, prefix, now);
    const positions = await store.erase(
      portion.map(({ stub }) => stub),
      records,
    );
    erased.events += portion.length;
    erased.records.push(...positions.map(store.indexOf));
  }
  return erased;
}

/** Events of whole streams, in log order within each portion. */
function* portionsOf(streams: Iterable<readonly Found[]>): Generator<Found[]> {
  const portion: Found[] = [];
  const take = (): Found[] => portion.splice(0).sort((a, b) => a.index - b.index);
  for (const events of streams) {
    for (const event of events) portion.push(event);
    if (portion.length >= PORTION) yield take();
  }
  if (portion.length > 0) yield take();
}

/** The records that name these indices, in ascending order. */
export function recordsOf(indices: readonly number[], prefix: string, now: () => Date) {
  const records = [];
  for (let i = 0; i < indices.length; i += MAX_NAMED_EVENTS) {
    const id = newEventId(now());
    const data = { erased: indices.slice(i, i + MAX_NAMED_EVENTS) };
    const metadata = { occurredAt: now().toISOString() };
    const event = { id, type: EVENTS_ERASED, data, metadata };
    records.push({ stream: `${recordStreams(prefix)}${id}`, event });
  }
  return records;
}

const refused = (position: Position, problem: string): ErasureRefused =>
  new ErasureRefused(`the event at position ${position} ${problem}; nothing was erased: run verify`);
