import { EVENTS_ERASED, parseErasure, type RecordedEvent } from '@event-sourced/event-log';
import { erasedLeaf } from './stub.ts';

/** A record ends like this, and no other leaf: `type` is its last member. */
const RECORD_END = Buffer.from(`"type":"${EVENTS_ERASED}"}`);

/**
 * The stubs that no later record has named yet: a stub without a record may hide an altered event. Takes the events of a
 * log in order. The leaf hash is the name, since a copied log has other positions.
 */
export class UnnamedStubs {
  readonly #stubs: Map<string, number>;

  /** `stubs` are those of earlier events: by leaf hash, with their ordinals. */
  constructor(stubs: Iterable<readonly [leaf: string, ordinal: number]> = []) {
    this.#stubs = new Map(stubs);
  }

  /** By leaf hash, with their ordinals. */
  get stubs(): ReadonlyMap<string, number> {
    return this.#stubs;
  }

  /** Takes the event with this ordinal. */
  add(event: Pick<RecordedEvent, 'stream' | 'id' | 'type' | 'data' | 'erased'>, ordinal: number): void {
    if (event.erased !== undefined) this.#stubs.set(event.erased, ordinal);
    for (const { leaf } of parseErasure(event)?.events ?? []) this.#stubs.delete(leaf);
  }

  /** Takes an entry that was verified by its hash in the tree. */
  addEntry(entry: Buffer, ordinal: number): void {
    const erased = erasedLeaf(entry);
    if (erased !== undefined) this.#stubs.set(erased, ordinal);
    else if (entry.subarray(-RECORD_END.length).equals(RECORD_END)) this.add(parseEntry(entry), ordinal);
  }
}

/** What an entry has of a record. An entry that is no leaf has nothing. */
function parseEntry(entry: Buffer): Pick<RecordedEvent, 'stream' | 'id' | 'type' | 'data'> {
  try {
    const { stream, id, type, data } = Object(JSON.parse(entry.toString()));
    return { stream: String(stream), id: String(id), type, data };
  } catch {
    return { stream: '', id: '', type: '', data: undefined };
  }
}
