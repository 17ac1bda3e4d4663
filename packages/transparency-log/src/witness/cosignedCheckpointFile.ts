import { dirname } from 'node:path';
import { syncDirectory } from '@event-sourced/event-log/disk';
import { readIfExists, replaceFile } from '../files/stateFile.ts';
import { readUnverifiedCheckpoint } from '../notes/checkpoint.ts';
import { MAX_NOTE_BYTES, type VerifierKey } from '../notes/signedNote.ts';
import { type CosignedCheckpoint, verifyCosignatures } from './cosignature.ts';

/** The latest cosigned checkpoint of a log cannot be read or recorded. The message names its file. */
export class WitnessStateUnusable extends Error {
  override readonly name = 'WitnessStateUnusable';
}

const GONE = 'it no longer has the latest checkpoint';

/** The latest cosigned checkpoint of a log, made durable before it is returned. */
export class CosignedCheckpointFile {
  readonly #file: string;
  readonly #origin: string;
  readonly #witness: VerifierKey;
  /** The latest checkpoint that this process has read or recorded. */
  #latest: CosignedCheckpoint | undefined;
  /** Whether the file existed, even if it could not be read. */
  #wasThere = false;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(file: string, origin: string, witness: VerifierKey) {
    this.#file = file;
    this.#origin = origin;
    this.#witness = witness;
  }

  /** The latest checkpoint; undefined if the witness has never cosigned this log. @throws WitnessStateUnusable */
  read(): Promise<CosignedCheckpoint | undefined> {
    return this.#inTurn(() => this.#read());
  }

  /** Replaces the latest checkpoint by the result of `next`. @throws WitnessStateUnusable; errors of `next` */
  update(next: (latest: CosignedCheckpoint | undefined) => CosignedCheckpoint): Promise<CosignedCheckpoint> {
    return this.#inTurn(async () => {
      const latest = await this.#read();
      const replacement = next(latest);
      if (replacement.note === latest?.note) return latest;
      await replaceFile(this.#file, replacement.note).catch(this.#fail);
      this.#latest = replacement;
      this.#wasThere = true;
      return replacement;
    });
  }

  /** Makes reads and updates atomic: each one starts when the previous one has ended. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {});
    return done;
  }

  /** Reads the file each time: even a failed write may have replaced it. */
  async #read(): Promise<CosignedCheckpoint | undefined> {
    try {
      const note = await readIfExists(this.#file, MAX_NOTE_BYTES, 'a checkpoint');
      if (note === undefined && this.#wasThere) throw new Error(GONE);
      if (note !== undefined && note !== this.#latest?.note) this.#latest = await this.#open(note);
      this.#wasThere ||= note !== undefined;
    } catch (error) {
      this.#wasThere = true;
      this.#fail(error as Error);
    }
    return this.#latest;
  }

  async #open(note: string): Promise<CosignedCheckpoint> {
    const checkpoint = readUnverifiedCheckpoint(note);
    const [cosignature] = verifyCosignatures(note, [this.#witness]);
    if (checkpoint.origin !== this.#origin || !cosignature)
      throw new Error('it is not a checkpoint of this log that this witness has cosigned');
    if (checkpoint.size < (this.#latest?.size ?? 0)) throw new Error(GONE);
    await syncDirectory(dirname(this.#file)); // the process that replaced the file may have crashed before its fsync
    return { ...checkpoint, time: cosignature.time };
  }

  readonly #fail = (cause: Error): never => {
    throw new WitnessStateUnusable(`${this.#origin}  cannot use ${this.#file}: ${cause.message}`, { cause });
  };
}
