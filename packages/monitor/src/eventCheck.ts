import { EVENT_ERASED } from '@event-sourced/event-log/erasure';
import { entryLeafHash, HASH_BYTES, TILE_WIDTH, toHex, type VerifiedTiles } from '@event-sourced/tlog';
import { cloudEventEntry, type ErasureProblem, ErasureRules } from '@event-sourced/transparency-log/digest';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { NotChecked } from './notChecked.ts';
import type { Received } from './received.ts';
import type { EventsRead, UnnamedStub } from './state.ts';
import type { Verified } from './verifyCheckpoint.ts';

const NOTHING_READ: EventsRead = { index: 0, unnamed: [], erased: 0, records: 0, neverRead: 0 };

/** Compares the events of this service's log with the entries of its tree, and checks erasures. */
export class EventCheck {
  readonly #read: EventsRead;
  /** The number of events that earlier checks have read. */
  readonly #readBefore: number;
  readonly #stubs: Map<number, UnnamedStub>;
  readonly #rules: ErasureRules;
  readonly #client: Check['client'];

  constructor({ client, state: { events: before = NOTHING_READ }, all }: Check) {
    this.#read = all ? { ...NOTHING_READ, neverRead: before.neverRead } : { ...before };
    this.#readBefore = before.index;
    this.#stubs = new Map(before.unnamed.map((stub) => [stub.index, { ...stub }]));
    this.#rules = new ErasureRules(this.#read.unnamed.map(({ index }) => index));
    this.#client = client;
  }

  get index(): number {
    return this.#read.index;
  }

  get read(): EventsRead {
    const erased = this.#read.erased + this.#rules.erased;
    const records = this.#read.records + this.#rules.records;
    return { ...this.#read, unnamed: this.#unnamed, erased, records };
  }

  /** The events after the last one that was read. */
  lines(): AsyncGenerator<string> {
    const { position } = this.#read;
    return this.#client.events(position === undefined ? {} : { after: position });
  }

  /** Compares the line of the next event with its entry, which the tree confirms. @throws Alarm, NotChecked */
  add(entry: string, line: IteratorResult<string>, checkpoint: Received): void {
    const { index } = this;
    if (line.done)
      throw new NotChecked(
        `/events shows ${index} events, fewer than the ${checkpoint.size} that are signed`,
      );
    const event = parseLine(line.value);
    if (event?.entry !== entry) {
      const found = event ? `has the entry ${event.entry}` : 'is malformed';
      const files = [
        ...checkpointFiles(checkpoint),
        { name: 'event.json', content: Buffer.from(line.value) },
      ];
      throw new Alarm(
        'mismatch',
        `in /events, the event at index ${index} ${found}; its entry is ${entry}`,
        files,
      );
    }
    const { digest } = event;
    this.#rules.add(index, event, digest);
    if (digest && !this.#stubs.has(index)) this.#stubs.set(index, { index, entry });
    if (digest && index >= this.#readBefore) this.#read.neverRead++;
    this.#read.index++;
    this.#read.position = event.position;
  }

  /**
   * Judges erasures. Returns the size by which records of stubs are due; undefined if each stub has one.
   * @throws Alarm, NotChecked
   */
  async judge({ checkpoint, tree }: Verified): Promise<number | undefined> {
    await this.#readNamedAgain(tree);
    const unnamed = this.#unnamed;
    const shown = unnamed.length === 0 ? 0 : await this.#countShown();
    for (const stub of unnamed) stub.due = Math.min(stub.due ?? shown, shown);
    const isDue = (index: number): boolean => (this.#stubs.get(index)?.due ?? 0) <= checkpoint.size;
    const problems = this.#rules.problems(isDue);
    if (problems.length > 0) throw this.#alarm(problems, checkpoint);
    return unnamed.length === 0 ? undefined : unnamed.reduce((max, { due = 0 }) => Math.max(max, due), 0);
  }

  get #unnamed(): UnnamedStub[] {
    return [...this.#stubs.values()].filter(({ index }) => this.#rules.unnamed.has(index));
  }

  /** What a record names may have been erased after it was read: then it is a stub with the same entry now. */
  async #readNamedAgain(tree: VerifiedTiles): Promise<void> {
    const named = new Map<string, number>();
    for (const index of this.#rules.unconfirmed.keys()) named.set(await leafAt(index, tree), index);
    if (named.size === 0) return;
    for await (const line of this.#client.events({ type: EVENT_ERASED })) {
      const { entry = '', digest } = parseLine(line) ?? {};
      const index = digest && named.get(entryLeafHash(entry));
      if (!digest || index === undefined) continue;
      this.#rules.confirm(index, digest);
      this.#stubs.set(index, { index, entry });
    }
  }

  /** The number of events that the log shows now: with a record of each stub that was read before. */
  async #countShown(): Promise<number> {
    let shown = this.index;
    for await (const line of this.lines()) if (parseLine(line)) shown++;
    return shown;
  }

  #alarm(problems: readonly ErasureProblem[], checkpoint: Received): Alarm {
    const [{ kind, index, problem }] = problems as [ErasureProblem];
    const same = problems.filter((other) => other.kind === kind);
    const lines = same.map((other) => {
      const { entry, due = checkpoint.size } = this.#stubs.get(other.index) ?? {};
      return kind === 'false record'
        ? `${other.index} ${other.problem}\n`
        : `${other.index} ${entry} ${due}\n`;
    });
    const name = kind === 'false record' ? 'records.txt' : 'stubs.txt';
    const message = `at index ${index} of ${checkpoint.size} events: ${problem}; ${same.length} such event${same.length === 1 ? '' : 's'}`;
    return new Alarm(kind, message, [
      ...checkpointFiles(checkpoint),
      { name, content: Buffer.from(lines.join('')) },
    ]);
  }
}

/** An event in CloudEvents format with its entry; undefined if the line is malformed. */
function parseLine(line: string) {
  try {
    const event = JSON.parse(line);
    const { type, position } = event as { type: string; position: string };
    return /^\d{1,20}$/.test(position) ? { type, position, ...cloudEventEntry(event) } : undefined;
  } catch {
    return undefined;
  }
}

async function leafAt(index: number, tree: VerifiedTiles): Promise<string> {
  const at = index % TILE_WIDTH;
  const tile = { level: 0, index: Math.floor(index / TILE_WIDTH), width: at + 1 };
  return toHex((await tree.read(tile)).subarray(at * HASH_BYTES));
}
