import { readFileSync } from 'node:fs';
import { join } from 'node:path';

// Not from config.ts, which takes longer to load than a short command.
const CHECKOUT = join(import.meta.dirname, '..');
const { version }: { version: string } = JSON.parse(readFileSync(join(CHECKOUT, 'package.json'), 'utf8'));
export const VERSION = version;

/** The commit that runs: of the image, which has it in its environment, or of the checkout; undefined if unknown. */
export function readCommit(checkout = CHECKOUT, { IMAGE_COMMIT } = process.env): string | undefined {
  if (IMAGE_COMMIT) return IMAGE_COMMIT;
  const read = (file: string): string => readFileSync(join(checkout, '.git', file), 'utf8').trim();
  try {
    const head = read('HEAD');
    return head.startsWith('ref: ') ? read(head.slice('ref: '.length)) : head;
  } catch {
    return undefined; // no clone, or its references are packed
  }
}
