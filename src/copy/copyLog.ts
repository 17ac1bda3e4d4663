import { isDeepStrictEqual } from 'node:util';
import {
  type EventStore,
  type NewEvent,
  type Position,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../eventStore/eventStore.ts';
import { type Events, endOf, eventsOf, type Side } from './eventsOf.ts';
import { faultOf } from './faultOf.ts';

/** Events of the source that are done, the position of the last of them, and of the last there is. */
export type CopyProgress = {
  step: 'comparing' | 'copying';
  events: number;
  position: Position;
  end: Position;
};

/** Events that both logs hold, and those of them that were not in the target before. */
export type Copied = { events: number; copied: number };

type Options = {
  from: EventStore;
  to: EventStore;
  onProgress?: (progress: CopyProgress) => void;
};

const COMPARED = ['stream', 'revision', 'id', 'type', 'data', 'metadata'] as const;

/**
 * Gives the target the events of the source, in the order of the source, then compares both from the start. A target
 * that holds the first of them already gets the others; one that holds anything else is left as it is.
 * @throws Error with a message for an operator; what has been copied until then is where it belongs
 */
export async function copyLog({ from, to, onProgress }: Options): Promise<Copied> {
  const source: Side = { name: 'the source', log: from };
  const target: Side = { name: 'the target', log: to };
  const end = await endOf(source);
  await endOf(target);
  const done = (step: CopyProgress['step'], events: number, { position }: RecordedEvent): void =>
    onProgress?.({ step, events, position, end: position > end ? position : end });

  /** Walks both logs from the start; `missing` is the event of the source before which the target ends. */
  async function walk(mine: Events, verdict: string): Promise<{ same: number; missing?: RecordedEvent }> {
    using theirs = eventsOf(target);
    for (let same = 0; ; same++) {
      const [event, twin] = await Promise.all([mine.next(), theirs.next()]);
      if (!twin) return { same, ...(event && { missing: event }) };
      const difference = differenceOf(event, twin);
      if (difference !== undefined) throw new Error(`${verdict}: ${difference}`);
      if (event) done('comparing', same + 1, event);
    }
  }

  async function complete(): Promise<{ same: number; copied: number }> {
    using mine = eventsOf(source);
    const { same, missing } = await walk(mine, 'the target holds other events, and is left as it is');
    let copied = 0;
    // One after the other: those that wait together have no certain order, and one that fails would leave a gap.
    for (let event = missing; event; event = await mine.next()) {
      await append(to, event);
      done('copying', same + ++copied, event);
    }
    return { same, copied };
  }

  const { same, copied } = await complete();
  if (copied === 0) return { events: same, copied };

  using mine = eventsOf(source);
  const { same: events, missing } = await walk(mine, 'the copy is not like the source');
  if (missing) {
    throw new Error(
      `the source has grown meanwhile, at position ${missing.position}: stop what writes to it, and copy again`,
    );
  }
  return { events, copied };
}

function differenceOf(event: RecordedEvent | undefined, twin: RecordedEvent): string | undefined {
  if (!event) return `the target has one more, at position ${twin.position}`;
  const parts = COMPARED.filter((part) => !isDeepStrictEqual(event[part], twin[part]));
  if (parts.length === 0) return undefined;
  return `position ${event.position} of the source and ${twin.position} of the target differ in ${parts.join(', ')}`;
}

/** May be repeated after any failure: the event keeps its id and its revision. */
async function append(to: EventStore, event: RecordedEvent): Promise<void> {
  const { position, stream, revision, id, type, data, metadata } = event;
  try {
    const fault = faultOf(event);
    if (fault !== undefined) throw new Error(fault);
    await to.append(stream, { id, type, data, metadata } as NewEvent, revision - 1n);
  } catch (error) {
    const reason =
      error instanceof WrongExpectedRevision
        ? 'its stream is not at the revision before: somebody else writes to the target, or the source has lost earlier events of the stream'
        : (error as Error).message;
    throw new Error(`the event at position ${position} of the source cannot be copied: ${reason}`);
  }
}
