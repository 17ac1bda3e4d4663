import { once } from 'node:events';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { tempDir } from '@event-sourced/testing/tempDir';
import { CommanderError } from 'commander';
import { expect } from 'vitest';
import { commandLine } from '../../src/cli/commandLine.ts';
import { readConfig } from '../../src/config.ts';

type Env = Record<string, string>;
/** `code` is null if the command was stopped, as by a signal. */
type Ended = { code: number | null; stdout: string; stderr: string };

/**
 * Runs the arguments after `npx plant-store` in this process; the default of DATA_DIR does not exist. Returns
 * the output and the exit code. The server, which needs a process, prints its name.
 */
export const runCli = (...given: Parameters<typeof startCli>): Promise<Ended> => startCli(...given).ended;

/** Starts the command, and returns its output so far and a way to stop it. */
export function startCli(
  args: readonly string[],
  env: Env = {},
  input: readonly (string | Uint8Array)[] = [],
) {
  const settings = { DATA_DIR: env.DATA_DIR ?? join(tempDir(), 'data'), MERKLE_TREE: 'on', ...env };
  const stopping = new AbortController();
  let stdout = '';
  let stderr = '';
  let reader = Promise.resolve();
  const output = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, done) {
      stdout += text;
      this.emit('printed');
      void reader.then(() => done());
    },
  });
  const print = (line: string): void => {
    stderr += `${line}\n`;
  };
  const program = commandLine(args, {
    serve: async () => void output.write('server\n'),
    run: (command) =>
      command({
        get config() {
          return readConfig(settings);
        },
        env: settings,
        input: Readable.from(input.map((piece) => Buffer.from(piece))),
        output,
        print,
        onTerminal: false,
        signal: stopping.signal,
        onFatal: (error) => {
          throw error;
        },
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
  const ended = (async (): Promise<Ended> => {
    let code = 0;
    try {
      await program.parseAsync(args, { from: 'user' });
    } catch (error) {
      if (error instanceof CommanderError) return { code: error.exitCode, stdout, stderr };
      if (!stopping.signal.aborted) print((error as Error).message);
      code = (error as { exitCode?: number }).exitCode ?? 1;
    }
    return { code: stopping.signal.aborted ? null : code, stdout, stderr };
  })();

  return {
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    /** Resolves when the output matches; rejects if the command ends without it. */
    async printed(pattern: RegExp): Promise<void> {
      while (!pattern.test(stdout)) {
        const over = await Promise.race([ended.then(() => true), once(output, 'printed').then(() => false)]);
        if (over && !pattern.test(stdout)) throw new Error(`ended without printing ${pattern}: ${stdout}`);
      }
    },
    /** The reader of the output stops reading until a promise is fulfilled. */
    pauseReader(until: Promise<unknown>): void {
      reader = until.then(() => {});
    },
    /** Stops the command like a signal. */
    stop: () => stopping.abort(new Error('stopped by the test')),
  };
}

/** Expects no output, and one matching line on stderr. */
export function expectRefused({ code, stdout, stderr }: Ended, line: RegExp): void {
  const oneLine = expect.stringMatching(RegExp(`^(?=.*(?:${line.source}))[^\\n]+\\n$`, 'u'));
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: oneLine });
}

/** The output of a command that succeeds, which prints nothing on stderr. */
export function succeeded({ code, stdout, stderr }: Ended): string {
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** The result of a command that fails with this line and prints nothing else. */
export const failure = (line: string): Ended => ({ code: 1, stdout: '', stderr: `${line}\n` });

/** The result of a command without the progress lines on stderr, whose number depends on the machine. */
export function withoutProgress<E extends Ended>(ended: E): E {
  const line = /^\w+: \d+ events, \d+ %, \d+\/s, \d+ s left\n/gm;
  return { ...ended, stderr: ended.stderr.replaceAll(line, '') };
}
