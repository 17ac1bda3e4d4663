import { canRun } from './process.ts';

/** A command on its own terminal, 80 columns wide; text written to its stdin is typed there. */
export const onTerminal = (command: readonly string[]): string[] => {
  const quoted = command.map((part) => `'${part}'`).join(' ');
  return ['script', '-qec', `stty cols 80; exec ${quoted}`, '/dev/null'];
};

export const CTRL_C = '\x03';

export const hasTerminal = canRun('a command on a terminal', ['script', '-qec', 'true', '/dev/null']);
