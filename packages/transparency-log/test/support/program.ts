import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { type Command, CommanderError } from 'commander';
import { expect } from 'vitest';
import { commandLine } from '../../../monitor/src/cli/commandLine.ts';

/** `code` is null if the command was stopped, as by a signal. */
export type Ended = { code: number | null; stdout: string; stderr: string };

type Io = { output: Writable; print: (line: string) => void; signal: AbortSignal };

/** Runs a command line in this process, and returns its output so far and a way to stop it. */
export function startProgram(args: readonly string[], open: (io: Io) => Command) {
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
  const program = open({ output, print, signal: stopping.signal });
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

type Given = { token?: string; input?: readonly (string | Uint8Array)[] };

/** Starts `transparency-log` with these arguments. */
export const startCommand = (args: readonly string[], { token = 'secret', input = [] }: Given = {}) =>
  startProgram(args, ({ output, print, signal }) =>
    commandLine({
      env: { TOKEN: token },
      input: Readable.from(input.map((piece) => Buffer.from(piece))),
      write: async (text) => void output.write(text),
      print,
      signal,
    }),
  );

/** Runs `transparency-log` to its end. */
export const runCommand = (...given: Parameters<typeof startCommand>): Promise<Ended> =>
  startCommand(...given).ended;

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
