import type { Command } from 'commander';

/** Reports an error in the command line in one line. */
export function reportInOneLine(program: Command): void {
  const names = (): string => program.commands.map((command) => command.name()).join(', ');
  program.configureOutput({
    outputError: (text, output) => output(inOneLine(withoutValues(text), names())),
  });
}

/** An error message without values: a mistyped argument may have a password. */
function withoutValues(text: string): string {
  return text
    .replace(/(?<=unknown command ')[\w-]*[^\w-].*(?=')/s, '…')
    .replace(/(?<=unknown option '-[^-]).+(?=')/s, '…')
    .replace(/(?<=unknown option '--[\w-]*)[^\w-].*(?=')/s, '…')
    .replace(/(?<=but got \d+): .*/s, '.\n');
}

/** Commander prints suggestions for misspelled commands and options on a second line. */
function inOneLine(text: string, commands: string): string {
  return text
    .replace(/\n\(Did you mean (.*)\?\)/, '; did you mean $1?')
    .replace(/(?<=unknown command '[^']*')(?=\n)/, `; the commands are ${commands}`);
}

/** Parses an option that must not be repeated. */
export const once = (name: string) => (value: string, before: string | undefined) => {
  if (before !== undefined) throw new Error(`--${name} must be given once.`);
  return value;
};
