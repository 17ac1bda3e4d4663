import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };

const REQUIRED = manifest.engines.node.replace('>=', '');
const [MAJOR, MINOR] = REQUIRED.split('.').map(Number) as [number, number];
const NODE = process.execPath;

/** Prints its arguments and the signals that it gets, and ends with the code 3 after a signal. */
const PROGRAM = `for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => { console.log(signal); clearInterval(timer); process.exitCode = 3; });
const timer = setInterval(() => {}, 1_000);
console.log(...process.argv.slice(2));`;

/** A directory with both ways to a program, and the Node that npm has installed. */
function checkout({ installed = true, program = PROGRAM } = {}): string {
  const dir = tempDir();
  cpSync(join(import.meta.dirname, '../../src/process/node.js'), join(dir, 'node.mjs'));
  writeFileSync(join(dir, 'program.js'), program);
  const [load, run] = ['import("./program.js")', 'runNode(["program.js", ...process.argv.slice(2)])'];
  writeFileSync(join(dir, 'run.mjs'), `import { runNode } from './node.mjs'; ${run};`);
  writeFileSync(
    join(dir, 'main.mjs'),
    `import { onRequiredNode } from './node.mjs'; onRequiredNode(() => ${load});`,
  );
  const bin = join(dir, `node_modules/node-${process.platform}-${process.arch}/bin`);
  mkdirSync(bin, { recursive: true });
  if (installed) symlinkSync(NODE, join(bin, 'node'));
  return dir;
}

/** Arguments of a Node that pretends to have this version; what it starts does not. */
const pretending = (version: string): string[] => [
  `--import=data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'${version}'}})`,
];

function start(cwd: string, [file = '', ...args]: string[], env = {}) {
  return spawn(file, args, { cwd, env: { ...process.env, ...env } });
}

async function ended(child: ChildProcessWithoutNullStreams) {
  const [[code, signal], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, signal, stdout, stderr };
}

const TOO_OLD = pretending(`${MAJOR - 1}.${MINOR}.0`);

describe.each([
  ['a command', ['run.mjs']],
  ['with a Node that is too old, the same command', [...TOO_OLD, 'main.mjs']],
])('%s on the installed Node', (_, args) => {
  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'gets its arguments and %s, and gives its exit code',
    async (signal) => {
      const child = start(checkout(), [NODE, ...args, 'a b', "'c"]);
      child.stdout.once('data', () => child.kill(signal));
      expect(await ended(child)).toEqual({
        code: 3,
        signal: null,
        stdout: `a b 'c\n${signal}\n`,
        stderr: '',
      });
    },
  );

  test('is reported as ended by the signal that ended it', async () => {
    const dir = checkout({ program: `process.kill(process.pid, 'SIGTERM')` });
    expect(await ended(start(dir, [NODE, ...args]))).toMatchObject({ code: null, signal: 'SIGTERM' });
  });
});

describe.each(['run.mjs', 'main.mjs'])('if npm has installed no Node, %s', (file) => {
  const bare = () => checkout({ installed: false, program: `console.log('here')` });

  test.each([`${MAJOR - 1}.${MINOR}.0`, `${MAJOR}.${MINOR - 1}.9`])(
    'reports in one line that Node %s is too old',
    async (version) => {
      const stderr = `Node ${version} is too old; install Node ${REQUIRED} or later.\n`;
      const old = [NODE, ...pretending(version), file];
      expect(await ended(start(bare(), old))).toEqual({ code: 1, signal: null, stdout: '', stderr });
    },
  );

  test.each([`${REQUIRED}.0`, `${MAJOR + 1}.0.0`])('runs on Node %s', async (version) => {
    const oldest = [NODE, ...pretending(version), file];
    expect(await ended(start(bare(), oldest))).toMatchObject({ code: 0, stdout: 'here\n', stderr: '' });
  });
});
