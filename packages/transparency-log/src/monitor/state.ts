import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, replaceFile, replacePath } from '../files/stateFile.ts';
import type { SignedCheckpoint } from '../notes/checkpoint.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { printable } from '../notes/printable.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
import type { Evidence } from './alarm.ts';
import { openReceived, type ReceivedCheckpoint } from './receivedCheckpoint.ts';

export type State = {
  /** The last checkpoint whose events were all checked; undefined before the first one. */
  checkpoint: ReceivedCheckpoint | undefined;
  /** Other checkpoints that the log has signed, and which it must still show to be consistent. */
  pending: readonly ReceivedCheckpoint[];
  /** The partial tiles of the checkpoint's tree, by path: what the log may not show any more after a rollback. */
  tiles: ReadonlyMap<string, Buffer>;
  /** The latest time of an event up to the checkpoint, in milliseconds since 1970. */
  latestTime: number | undefined;
};

export const NEW_STATE: State = {
  checkpoint: undefined,
  pending: [],
  tiles: new Map(),
  latestTime: undefined,
};

/** All checkpoints that the log has signed, as far as they must still be compared. */
export const knownOf = ({ checkpoint, pending }: State): ReceivedCheckpoint[] =>
  checkpoint ? [checkpoint, ...pending] : [...pending];

/** The pending checkpoints have at most 24 MiB, and become larger as JSON. */
const MAX_STATE_BYTES = 64 * 1024 * 1024;

/** The files of a monitor: its state, beside it the last checkpoint for other tools, and the evidence of an alarm. */
export class StateFiles {
  readonly state: string;
  readonly #format: string;

  /** `format` is in the state file, which another format's monitor refuses. */
  constructor(state: string, format: string) {
    this.state = state;
    this.#format = format;
  }

  /** The directory of an alarm; it exists after one. */
  get alarm(): string {
    return `${this.state}.alarm`;
  }

  get hasAlarm(): boolean {
    return existsSync(this.alarm);
  }

  readAlarm(): Promise<string> {
    return readFile(join(this.alarm, 'alarm.txt'), 'utf8');
  }

  /** Whether the program of --on-alarm has run. */
  get isNotified(): boolean {
    return existsSync(this.#notified);
  }

  async writeNotified(): Promise<void> {
    await replaceFile(this.#notified, '');
  }

  get #notified(): string {
    return join(this.alarm, 'notified');
  }

  /** Locked by a check, since each continues from the state that the one before has written. */
  get lock(): string {
    return `${this.state}.lock`;
  }

  /** What later events are compared with: duplicatesFile.ts. */
  get duplicates(): string {
    return `${this.state}.duplicates`;
  }

  /** What was known at the last check. @throws Error if the file is not the state of a monitor of this log */
  async readState(key: VerifierKey): Promise<State> {
    try {
      const text = await readIfExists(this.state, MAX_STATE_BYTES, 'the state of a monitor');
      return text === undefined ? NEW_STATE : await parseState(text, key, this.#format);
    } catch (error) {
      const reason = printable((error as Error).message);
      throw new Error(`the file of --state is not that of this log, and is left as it is: ${reason}`, {
        cause: error,
      });
    }
  }

  /** After a kill at any moment, the file has this state or the one before. @throws Error */
  async writeState(state: State): Promise<void> {
    const text = formatState(state, this.#format);
    if (Buffer.byteLength(text) > MAX_STATE_BYTES)
      throw new Error('the state would be too large: give fewer files of --known at once.');
    await replaceFile(this.state, text);
  }

  /** Writes the last checkpoint whose events were all checked, also for other tools. */
  async writeCheckpoint(note: string): Promise<void> {
    await replaceFile(`${this.state}.checkpoint`, note);
  }

  /** Writes what happened, and the evidence, into a new directory that is complete as soon as it exists. */
  async writeAlarm(text: string, evidence: readonly Evidence[]): Promise<void> {
    const draft = `${this.alarm}.draft`;
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    for (const { name, content } of [{ name: 'alarm.txt', content: Buffer.from(text) }, ...evidence])
      await replaceFile(join(draft, name), content);
    await replacePath(draft, this.alarm);
  }
}

type Received = Omit<ReceivedCheckpoint, keyof SignedCheckpoint>;
const receivedOf = ({ receivedAt, note, shownBy, mayBeAhead }: Received): Received => {
  return { receivedAt, note, shownBy, mayBeAhead };
};

function formatState({ checkpoint, pending, tiles, latestTime }: State, format: string): string {
  const file = {
    format,
    checkpoint: checkpoint ? receivedOf(checkpoint) : null,
    pending: pending.map(receivedOf),
    tiles: Object.fromEntries([...tiles].map(([path, hashes]) => [path, hashes.toString('base64')])),
    latestTime: latestTime === undefined ? null : new Date(latestTime).toISOString(),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Parses the text of a state file; the signatures are verified again. @throws NotVerified */
export async function parseState(text: string, key: VerifierKey, expected: string): Promise<State> {
  const { format, checkpoint, pending, tiles, latestTime } = parseJson(text);
  const time = latestTime === null ? undefined : Date.parse(String(latestTime));
  const isState =
    format === expected &&
    (checkpoint === null || isReceived(checkpoint)) &&
    Array.isArray(pending) &&
    pending.every(isReceived) &&
    Object.values(Object(tiles)).every((hashes) => typeof hashes === 'string') &&
    !Number.isNaN(time);
  if (!isState) throw new NotVerified('it is not the state of a monitor');
  const open = (received: Received) => openReceived(receivedOf(received), key);
  return {
    checkpoint: checkpoint === null ? undefined : await open(checkpoint),
    pending: await Promise.all(pending.map(open)),
    tiles: new Map(
      Object.entries<string>(Object(tiles)).map(([path, hashes]) => [path, Buffer.from(hashes, 'base64')]),
    ),
    latestTime: time,
  };
}

const isReceived = (value: unknown): value is Received => {
  const { receivedAt, note, shownBy = '', mayBeAhead = false } = Object(value);
  const areTexts = [receivedAt, note, shownBy].every((text) => typeof text === 'string');
  return areTexts && typeof mayBeAhead === 'boolean';
};

function parseJson(text: string): { [member: string]: unknown } {
  try {
    return Object(JSON.parse(text));
  } catch {
    throw new NotVerified('it is not JSON');
  }
}
