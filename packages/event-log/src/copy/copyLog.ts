import { isDeepStrictEqual } from 'node:util';
import { isStub } from '../erasure/erasure.ts';
import {
  type EventLog,
  type EventStore,
  type NewEvent,
  type Position,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../eventStore.ts';
import { readToEnd } from '../readEvents.ts';
import { copyProblem } from './copyable.ts';

/** The number of processed events of the source, the position of the last one, and the end of the source. */
export type CopyProgress = {
  step: 'comparing' | 'copying';
  events: number;
  position: Position;
  end: Position;
};

/** The number of events in both logs, and how many of them this call has copied. */
type Copied = { events: number; copied: number };

type Options = {
  /** The source, for hashing. */
  from: EventLog;
  to: EventStore;
  /** The required prefix of stream names: subscriptions to EventStoreDB deliver only these streams. */
  prefix?: string;
  onProgress?: (progress: CopyProgress) => void;
};

const COMPARED = ['stream', 'revision', 'id', 'type', 'data', 'metadata'] as const;

/** The events of a log from its start; errors name the log. */
type Cursor = AsyncGenerator<RecordedEvent, undefined>;

/**
 * Copies the events of the source to the target, in order, then compares both logs from the start. A target that
 * already has the first events gets the missing ones; a target with different events is refused and unchanged. The same
 * call continues an interrupted copy.
 * @throws Error with a message for the operator
 */
export async function copyLog({ from, to, prefix = '', onProgress }: Options): Promise<Copied> {
  const target = to.forHashing;
  const end = await from.lastPosition().catch(unavailable('the source'));
  await target.lastPosition().catch(unavailable('the target'));
  const report = (step: CopyProgress['step'], events: number, { position }: RecordedEvent): void =>
    onProgress?.({ step, events, position, end: position > end ? position : end });

  /** Compares both logs from the start. `missing`: the first event that the target lacks. */
  async function compare(cursor: Cursor, message: string) {
    await using counterparts = openCursor('the target', target);
    for (let same = 0; ; same++) {
      const [{ value: event }, { value: counterpart }] = await Promise.all([
        cursor.next(),
        counterparts.next(),
      ]);
      if (!counterpart) return { same, missing: event };
      const difference = findDifference(event, counterpart);
      if (difference !== undefined) throw new Error(`${message}: ${difference}`);
      if (event) report('comparing', same + 1, event);
    }
  }

  async function copyMissing(): Promise<{ same: number; copied: number }> {
    await using cursor = openCursor('the source', from);
    const message = 'the target has different events; it was not changed';
    const { same, missing } = await compare(cursor, message);
    let copied = 0;
    // One append at a time: concurrent appends have no defined order, and a failed append would leave a gap.
    for (let event = missing; event; event = (await cursor.next()).value) {
      await append(to, event, prefix);
      report('copying', same + ++copied, event);
    }
    return { same, copied };
  }

  const { same, copied } = await copyMissing();
  if (copied === 0) return { events: same, copied };

  await using cursor = openCursor('the source', from);
  const { same: events, missing } = await compare(cursor, 'the copy does not match the source');
  if (missing)
    throw new Error(
      `the source has grown during the copy, at position ${missing.position}: stop its writers, and copy again`,
    );
  return { events, copied };
}

async function* openCursor(side: string, log: EventLog): Cursor {
  try {
    for await (const { events } of readToEnd(log)) yield* events;
  } catch (error) {
    unavailable(side)(error as Error);
  }
}

const unavailable =
  (side: string) =>
  (cause: Error): never => {
    throw new Error(`${side} is unavailable: ${cause.message}`, { cause });
  };

function findDifference(event: RecordedEvent | undefined, counterpart: RecordedEvent): string | undefined {
  if (!event) return `the target has one more event, at position ${counterpart.position}`;
  const parts = COMPARED.filter((part) => !isDeepStrictEqual(event[part], counterpart[part]));
  if (parts.length === 0) return undefined;
  if (isStub(event) && !isStub(counterpart))
    return `the source has erased its event at position ${event.position}: copy to an empty target, and delete this one`;
  return `position ${event.position} of the source and ${counterpart.position} of the target differ in ${parts.join(', ')}`;
}

/** Safe to retry after any failure: the event keeps its ID and its revision. */
async function append(to: EventStore, event: RecordedEvent, prefix: string): Promise<void> {
  const { position, stream, revision, id, type, data, metadata } = event;
  try {
    const problem = copyProblem(event, prefix);
    if (problem !== undefined) throw new Error(problem);
    await to.append(stream, { id, type, data, metadata } as NewEvent, revision - 1n);
  } catch (error) {
    const reason =
      error instanceof WrongExpectedRevision
        ? 'its stream is not at the preceding revision: another program writes to the target, or the source has lost earlier events of the stream'
        : (error as Error).message;
    throw new Error(`the event at position ${position} of the source cannot be copied: ${reason}`, {
      cause: error,
    });
  }
}
