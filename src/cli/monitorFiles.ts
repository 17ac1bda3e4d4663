import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fsyncPath } from '../disk/fsyncPath.ts';
import { replaceFile } from '../disk/replaceFile.ts';
import type { Evidence } from '../monitor/alarm.ts';
import { formatState, NEW_STATE, parseState, type State } from '../monitor/state.ts';
import { decodeUtf8 } from '../transparency/encoding.ts';
import type { VerifierKey } from '../transparency/signedNote.ts';

/** 1 000 checkpoints of 16 KiB, as JSON. */
const MAX_STATE_BYTES = 64 * 1024 * 1024;

/** The files of a monitor: its state, beside it the last checkpoint for other tools, and the evidence of an alarm. */
export class MonitorFiles {
  readonly #state: string;

  constructor(state: string) {
    this.#state = state;
  }

  /** The directory of an alarm; it exists after one. */
  get alarm(): string {
    return `${this.#state}.alarm`;
  }

  /** What was known at the last check. @throws Error if the file is not the state of a monitor of this log */
  async readState(key: VerifierKey): Promise<State> {
    if (!existsSync(this.#state)) return NEW_STATE;
    try {
      const stats = statSync(this.#state);
      if (!stats.isFile() || stats.size > MAX_STATE_BYTES)
        throw new Error('it is not the state of a monitor');
      return await parseState(decodeUtf8(readFileSync(this.#state)), key);
    } catch (error) {
      const { message } = error as Error;
      throw new Error(`the file of --state is not that of this log, and is left as it is: ${message}`, {
        cause: error,
      });
    }
  }

  /** After a kill at any moment, the file has this state or the one before. */
  async writeState(state: State): Promise<void> {
    await replaceFile(this.#state, formatState(state));
  }

  /** Writes the last checkpoint whose events were all checked, also for other tools. */
  async writeCheckpoint(note: string): Promise<void> {
    await replaceFile(`${this.#state}.checkpoint`, note);
  }

  /** Writes what happened, and the evidence, into a new directory that is complete as soon as it exists. */
  async writeAlarm(text: string, evidence: readonly Evidence[]): Promise<void> {
    const draft = `${this.alarm}.draft`;
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(draft, { mode: 0o700 });
    for (const { name, content } of [{ name: 'alarm.txt', content: Buffer.from(text) }, ...evidence])
      await replaceFile(join(draft, name), content);
    renameSync(draft, this.alarm);
    fsyncPath(dirname(this.alarm));
  }
}
