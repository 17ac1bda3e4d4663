import { spawnSync } from 'node:child_process';
import { relative } from 'node:path';

/**
 * The files below a directory that have one of these texts, sorted. Another process reads them: closing a file here would
 * release the locks that SQLite has on it in this process (https://sqlite.org/howtocorrupt.html, section 2.2).
 */
export function filesWith(dir: string, ...texts: string[]): string[] {
  const patterns = texts.flatMap((text) => ['-e', text]);
  const { status, stdout, stderr } = spawnSync('grep', ['-rlaF', ...patterns, dir], { encoding: 'utf8' });
  // A file may be removed meanwhile: then the status is 2.
  if (status === null || (status === 2 && !stderr.includes('No such file')))
    throw new Error(`grep: ${stderr}`);
  return stdout
    .split('\n')
    .filter((path) => path !== '')
    .map((path) => relative(dir, path))
    .sort();
}
