import { acquireFileLock } from '../files/fileLock.ts';
import { readIfExists, replaceFile } from '../files/stateFile.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { printable } from '../notes/printable.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
import { NotChecked } from './notChecked.ts';
import { openReceived, type Received } from './received.ts';

export type State = {
  /** The last checkpoint for which all events were compared with its tree; undefined before the first one. */
  checkpoint: Received | undefined;
  /** Further checkpoints that the log has signed and must still prove to be consistent. */
  pending: readonly Received[];
  /** The partial tiles of the checkpoint's tree by path: after a rollback, the log may no longer serve them. */
  tiles: ReadonlyMap<string, Buffer>;
  /** Stubs of erased events that no later record has named yet. */
  unnamed: readonly UnnamedStub[];
};

/**
 * `number`: the ordinal of the stub in the log, from 1. Once the log has `bySize` events, one of them must name it.
 * `since`: when the stub was first read, in RFC 3339.
 */
export type UnnamedStub = { number: number; leaf: string; bySize: number; since: string };

export const NEW_STATE: State = { checkpoint: undefined, pending: [], tiles: new Map(), unnamed: [] };

/** All checkpoints that must still be compared. */
export const knownCheckpoints = ({ checkpoint, pending }: State): Received[] =>
  checkpoint ? [checkpoint, ...pending] : [...pending];

/** The pending checkpoints have at most 24 MiB; JSON makes them larger. */
const MAX_STATE_BYTES = 64 * 1024 * 1024;

/** The state file of a monitor, and beside it a file with the last checkpoint for other tools. */
export class StateFiles {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Locks the state: each check continues from the state of the previous check. @throws NotChecked */
  lock(): Promise<Disposable> {
    const file = `${this.path}.lock`;
    return acquireFileLock(file).catch(orNotChecked(`lock ${file}`));
  }

  /**
   * The state of the last check. If its file was lost, the checkpoint beside it must still be compared.
   * @throws NotChecked; Error if a file is not of a monitor of this log
   */
  async read(key: VerifierKey): Promise<State> {
    const parse = (text: string) => parseState(text, key);
    const state = await this.#read(this.path, 'the state of a monitor', parse);
    if (state) return state;
    const source = { receivedAt: new Date().toISOString(), shownBy: `in ${this.#checkpointFile}` };
    const open = (note: string) => openReceived({ note, ...source }, key);
    const last = await this.#read(this.#checkpointFile, 'a checkpoint', open);
    return last ? { ...NEW_STATE, pending: [last] } : NEW_STATE;
  }

  /** Writes the state atomically. @throws NotChecked, Error */
  async write(state: State): Promise<void> {
    const text = formatState(state);
    if (Buffer.byteLength(text) > MAX_STATE_BYTES)
      throw new Error('the state would be too large: give fewer files of --known at once.');
    await this.#write(this.path, text);
  }

  /** Writes the state after a check, and its checkpoint for other tools. @throws NotChecked, Error */
  async writeChecked(state: State & { checkpoint: Received }): Promise<void> {
    await this.write(state);
    await this.#write(this.#checkpointFile, state.checkpoint.note);
  }

  get #checkpointFile(): string {
    return `${this.path}.checkpoint`;
  }

  async #read<T>(file: string, what: string, parse: (text: string) => Promise<T>): Promise<T | undefined> {
    try {
      const text = await readIfExists(file, MAX_STATE_BYTES, what);
      return text === undefined ? undefined : await parse(text);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (typeof code === 'string') return orNotChecked(`read ${file}`)(error as Error);
      throw new Error(
        `the file ${file} belongs to another log, or is damaged; it was not changed: ${printable(message)}`,
        { cause: error },
      );
    }
  }

  #write(file: string, content: string): Promise<void> {
    return replaceFile(file, content).catch(orNotChecked(`write ${file}`));
  }
}

const orNotChecked =
  (doing: string) =>
  ({ message }: Error): never => {
    throw new NotChecked(`cannot ${doing}: ${message}`);
  };

const FORMAT = 'transparency-log monitor 1';

function formatState({ checkpoint, pending, tiles, unnamed }: State): string {
  const file = {
    format: FORMAT,
    checkpoint: checkpoint ? toStored(checkpoint) : null,
    pending: pending.map(toStored),
    tiles: Object.fromEntries([...tiles].map(([path, hashes]) => [path, hashes.toString('base64')])),
    ...(unnamed.length > 0 && { unnamed }),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Parses the text of a state file, and verifies the signatures again. @throws NotVerified */
async function parseState(text: string, key: VerifierKey): Promise<State> {
  const { format, checkpoint, pending, tiles, unnamed = [] } = parseJson(text);
  const encoded = Object.entries(Object(tiles));
  const isState =
    format === FORMAT &&
    (checkpoint === null || isStored(checkpoint)) &&
    Array.isArray(pending) &&
    pending.every(isStored) &&
    Array.isArray(unnamed) &&
    unnamed.every(isUnnamedStub) &&
    encoded.every(([, hashes]) => typeof hashes === 'string');
  if (!isState) throw new NotVerified('it is not the state of a monitor');
  const open = (received: unknown) => openReceived(toStored(Object(received)), key);
  return {
    checkpoint: checkpoint === null ? undefined : await open(checkpoint),
    pending: await Promise.all(pending.map(open)),
    tiles: new Map(encoded.map(([path, hashes]) => [path, Buffer.from(hashes as string, 'base64')])),
    unnamed,
  };
}

const isUnnamedStub = (value: unknown): value is UnnamedStub => {
  const { number, leaf, bySize, since } = Object(value);
  const areTexts = typeof leaf === 'string' && typeof since === 'string';
  return areTexts && Number.isSafeInteger(number) && Number.isSafeInteger(bySize);
};

/** Omits members that the note contains. */
const toStored = ({ receivedAt, note, shownBy, mayBeAhead }: Received) => {
  return { receivedAt, note, shownBy, mayBeAhead };
};

const isStored = (value: unknown): boolean => {
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
