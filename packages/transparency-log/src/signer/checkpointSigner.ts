import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { syncDirectory } from '@event-sourced/event-log/disk';
import { acquireFileLock } from '../files/fileLock.ts';
import { readIfExists, replaceFile } from '../files/stateFile.ts';
import { type ProveConsistency, verifyConsistency } from '../merkle/proofs.ts';
import { formatTreeHead, isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import { type Checkpoint, openCheckpoint } from '../notes/checkpoint.ts';
import { MAX_NOTE_BYTES, type VerifierKey } from '../notes/signedNote.ts';
import { signCheckpoint } from '../sign/signCheckpoint.ts';
import type { LogKey } from './logKey.ts';

/** The log contradicts a signed checkpoint: it has different events, or fewer. */
export class LogContradictsCheckpoint extends Error {
  override readonly name = 'LogContradictsCheckpoint';
  readonly signed: TreeHead;
  readonly head: TreeHead;
  constructor(signed: TreeHead, head: TreeHead) {
    super(`the log was signed as ${formatTreeHead(signed)}, and is now ${formatTreeHead(head)}`);
    this.signed = signed;
    this.head = head;
  }
}

/** A signed checkpoint cannot be read or recorded. The message names the file. */
export class CheckpointFileUnusable extends Error {
  override readonly name = 'CheckpointFileUnusable';
}

/**
 * The only signer of a log's checkpoints. It never contradicts its own checkpoints: it records a checkpoint in a file
 * before returning it, and signs a different one only if a proof shows that the smaller is the beginning of the larger.
 */
export class CheckpointSigner {
  readonly verifierKey: VerifierKey;
  /** The file of the last checkpoint with this key and origin. Each key and origin has its own file. */
  readonly file: string;
  readonly #logKey: LogKey;
  readonly #cosignedFile: string;
  readonly #lockFile: string;
  /** The last checkpoint recorded by this process. */
  #last: Checkpoint | undefined;
  #signing: Promise<unknown> = Promise.resolve();

  constructor(logKey: LogKey, dataDir: string) {
    this.#logKey = logKey;
    this.verifierKey = logKey.verifierKey;
    this.file = join(dataDir, `checkpoint-${this.verifierKey.id}`);
    this.#cosignedFile = `${this.file}.cosigned`;
    this.#lockFile = join(dataDir, 'checkpoint.lock');
  }

  /** The files of other keys or origins, if this one has signed nothing: a new history begins. */
  earlierHistories(): string[] {
    const files = readdirSync(dirname(this.file)).filter((name) => /^checkpoint-[\da-f]{8}$/.test(name));
    return files.includes(basename(this.file)) ? [] : files;
  }

  /** Signs a tree head, and records the largest checkpoint. @throws LogContradictsCheckpoint, CheckpointFileUnusable */
  sign(head: TreeHead, prove: ProveConsistency): Promise<Checkpoint> {
    const signing = this.#signing.then(() => this.#sign(head, prove));
    this.#signing = signing.catch(() => {});
    return signing;
  }

  /** The newest cosigned checkpoint, with its cosignatures. @throws CheckpointFileUnusable */
  async cosigned(): Promise<Checkpoint | undefined> {
    const note = await orUnusable(this.#cosignedFile, read(this.#cosignedFile));
    if (note === undefined) return undefined;
    return orUnusable(this.#cosignedFile, openCheckpoint(note, this.verifierKey));
  }

  /** @throws CheckpointFileUnusable */
  saveCosigned(note: string): Promise<void> {
    return orUnusable(this.#cosignedFile, replaceFile(this.#cosignedFile, note));
  }

  /** Resolves if the tree head could be signed. @throws LogContradictsCheckpoint, CheckpointFileUnusable */
  async check(head: TreeHead, prove: ProveConsistency): Promise<void> {
    await assertConsistent(await this.#lastSigned(), head, prove);
  }

  async #sign({ size, root }: TreeHead, prove: ProveConsistency): Promise<Checkpoint> {
    const head = { size, root };
    if (this.#last && isSameHead(this.#last, head)) return this.#last;
    const checkpoint = { ...head, origin: this.#logKey.origin, note: signCheckpoint(head, this.#logKey) };
    for (;;) {
      const signed = await this.#lastSigned();
      await assertConsistent(signed, head, prove); // without the lock, since `prove` may read the whole log
      if (signed.some((one) => one.size >= size)) return checkpoint; // the file has it, or a larger one
      // Another process, such as the command `prove`, may use the same file.
      using _lock = await orUnusable(this.#lockFile, acquireFileLock(this.#lockFile));
      if (!isSameHistory(await this.#lastSigned(), signed)) continue;
      await orUnusable(this.file, replaceFile(this.file, checkpoint.note));
      this.#last = checkpoint;
      return checkpoint;
    }
  }

  /** The last checkpoints signed by this process and by another one, if they differ. */
  async #lastSigned(): Promise<Checkpoint[]> {
    const note = await orUnusable(this.file, read(this.file));
    if (note === undefined || note === this.#last?.note) return this.#last ? [this.#last] : [];
    const recorded = await orUnusable(this.file, openCheckpoint(note, this.verifierKey));
    await orUnusable(this.file, syncDirectory(dirname(this.file))); // its writer may have crashed before its fsync
    return this.#last ? [this.#last, recorded] : [recorded];
  }
}

async function assertConsistent(
  signed: readonly TreeHead[],
  head: TreeHead,
  prove: ProveConsistency,
): Promise<void> {
  for (const checkpoint of signed) {
    const [earlier, later] = checkpoint.size <= head.size ? [checkpoint, head] : [head, checkpoint];
    if (!(await isBeginning(earlier, later, prove))) throw new LogContradictsCheckpoint(checkpoint, head);
  }
}

async function isBeginning(earlier: TreeHead, later: TreeHead, prove: ProveConsistency): Promise<boolean> {
  if (earlier.size === later.size) return earlier.root === later.root;
  const path = await prove(earlier.size, later.size);
  return path !== undefined && verifyConsistency(earlier, later, path);
}

const isSameHistory = (a: readonly Checkpoint[], b: readonly Checkpoint[]): boolean =>
  a.length === b.length && a.every(({ note }, i) => note === b[i]?.note);

const read = (file: string): Promise<string | undefined> =>
  readIfExists(file, MAX_NOTE_BYTES, 'a checkpoint');

/** The result of using a file. @throws CheckpointFileUnusable if that fails */
async function orUnusable<T>(file: string, done: Promise<T>): Promise<T> {
  try {
    return await done;
  } catch (error) {
    throw new CheckpointFileUnusable(`cannot use ${file}: ${(error as Error).message}`, { cause: error });
  }
}
