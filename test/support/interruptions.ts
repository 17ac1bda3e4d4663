import { expect } from 'vitest';
import { withoutProgress } from './cli.ts';
import { canRun, start } from './process.ts';

/** A command on its own terminal, 80 columns wide: what is written to its stdin is typed there. */
export const onTerminal = (command: readonly string[]): string[] => {
  const quoted = command.map((part) => `'${part}'`).join(' ');
  return ['script', '-qec', `stty cols 80; exec ${quoted}`, '/dev/null'];
};

export const hasTerminal = canRun('a command on a terminal', ['script', '-qec', 'true', '/dev/null']);

/** A way to interrupt a command. */
export type Interruption = 'SIGTERM' | 'Ctrl-C' | 'SIGKILL';

type Work = {
  command: readonly string[];
  env?: Record<string, string>;
  /** Resolves when the work has started. */
  started: () => Promise<void>;
  /** The progress bar on a terminal. */
  bar: RegExp;
  /** The output of a completed command. */
  result: RegExp;
};

/** Starts a command and interrupts it; expects no output except its progress. */
export async function interrupted(how: Interruption, { command, env = {}, started, bar, result }: Work) {
  if (how === 'Ctrl-C') {
    const watched = start({ command: onTerminal(command), env });
    await watched.printed(bar);
    watched.stdin.write('\x03');
    expect((await watched.ended).code).toBe(128 + 2);
    expect(watched.stdout()).not.toMatch(/^\s+at /m);
    expect(watched.stdout()).not.toMatch(result);
    return;
  }
  const working = start({ command, env });
  await started();
  process.kill(working.pid, how);
  const ended = { ...(await working.ended), stdout: working.stdout(), stderr: working.stderr() };
  expect(withoutProgress(ended)).toEqual({ code: null, signal: how, stdout: '', stderr: '' });
}
