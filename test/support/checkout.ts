import { cpSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './process.ts';

/** Makes a directory a checkout, with sources of its own: `data` and `.env` are beside them. */
export function createCheckout(dir: string): void {
  for (const name of ['bin', 'src', 'projections', 'package.json'])
    cpSync(join(ROOT, name), join(dir, name), { recursive: true });
  for (const name of ['node_modules', 'packages', 'docs']) symlinkSync(join(ROOT, name), join(dir, name));
}
