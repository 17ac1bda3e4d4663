import type { RecordedEvent } from '@event-sourced/event-log';
import { toCloudEvent } from '@event-sourced/event-log/replay';
import { eventId } from '@event-sourced/testing/logs';
import { formatDigestBundle, type TileOrEntries } from '@event-sourced/tlog';
import { digestOf, eventEntry, hashedAttributes, stubOf } from '@event-sourced/transparency-log/digest';
import { MemoryTree } from '../../transparency-log/test/support/memoryTree.ts';

/** A service with its log and tree, which can show other events than the tree has. */
export class FakeLog {
  readonly tree = new MemoryTree();
  readonly #entries: string[] = [];
  /** What /events shows. */
  shown: RecordedEvent[] = [];
  /** The size of the newest checkpoint; by default that of the tree. */
  signed: number | undefined;
  /** Called before the event at an index is shown. */
  beforeLine: (index: number) => unknown = () => {};
  /** Called while a client waits for a checkpoint. */
  onPause = (): void => {};

  constructor(...names: string[]) {
    for (const name of names) this.append('PlantCreated', { name });
  }

  append(type: string, data: unknown): void {
    const event = this.eventOf(type, data);
    this.#entries.push(eventEntry(event));
    this.tree.append(eventEntry(event));
    this.shown.push(event);
  }

  eventOf(type: string, data: unknown): RecordedEvent {
    const index = this.shown.length;
    const names = { stream: `plant-bob/${index}`, revision: 0n, id: eventId(index) };
    return { position: BigInt(index + 1), ...names, type, data, metadata: {} };
  }

  /** Shows stubs in the place of these events. */
  hide(...indices: number[]): void {
    for (const index of indices) {
      const event = this.shown[index] as RecordedEvent;
      this.shown[index] = { position: event.position, ...stubOf(digestOf(event), 'plant-') };
    }
  }

  /** A record that names these events. */
  record(...erased: number[]): void {
    this.append('EventsErased', { erased });
  }

  erase(...indices: number[]): void {
    this.hide(...indices);
    this.record(...indices);
  }

  readonly source = {
    read: async (tile: TileOrEntries): Promise<Uint8Array> => {
      const { level, index, width } = tile;
      if (level !== 'entries') return this.tree.read({ level, index, width });
      const entries = this.#entries.slice(index * 256, index * 256 + width);
      return formatDigestBundle(Buffer.from(entries.join(''), 'hex'));
    },
    lines: (query: Record<string, string>) => this.#lines(new URLSearchParams(query)),
    newest: () => this.tree.head(this.signed),
    pause: async (): Promise<void> => this.onPause(),
    onProgress: (): void => {},
  };

  async *#lines(query: URLSearchParams): AsyncGenerator<string> {
    const end = this.shown.length;
    for (let index = Number(query.get('after') ?? 0); index < end; index++) {
      this.beforeLine(index);
      const event = this.shown[index] as RecordedEvent;
      if (event.type !== (query.get('type') ?? event.type)) continue;
      yield JSON.stringify(toCloudEvent(event, { source: 'urn:plants', hashed: hashedAttributes }));
    }
  }
}
