import type { RecordedEvent } from '../../event-log/src/eventStore.ts';
import { toCloudEvent } from '../../event-log/src/replay/cloudEvent.ts';
import { hashedAttributes } from '../../transparency-log/src/digest/cloudEventEntry.ts';
import { digestOf, eventEntry, stubOf } from '../../transparency-log/src/digest/eventEntry.ts';
import { FakeLog } from './fakeLog.ts';

type Event = Omit<RecordedEvent, 'position'>;

const idOf = (number: number): string => `${`${number}`.padStart(8, '0')}-0000-7000-8000-000000000000`;

/** The creation of a plant. */
export const plant = (number: number, name = 'Fern'): Event => ({
  stream: `plant-alice/${number}`,
  revision: 0n,
  id: idOf(number),
  type: 'PlantCreated',
  data: { id: `${number}`, name, user: 'alice' },
  metadata: { occurredAt: '2026-01-01T00:00:00Z' },
});

/** The record of an erasure: the indices of events, from 0. */
export const record = (...erased: number[]): Event => ({
  stream: `plant-erasure-${erased.join('-')}`,
  revision: 0n,
  id: idOf(9_000 + erased.length),
  type: 'EventsErased',
  data: { erased },
  metadata: {},
});

/** The plants 1, 2, 3, … */
export const plants = (count: number): Event[] => Array.from({ length: count }, (_, i) => plant(i + 1));

const recorded = (event: Event, index: number): RecordedEvent => ({ ...event, position: BigInt(index + 1) });

/** A log of this service, whose tree is that of its events, whatever `erase` replaces by stubs. */
export class FakeEventLog extends FakeLog {
  /** What it shows as events. */
  readonly shown: RecordedEvent[];
  /** The queries of the requests for events. */
  readonly queries: object[] = [];

  constructor(events: readonly Event[]) {
    super(events.map((event) => Buffer.from(eventEntry(event), 'hex')));
    this.shown = events.map(recorded);
  }

  /** Replaces events by stubs, without a record. */
  erase(...indices: number[]): this {
    for (const index of indices) {
      const stub = stubOf(digestOf(this.shown[index] as RecordedEvent), 'plant-');
      this.shown[index] = recorded(stub, index);
    }
    return this;
  }

  /** Signs only its first entries. */
  signing(size: number): this {
    this.size = size;
    return this;
  }

  override async *events({ after = '0', type }: { after?: string; type?: string }): AsyncGenerator<string> {
    this.queries.push({ after, ...(type && { type }) });
    for (let at = Number(after); at < this.shown.length; at++) {
      const event = this.shown[at] as RecordedEvent;
      if (type !== undefined && event.type !== type) continue;
      yield JSON.stringify(
        toCloudEvent(event, { source: 'https://plants.example/', hashed: hashedAttributes }),
      );
    }
  }
}
