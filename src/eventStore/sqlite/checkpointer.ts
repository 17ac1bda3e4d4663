import { on, once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type CommitReply, READY } from './protocol.ts';

/** Runs checkpoints on a thread of its own. */
export class Checkpointer {
  isRunning = false;
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;

  private constructor(file: string) {
    this.#worker = new Worker(new URL('./checkpointWorker.ts', import.meta.url), { workerData: file });
    this.#exited = once(this.#worker, 'exit');
    this.#exited.catch(() => {});
  }

  /**
   * Starts the thread, which opens the log. `onDone` gets the failures of a checkpoint after which nothing can be
   * appended; others lose nothing. @throws UnusableLog
   */
  static async start(file: string, onDone: (failures: CommitReply[]) => void): Promise<Checkpointer> {
    const started = new Checkpointer(file);
    for await (const [message] of on(started.#worker, 'message')) if (message === READY) break; // or an error
    started.#worker.on('error', (error) => {
      throw error; // unforeseen: the writer ends
    });
    started.#worker.on('message', (message) => {
      if (!Array.isArray(message)) return; // under `node --watch` there are others
      started.isRunning = false;
      onDone(message);
    });
    return started;
  }

  /** Starts a checkpoint. */
  run(): void {
    this.isRunning = true;
    this.#worker.postMessage('checkpoint');
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    this.#worker.postMessage('close');
    await this.#exited;
  }
}
