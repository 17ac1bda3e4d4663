import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MAIN, NODE, ROOT, run } from '../support/process.ts';

const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  engines: { node: string };
};
const REQUIRED = Number(engines.node.replace('>=', ''));

/** Runs a module as if Node had this version. */
function runOn(version: string, ...options: string[]) {
  const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(pretend)}`;
  return run({ command: [NODE, preload, ...options, MAIN, 'xxxx'] });
}

test('a Node that is too old is reported in one line', async () => {
  const version = `${REQUIRED - 1}.11.0`;
  const reported = { stdout: '', stderr: `Node ${version} is too old; install Node ${REQUIRED} or later.\n` };
  expect(await runOn(version)).toEqual({ code: 1, signal: null, ...reported });
  // As in npm run dev: it does not wait for a change of a file.
  expect(await runOn(version, '--watch')).toMatchObject({ code: null, ...reported });
});

test('on the oldest allowed Node, an unknown command is reported in one line, with the known ones', async () => {
  const { code, stdout, stderr } = await runOn(`${REQUIRED}.0.0`);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^error: unknown command 'xxxx'; [^\n]* replay[^\n]*\n$/);
});
