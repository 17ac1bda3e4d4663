import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { canRun, NODE, ROOT, run, start } from '../support/process.ts';

const REQUIRED = manifest.engines.node.replace('>=', '');
const [MAJOR, MINOR] = REQUIRED.split('.').map(Number) as [number, number];
const TOO_OLD = [`v${MAJOR - 1}.${MINOR}.0`, `v${MAJOR}.${MINOR - 1}.9`];
const NEW_ENOUGH = [`v${REQUIRED}.0`, `v${MAJOR + 1}.0.0`];

const SHELLS = [['dash'], ['bash'], ['busybox', 'sh']].filter((shell) =>
  canRun(`the launchers in ${shell.join(' ')}`, [...shell, '-c', 'true']),
);
const LAUNCHED = {
  'plant-store': 'src/cli/main.ts',
  'transparency-log': 'packages/monitor/src/cli/bin.js',
};
const LAUNCHERS = Object.keys(LAUNCHED);

/** Prints which Node runs it, its arguments and the signals that it gets, and ends with the code 3 after a signal. */
const PROGRAM = `for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => { console.log(signal); clearInterval(timer); process.exitCode = 3; });
const timer = setInterval(() => {}, 1_000);
console.log(process.env.RUNS_ON, ...process.argv.slice(2));`;
const ENDS = `console.log(process.env.RUNS_ON, ...process.argv.slice(2)); process.exitCode = 3;`;

const where = (tool: string): string =>
  spawnSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).stdout.trim();

/** A Node that claims to have this version. */
function fakeNode(file: string, version: string, name: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const script = `#!/bin/sh\n[ "$*" = --version ] && echo ${version} && exit\nRUNS_ON=${name} exec '${NODE}' "$@"\n`;
  writeFileSync(file, script);
  chmodSync(file, 0o755);
}

type Nodes = { own?: string; installed?: string; program?: string };

/** A checkout with the launchers, whose name has a space, and a PATH without any other Node. */
function checkout({ own, installed, program = ENDS }: Nodes = {}) {
  const dir = join(tempDir(), 'plant store');
  for (const file of ['bin', 'package.json']) cpSync(join(ROOT, file), join(dir, file), { recursive: true });
  for (const file of Object.values(LAUNCHED)) {
    mkdirSync(join(dir, file, '..'), { recursive: true });
    writeFileSync(join(dir, file), program);
  }
  mkdirSync(join(dir, 'node_modules'));
  writeFileSync(join(dir, 'node_modules/.package-lock.json'), '{}');
  const PATH = join(dir, 'path');
  mkdirSync(PATH);
  for (const tool of ['sh', 'readlink']) symlinkSync(where(tool), join(PATH, tool));
  const npmNode = join(dir, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  if (own !== undefined) fakeNode(join(PATH, 'node'), own, 'own');
  if (installed !== undefined) fakeNode(npmNode, installed, 'installed');
  return { dir, env: { PATH, CDPATH: dir }, npmNode, launcher: (name: string) => join(dir, 'bin', name) };
}

const OWN = { own: `v${REQUIRED}.0` };
const INSTALLED = { own: TOO_OLD[0] as string, installed: `v${MAJOR + 2}.0.0` };

describe.each(LAUNCHERS)('bin/%s', (name) => {
  test.each(name === 'plant-store' ? SHELLS : SHELLS.slice(0, 1))(
    'in %s passes on its arguments and the exit code, through links and in any directory',
    async (...shell) => {
      const { dir, env, launcher } = checkout(OWN);
      const [elsewhere, linked] = [tempDir(), tempDir()];
      symlinkSync(launcher(name), join(linked, 'absolute'));
      symlinkSync('absolute', join(linked, 'chained'));
      symlinkSync(dir, join(linked, 'checkout'));
      const [file = '', ...applet] = shell;
      for (const [cwd, path] of [
        [dir, `bin/${name}`],
        [join(dir, 'bin'), name],
        [elsewhere, launcher(name)],
        [linked, './chained'],
        [linked, `checkout/bin/${name}`],
      ] as const)
        expect(
          await run({ cwd, env, command: [where(file), ...applet, path, 'a b', '--bogus', "'c", ''] }),
        ).toEqual({ code: 3, signal: null, stdout: "own a b --bogus 'c \n", stderr: '' });
    },
  );

  test.each(['SIGINT', 'SIGTERM'] as const)('passes on %s', async (signal) => {
    for (const nodes of [OWN, INSTALLED]) {
      const { env, launcher } = checkout({ ...nodes, program: PROGRAM });
      const launched = start({ env, command: [launcher(name)] });
      await launched.printed(/\n/);
      process.kill(launched.pid, signal);
      expect(await launched.ended).toEqual({ code: 3, signal: null });
      expect(launched.stdout()).toMatch(RegExp(`\n${signal}\n$`));
    }
  });

  test('ends by the signal that ended the program', async () => {
    const program = `process.kill(process.pid, 'SIGTERM')`;
    const { env, launcher } = checkout({ ...OWN, program });
    expect(await run({ env, command: [launcher(name)] })).toMatchObject({ code: null, signal: 'SIGTERM' });
  });
});

test.each(SHELLS)('in %s, the program gets the names of ignored signals', async (...shell) => {
  const { env, launcher } = checkout({ ...OWN, program: 'console.log(process.env.IGNORED_SIGNALS)' });
  const [file = '', ...applet] = shell;
  const ignored = async (traps: string) => {
    const script = `${traps} exec ${[where(file), ...applet].join(' ')} '${launcher('plant-store')}'`;
    const { stdout, stderr } = await run({ env, command: ['sh', '-c', script] });
    expect(stderr).toBe('');
    return stdout.trim();
  };
  expect(await ignored('')).toBe('');
  expect(await ignored("trap '' HUP;")).toBe('SIGHUP');
  expect(await ignored("trap '' TERM INT;")).toBe('SIGINT SIGTERM');
});

describe('a launcher', () => {
  const launch = ({ env, launcher }: ReturnType<typeof checkout>) =>
    run({ env, command: [launcher('plant-store')] });
  const runsOn = (name: string) => ({ code: 3, signal: null, stdout: `${name}\n`, stderr: '' });

  test.each(['test', 'dev', 'bundle', 'build', 'types', 'lint'] as const)(
    'says which command installs what npm run %s needs',
    async (name) => {
      const { dir, env } = checkout(OWN);
      const stderr = `The development dependencies are missing: run \`npm ci\` in ${dir} first.\n`;
      const command = [where('sh'), '-c', manifest.scripts[name]];
      expect(await run({ cwd: dir, env, command })).toEqual({ code: 1, signal: null, stdout: '', stderr });
    },
  );

  test.each(NEW_ENOUGH)('runs on the Node in the PATH if it is %s', async (own) => {
    expect(await launch(checkout({ ...INSTALLED, own }))).toEqual(runsOn('own'));
  });

  test.each(TOO_OLD)('runs on the Node that npm has installed if the one in the PATH is %s', async (own) => {
    expect(await launch(checkout({ ...INSTALLED, own }))).toEqual(runsOn('installed'));
  });

  test('runs on the Node that npm has installed if the PATH has none', async () => {
    const { installed } = INSTALLED;
    expect(await launch(checkout({ installed }))).toEqual(runsOn('installed'));
  });

  test.each(TOO_OLD)('reports in one line which Node is needed if there is only %s', async (own) => {
    expect(await launch(checkout({ own }))).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: expect.stringMatching(RegExp(`^Install Node ${REQUIRED} or later\\..*\n$`)),
    });
  });

  test.each<[string, (file: string) => void]>([
    ['on a mount with noexec', (file) => chmodSync(file, 0o644)],
    ['without its loader, as on musl', (file) => writeFileSync(file, '#!/lib64/no-such-loader\n')],
  ])('reports in one line what to do if the Node of npm cannot be executed: %s', async (_, break_) => {
    const made = checkout(INSTALLED);
    break_(made.npmNode);
    const { code, stdout, stderr } = await launch(made);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(RegExp(`^Install Node ${REQUIRED} or later\\. .*${made.npmNode}.*\n$`));
  });

  test.each(LAUNCHERS)('says before npm ci what to run: %s', async (name) => {
    const { dir, env, launcher } = checkout(OWN);
    rmSync(join(dir, 'node_modules'), { recursive: true });
    expect(await run({ cwd: tempDir(), env, command: [launcher(name)] })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: `The dependencies are missing: run \`npm ci\` in ${dir} first.\n`,
    });
  });
});
