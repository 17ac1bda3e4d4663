import { type ChildProcess, fork } from 'node:child_process';
import type { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { openReadOnly } from '@event-sourced/node/files';
import { moduleBeside } from '@event-sourced/node/threads';
import { LogDamaged } from '../eventStore.ts';
import type { CheckResult } from './quickCheckProcess.ts';

const PROCESS = fileURLToPath(moduleBeside(import.meta.url, 'quickCheckProcess'));

/**
 * Runs SQLite's quick_check on a log that was not closed, while the log is in use. The check has its own process:
 * SQLite cannot be interrupted, and a process waits for its threads. While the check runs, a read transaction keeps the
 * write-ahead log, so that the next start checks again what was not checked, or was found damaged.
 */
export class UncleanLog {
  /** Rejects with LogDamaged, or with another Error if the check failed. Pending forever if it runs at `close`. */
  readonly checked: Promise<void>;
  readonly #snapshot: DatabaseSync;
  readonly #process: ChildProcess;
  #isRunning = true;

  constructor(file: string, start = startCheck) {
    this.#snapshot = openReadOnly(file); // closing it does not remove the write-ahead log
    this.#snapshot.exec('BEGIN; SELECT 1 FROM sqlite_schema');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.checked = promise;
    promise.catch(() => {}); // it may reject before a caller waits
    const end = (result: CheckResult): void => {
      if (!this.#isRunning) return;
      this.#isRunning = false;
      this.#process.kill('SIGKILL');
      const isDamaged = 'finding' in result && result.finding !== null;
      // Also after a failed check: the write-ahead log would grow, and keep erased events.
      if (!isDamaged) this.#snapshot.close();
      if (isDamaged) reject(new LogDamaged(result.finding as string));
      else if ('error' in result) reject(new Error(result.error));
      else resolve();
    };
    this.#process = start(file);
    this.#process.on('message', end);
    this.#process.on('error', ({ message }) => end({ error: message }));
    // Unlike 'exit', it follows the last message.
    this.#process.on('close', (code, signal) =>
      end({ error: `its process was ended by ${signal ?? `code ${code}`}, as when memory is short` }),
    );
  }

  /** Ends the check. Call it when the log has no other connection. */
  close(): void {
    this.#isRunning = false;
    this.#process.kill('SIGKILL');
    if (this.#snapshot.isOpen) this.#snapshot.close();
  }
}

/** Starts the check, in its own process group: Ctrl-C in a terminal reaches only the service. */
export function startCheck(file: string): ChildProcess {
  const options = { detached: true, execArgv: [], stdio: ['ignore', 'ignore', 'ignore', 'ipc'] };
  return fork(PROCESS, [file], options as object);
}
