import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MAIN, NODE, ROOT, run } from '../support/process.ts';

const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  engines: { node: string };
};
const REQUIRED = Number(engines.node.replace('>=', ''));

/** Runs the entry as if Node had this version. */
function runOn(version: string) {
  const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(pretend)}`;
  return run({ command: [NODE, preload, MAIN, 'unknown'] });
}

test('a Node that is too old is reported in one line', async () => {
  const version = `${REQUIRED - 1}.11.0`;
  const { code, stdout, stderr } = await runOn(version);
  const message = `Node ${version} is too old; use Node ${REQUIRED} or later.\n`;
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: message });
  expect((await runOn(`${REQUIRED}.0.0`)).stderr).toContain('unknown command');
});
