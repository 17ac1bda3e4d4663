import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CommitReply } from './protocol.ts';

type OnDone = (failures: CommitReply[]) => void;

/** Runs checkpoints on a thread of its own, which starts with the first one. */
export class Checkpointer {
  readonly #file: string;
  readonly #onDone: OnDone;
  #worker: Worker | undefined;
  #isRunning = false;

  /** `onDone` gets what prevents further appends, if a checkpoint fails so; other failures lose nothing. */
  constructor(file: string, onDone: OnDone) {
    this.#file = file;
    this.#onDone = onDone;
  }

  /** Starts a checkpoint, unless one is running. */
  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#worker ??= this.#startWorker();
    this.#worker.postMessage('checkpoint');
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    if (!this.#worker) return;
    const exited = once(this.#worker, 'exit').catch(() => {});
    this.#worker.postMessage('close');
    await exited;
  }

  #startWorker(): Worker {
    const worker = new Worker(new URL('./checkpointWorker.ts', import.meta.url), { workerData: this.#file });
    worker.on('message', (message) => {
      if (Array.isArray(message)) this.#finish(message); // under `node --watch` there are others
    });
    worker.on('error', () => {
      this.#worker = undefined;
      this.#finish([]);
    });
    return worker;
  }

  #finish(failures: CommitReply[]): void {
    this.#isRunning = false;
    this.#onDone(failures);
  }
}
