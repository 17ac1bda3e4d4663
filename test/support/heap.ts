import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * The memory that a plant may use in this process, in bytes: in the log, the views, the log lines and the
 * test.
 */
const BYTES_PER_PLANT = 8 * 1_024;
/** The memory for code that has not run before, in bytes. */
const CODE_BYTES = 8 * 1_024 ** 2;

/** The memory that creating this number of plants may use, in bytes. */
export const mayUse = (plants: number): number => plants * BYTES_PER_PLANT + CODE_BYTES;

/** The memory in use after a garbage collection, in bytes. */
export function heap(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
