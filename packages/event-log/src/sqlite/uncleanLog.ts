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
 * SQLite cannot be interrupted, and a process waits for its threads. A read transaction keeps the write-ahead log until
 * the check has passed, so that after an incomplete or failed check the next start checks again.
 */
export class UncleanLog {
  /** Rejects with LogDamaged, or with another Error if the check failed. Pending forever after `close`. */
  readonly checked: Promise<void>;
  readonly #snapshot: DatabaseSync;
  readonly #process: ChildProcess;
  #isClosed = false;

  constructor(file: string) {
    this.#snapshot = openReadOnly(file); // closing it does not remove the write-ahead log
    this.#snapshot.exec('BEGIN; SELECT 1 FROM sqlite_schema');
    // In its own process group, so that Ctrl-C in a terminal reaches only the service.
    const options = { detached: true, execArgv: [], stdio: ['ignore', 'ignore', 'ignore', 'ipc'] };
    this.#process = fork(PROCESS, [file], options as object);
    this.checked = this.#check();
    this.checked.catch(() => {}); // it may reject before a caller waits
  }

  async #check(): Promise<void> {
    const result = await new Promise<CheckResult>((resolve) => {
      this.#process.on('message', resolve);
      this.#process.on('error', ({ message }) => resolve({ error: message }));
      this.#process.on('exit', (code, signal) => {
        if (!this.#isClosed) resolve({ error: `its process has ended: ${signal ?? code}` });
      });
    });
    this.#process.kill('SIGKILL');
    if ('finding' in result && result.finding !== null) throw new LogDamaged(result.finding);
    if ('error' in result) throw new Error(result.error);
    this.#snapshot.close();
  }

  /** Ends the check. Call it when the log has no other connection. */
  close(): void {
    this.#isClosed = true;
    this.#process.kill('SIGKILL');
    if (this.#snapshot.isOpen) this.#snapshot.close();
  }
}
