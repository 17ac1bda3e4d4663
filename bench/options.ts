import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { InvalidArgumentError } from 'commander';

export function toNumber(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1.');
  return Number(text);
}

/** Ends the process if the packages of the benchmarks are not installed. */
export function requirePackages(): void {
  if (existsSync(join(import.meta.dirname, 'node_modules'))) return;
  console.error('npm ci --prefix bench installs what benchmarks need.');
  process.exit(1);
}
