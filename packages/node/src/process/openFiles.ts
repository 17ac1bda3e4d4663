import { readdirSync, readFileSync } from 'node:fs';

/**
 * How many files and connections the process has open, and how many it may have (`ulimit -n`): Infinity if the system does
 * not say it.
 */
export function openFiles(): { open: number; max: number } {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    const max = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
    return { open: readdirSync('/proc/self/fd').length, max };
  } catch {
    return { open: 0, max: Number.POSITIVE_INFINITY }; // not on Linux
  }
}
