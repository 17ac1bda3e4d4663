import { moduleBeside, Thread } from '../../threads/thread.ts';
import type { CommitReply } from './protocol.ts';

/** The log file, and its identity when the writer opened it. */
export type OpenLog = { file: string; identity: string | undefined };

export type CheckpointOperations = { checkpoint: () => CommitReply[] };

/** Runs checkpoints on a thread of its own, which starts with the first one. */
export class WalCheckpointer {
  isRunning = false;
  readonly #log: OpenLog;
  readonly #onDone: (failures: CommitReply[]) => void;
  #thread: Thread<CheckpointOperations> | undefined;

  /** `onDone` gets the failures after which nothing can be appended; others lose nothing. */
  constructor(log: OpenLog, onDone: (failures: CommitReply[]) => void) {
    this.#log = log;
    this.#onDone = onDone;
  }

  async run(): Promise<void> {
    this.isRunning = true;
    this.#thread ??= new Thread(moduleBeside(import.meta.url, 'walCheckpointWorker'), { data: this.#log });
    const failures = await this.#thread.call('checkpoint', undefined).catch((): CommitReply[] => {
      this.#thread = undefined;
      return []; // without a thread, as with too few file descriptors, the writer does all of it
    });
    this.isRunning = false;
    this.#onDone(failures);
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    await this.#thread?.close().catch(() => {});
  }
}
