import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { CommanderError } from 'commander';
import { expect } from 'vitest';
import { commandLine } from '../../src/commands/commandLine.ts';
import { readConfig } from '../../src/config.ts';
import { copy } from '../../src/copy/copy.ts';
import { tempDir } from '../support/tempDir.ts';

/**
 * What is typed after `npm run -s`, run here instead of in a process of its own, where no DATA_DIR is given without one:
 * what it prints, and how it ends. The server and `token`, which belong to a process, print what they would be given.
 */
export async function typed(args: readonly string[], env: Record<string, string> = {}) {
  const settings = { DATA_DIR: join(tempDir(), 'data'), ...env };
  let stdout = '';
  let stderr = '';
  const output = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, done) {
      stdout += text;
      done();
    },
  });
  const say = (line: string): void => {
    stderr += `${line}\n`;
  };
  const rest = {
    say,
    onTerminal: false,
    onFatal: (error: Error) => {
      throw error;
    },
  };
  const program = commandLine({
    server: async () => void output.write('server\n'),
    token: async (...given) => void output.write(`${JSON.stringify(given)}\n`),
    copy: async (given) => void output.write(`${await copy(given, rest)}\n`),
    command: (run) =>
      run({
        get config() {
          return readConfig(settings);
        },
        input: Readable.from([]),
        output,
        signal: new AbortController().signal,
        ...rest,
      }),
  });
  for (const command of [program, ...program.commands]) {
    command.configureOutput({
      writeOut: (text) => void output.write(text),
      writeErr: (text) => {
        stderr += text;
      },
    });
  }
  try {
    await program.parseAsync(args, { from: 'user' });
    return { code: 0, stdout, stderr };
  } catch (error) {
    if (error instanceof CommanderError) return { code: error.exitCode, stdout, stderr };
    return { code: 1, stdout, stderr: `${stderr}${(error as Error).message}\n` };
  }
}

type Ended = { code: number | null; stdout: string; stderr: string };

/** Nothing is printed, and one line on stderr says what matches. */
export function expectRefused({ code, stdout, stderr }: Ended, line: RegExp): void {
  const oneLine = expect.stringMatching(RegExp(`^(?=.*(?:${line.source}))[^\\n]+\\n$`, 'u'));
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: oneLine });
}
