import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { AtEnd } from '@event-sourced/testing/tempDir';
import { onTestFinished } from 'vitest';

/** The project directory. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const NODE = process.execPath;
export const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

export type Ended = { code: number | null; signal: NodeJS.Signals | null };

export type Options = Pick<SpawnOptions, 'uid' | 'gid'> & {
  /** The current directory; that of the project by default. */
  cwd?: string;
  /** The environment, except PATH and HOME; without MERKLE_TREE and DOCS there is neither a Merkle tree nor a page. */
  env?: Record<string, string>;
  /** The command; the service by default. */
  command?: readonly string[];
};

/** A process in its own group, with its output, which is killed at the end of the test; with `afterAll`, of the file. */
export function start(
  { cwd = ROOT, env = {}, command = [NODE, MAIN], uid, gid }: Options,
  atEnd: AtEnd = onTestFinished,
) {
  const [file = '', ...args] = command;
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
  const child: ChildProcess = spawn(file, args, {
    cwd,
    env: { PATH, HOME, NODE_COMPILE_CACHE, PORT: '0', MERKLE_TREE: 'off', DOCS: 'off', ...env },
    detached: true,
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  });
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin?.on('error', () => {}); // it may end before it has read its input
  // 'close', not 'exit': it also waits for every descendant that has the output open.
  const ended: Promise<Ended> = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  ended.catch(() => {});

  /** Resolves with the match when the output matches; rejects if the process ends without it. */
  async function printed(pattern: RegExp): Promise<RegExpMatchArray> {
    let over = false;
    for (;;) {
      const match = stdout.match(pattern);
      if (match) return match;
      if (over) throw new Error(`ended without printing ${pattern}:\n${stdout}${stderr}`);
      const next = new AbortController();
      over = await Promise.race([
        ended.then(() => true),
        once(child.stdout as NonNullable<typeof child.stdout>, 'data', next).then(() => false),
      ]);
      next.abort();
    }
  }

  /** Sends SIGKILL to its process group. */
  async function kill(): Promise<void> {
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    await ended.catch(() => {});
  }
  atEnd(kill);

  return {
    pid: child.pid as number,
    stdin: child.stdin as NonNullable<typeof child.stdin>,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    printed,
    /** The URL of the service. */
    listening: async () => (await printed(/listening at (http:\/\/[^\s"]+)/))[1] as string,
    /** Sends SIGTERM, and resolves at its end. */
    terminate(): Promise<Ended> {
      process.kill(child.pid as number, 'SIGTERM');
      return ended;
    },
    kill,
  };
}

export type Process = ReturnType<typeof start>;

/** Signals a process and all its running descendants. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Runs a command with this input to its end. */
export async function run(options: Options, input = ''): Promise<Ended & { stdout: string; stderr: string }> {
  const started = start(options);
  started.stdin.end(input);
  const ended = await started.ended;
  return { ...ended, stdout: started.stdout(), stderr: started.stderr() };
}

/** Whether a command works on this machine; prints a line if it does not. */
export function canRun(what: string, [file = '', ...args]: readonly string[]): boolean {
  const works = spawnSync(file, args, { timeout: 120_000 }).status === 0;
  if (!works)
    console.info(`skipped: ${what} cannot be tested here, since \`${file} ${args.join(' ')}\` fails`);
  return works;
}
