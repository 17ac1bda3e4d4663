import { finish, isThreadFor, Thread, threadData } from '@event-sourced/node/threads';
import { findDamage } from './file.ts';

// The process of a quick_check. SQLite checks on a thread; the main thread ends the process when the service has ended.

/** The first problem, null if there is none, or why the file could not be checked. */
export type CheckResult = { finding: string | null } | { error: string };

if (isThreadFor(import.meta.url)) finish(findDamage(threadData(), 'quick_check', 1)[0]);
else {
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  const thread = new Thread<never, string | undefined>(new URL(import.meta.url), { data: process.argv[2] });
  thread.started.then(
    (finding) => process.send?.({ finding: finding ?? null } satisfies CheckResult),
    ({ message }: Error) => process.send?.({ error: message } satisfies CheckResult),
  );
}
