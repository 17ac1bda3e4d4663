import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MAIN, NODE, ROOT, run } from '../support/process.ts';

const { engines, scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  engines: { node: string };
  scripts: Record<string, string>;
};
const REQUIRED = Number(engines.node.replace('>=', ''));

/** Runs a module as if Node had this version. */
function runOn(version: string, module = MAIN) {
  const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(pretend)}`;
  return run({ command: [NODE, preload, module, 'xxxx'] });
}

/** The module that a script of package.json runs first, without options, which an old Node may not know. */
const firstModuleOf = (script: string): string =>
  join(ROOT, scripts[script]?.match(/^node (src\S+)/)?.[1] ?? 'none');

test('a Node that is too old is reported in one line', async () => {
  const version = `${REQUIRED - 1}.11.0`;
  const message = `Node ${version} is too old; install Node ${REQUIRED} or later.\n`;
  for (const module of new Set([MAIN, firstModuleOf('start'), firstModuleOf('dev')])) {
    const { code, stdout, stderr } = await runOn(version, module);
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: message });
  }
});

test('on the oldest allowed Node, an unknown command is reported in one line, with the known ones', async () => {
  const { code, stdout, stderr } = await runOn(`${REQUIRED}.0.0`);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^error: unknown command 'xxxx'; [^\n]* replay[^\n]*\n$/);
});
