import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type Checkpoint, MAX_NOTE_BYTES, openCheckpoint, type VerifierKey } from '@event-sourced/tlog';
import { readIfExists, replaceFile } from '../files/stateFile.ts';

/** A signed checkpoint cannot be read or recorded. The message names the file. */
export class CheckpointFileUnusable extends Error {
  override readonly name = 'CheckpointFileUnusable';
}

/** The names of the files of the last signed checkpoints, with any key, in a data directory. */
export const signedFiles = (dataDir: string): string[] =>
  readdirSync(dataDir).filter((name) => /^checkpoint-[\da-f]{8}$/.test(name));

/** The files of the last checkpoints with a key and origin, in a data directory. Each method throws CheckpointFileUnusable. */
export class CheckpointFiles {
  /** The file of the last signed checkpoint. */
  readonly signedFile: string;
  readonly #cosignedFile: string;
  readonly #verifierKey: VerifierKey;

  constructor(verifierKey: VerifierKey, dataDir: string) {
    this.#verifierKey = verifierKey;
    this.signedFile = join(dataDir, `checkpoint-${verifierKey.id}`);
    this.#cosignedFile = `${this.signedFile}.cosigned`;
  }

  /** The files of other keys or origins, if this one has signed nothing: a new history begins. */
  earlierHistories(): string[] {
    const files = signedFiles(dirname(this.signedFile));
    return files.includes(basename(this.signedFile)) ? [] : files;
  }

  readSigned(): Promise<Checkpoint | undefined> {
    return this.#read(this.signedFile);
  }

  writeSigned(note: string): Promise<void> {
    return orUnusable(this.signedFile, replaceFile(this.signedFile, note));
  }

  /** The newest cosigned checkpoint, with its cosignatures. */
  readCosigned(): Promise<Checkpoint | undefined> {
    return this.#read(this.#cosignedFile);
  }

  writeCosigned(note: string): Promise<void> {
    return orUnusable(this.#cosignedFile, replaceFile(this.#cosignedFile, note));
  }

  async #read(file: string): Promise<Checkpoint | undefined> {
    const note = await orUnusable(file, readIfExists(file, MAX_NOTE_BYTES, 'a checkpoint'));
    return note === undefined ? undefined : orUnusable(file, openCheckpoint(note, this.#verifierKey));
  }
}

async function orUnusable<T>(file: string, done: Promise<T>): Promise<T> {
  try {
    return await done;
  } catch (error) {
    throw new CheckpointFileUnusable(`cannot use ${file}: ${(error as Error).message}`, { cause: error });
  }
}
