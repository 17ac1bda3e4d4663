import { printable } from '@event-sourced/node/cli';
import { acquireFileLock } from '@event-sourced/node/files';
import { NotVerified, toBase64, type VerifierKey } from '@event-sourced/tlog';
import { readIfExists, replaceFile } from '@event-sourced/transparency-log/files';
import { NotChecked } from './notChecked.ts';
import { openReceived, type Received } from './received.ts';
import { keep, NEW_STATE, type State } from './state.ts';

const FORMAT = 'transparency-log monitor 2';
const EARLIER_FORMAT = 'transparency-log monitor 1';
const MAX_STATE_BYTES = 256 * 1024 * 1024;

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
    return last ? keep(NEW_STATE, last) : NEW_STATE;
  }

  /** Writes the state atomically. @throws NotChecked */
  write(state: State): Promise<void> {
    return this.#write(this.path, formatState(state));
  }

  /** Writes the state after a check, and the checkpoint for other tools. @throws NotChecked */
  async writeChecked(state: State, { note }: Received): Promise<void> {
    await this.write(state);
    await this.#write(this.#checkpointFile, note);
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
      if (typeof code === 'string' && !code.startsWith('ERR_'))
        return orNotChecked(`read ${file}`)(error as Error);
      // No cause: malformed JSON in a file is no fault of the code.
      throw new Error(
        `the file ${file} belongs to another log, or is damaged; it was not changed: ${printable(message)}`,
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

function formatState({ compared, first, largest, tiles, ...others }: State): string {
  const file = {
    format: FORMAT,
    ...others,
    compared: compared && toStored(compared),
    first: first && toStored(first),
    largest: largest && toStored(largest),
    tiles: Object.fromEntries(Array.from(tiles, ([path, hashes]) => [path, toBase64(hashes)])),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Omits members that the note contains. */
const toStored = ({ receivedAt, note, shownBy, mayBeAhead }: Received) => {
  return { receivedAt, note, shownBy, mayBeAhead };
};

/** Parses the text of a state file, and verifies the signatures again. @throws NotVerified, SyntaxError, TypeError */
async function parseState(text: string, key: VerifierKey): Promise<State> {
  const { format, compared, first, largest, tiles, ...others } = Object(JSON.parse(text));
  if (format === EARLIER_FORMAT)
    throw new NotVerified(
      'it is of a monitor of version 1, whose log had another tree; start with a new file',
    );
  if (format !== FORMAT) throw new NotVerified('it is not the state of a monitor');
  const open = async (stored: unknown) =>
    stored === undefined ? undefined : openReceived(toStored(stored as Received), key);
  const decoded = Object.entries(tiles as { [path: string]: string }).map(
    ([path, hashes]) => [path, Buffer.from(hashes, 'base64')] as const,
  );
  return {
    ...others,
    compared: await open(compared),
    first: await open(first),
    largest: await open(largest),
    tiles: new Map(decoded),
  };
}
