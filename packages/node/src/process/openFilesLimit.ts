import { readFileSync } from 'node:fs';

/** How many files and connections the process may have open (`ulimit -n`); Infinity if the system does not say it. */
export function openFilesLimit(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY; // not on Linux
  }
}
