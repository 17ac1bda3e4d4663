import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CommitReply } from './protocol.ts';

/** The log file, and its identity when the writer opened it. */
export type OpenLog = { file: string; identity: string | undefined };

/** Runs checkpoints on a thread of its own, which starts with the first one. */
export class WalCheckpointer {
  isRunning = false;
  readonly #log: OpenLog;
  readonly #onDone: (failures: CommitReply[]) => void;
  #worker: Worker | undefined;

  /** `onDone` gets the failures after which nothing can be appended; others lose nothing. */
  constructor(log: OpenLog, onDone: (failures: CommitReply[]) => void) {
    this.#log = log;
    this.#onDone = onDone;
  }

  /** Starts a checkpoint. */
  run(): void {
    this.isRunning = true;
    this.#worker ??= this.#start();
    this.#worker.postMessage('checkpoint');
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    if (!this.#worker) return;
    const exited = once(this.#worker, 'exit').catch(() => {});
    this.#worker.postMessage('close');
    await exited;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./walCheckpointWorker.ts', import.meta.url), {
      workerData: this.#log,
    });
    worker.on('message', (message) => {
      if (Array.isArray(message)) this.#finish(message); // under `node --watch` there are others
    });
    // Without a thread, as with too few file descriptors, the writer does all of it.
    worker.on('error', () => {
      this.#worker = undefined;
      this.#finish([]);
    });
    return worker;
  }

  #finish(failures: CommitReply[]): void {
    this.isRunning = false;
    this.#onDone(failures);
  }
}
