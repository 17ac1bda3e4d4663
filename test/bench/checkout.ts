import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SERVICE } from './names.ts';

/** The project directory. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A checkout of the project whose service is measured, by its name in the results. */
export type Checkout = { name: string; root: string };

/** This checkout, and that of `--against`, which has the name of its commit. */
export function checkouts(against: string | undefined): Checkout[] {
  const own = { name: SERVICE, root: ROOT };
  return against === undefined ? [own] : [own, { name: `${SERVICE} at ${commitOf(against)}`, root: against }];
}

function commitOf(root: string): string {
  try {
    return execFileSync('git', ['-C', root, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  } catch {
    return basename(root);
  }
}
