import { expect } from 'vitest';
import { withoutProgress } from '../commands/typed.ts';
import { canRun, start } from './process.ts';

/** A command on a terminal of its own, 80 columns wide: what is written to its stdin is typed there. */
export const onTerminal = (command: readonly string[]): string[] => {
  const quoted = command.map((part) => `'${part}'`).join(' ');
  return ['script', '-qec', `stty cols 80; exec ${quoted}`, '/dev/null'];
};

export const hasTerminal = canRun('a command on a terminal', ['script', '-qec', 'true', '/dev/null']);

/** A way to end a command before its work is done. */
export type Interruption = 'SIGTERM' | 'Ctrl-C' | 'SIGKILL';

type Work = {
  command: readonly string[];
  env?: Record<string, string>;
  /** Resolves once the work has begun. */
  begun: () => Promise<void>;
  /** What a terminal shows then. */
  bar: RegExp;
  /** What is printed once it is done. */
  result: RegExp;
};

/** Begins the work of a command and interrupts it; it says nothing besides its progress. */
export async function interrupted(
  how: Interruption,
  { command, env = {}, begun, bar, result }: Work,
): Promise<void> {
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
  await begun();
  process.kill(working.pid, how);
  const ended = { ...(await working.ended), stdout: working.stdout(), stderr: working.stderr() };
  expect(withoutProgress(ended)).toEqual({ code: null, signal: how, stdout: '', stderr: '' });
}
